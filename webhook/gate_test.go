package webhook

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"

	"github.com/paceline/paceline/node"
)

// paced is a template of one container with this image and this environment.
func paced(image, env string) node.Paced {
	return node.Paced{
		Containers: map[string]string{"app": image}, InitContainers: map[string]string{}, Volumes: map[string]string{},
		Isolation: []byte("{}"), Template: "sha256:" + image + env,
	}
}

// set is a StatefulSet of the table: stored, or asked for.
type set struct {
	image, env string
	replicas   int32
	strategy   node.Strategy
	partition  *int32
	owned      map[string]string
	status     node.Status
	deleting   bool
}

func (s set) view() node.View {
	return node.NewView(
		node.Meta{Name: "rpc-0", Namespace: "cell", UID: "u", Deleting: s.deleting, Annotations: s.owned},
		node.Spec{Replicas: &s.replicas, Strategy: s.strategy, Partition: s.partition, Template: paced(s.image, s.env)},
		s.status,
	)
}

func (s set) with(changes ...change) set {
	s.owned = maps.Clone(s.owned)
	for _, c := range changes {
		c(&s)
	}
	return s
}

type change func(*set)

func image(name string) change  { return func(s *set) { s.image = name } }
func env(value string) change   { return func(s *set) { s.env = value } }
func scale(n int32) change      { return func(s *set) { s.replicas = n } }
func partition(p int32) change  { return func(s *set) { s.partition = &p } }
func says(n node.Status) change { return func(s *set) { s.status = n } }
func deleted(s *set)            { s.deleting = true }
func onDelete(s *set)           { s.strategy, s.partition = node.OnDelete, nil }

func rollingUpdate(p int32) change {
	return func(s *set) { s.strategy, s.partition = node.RollingUpdate, &p }
}

func annotate(key, value string) change {
	return func(s *set) {
		if s.owned == nil {
			s.owned = map[string]string{}
		}
		s.owned[key] = value
	}
}

func without(key string) change { return func(s *set) { delete(s.owned, key) } }

// runs writes cleared: the node was seen running this image.
func runs(image string) change {
	return annotate(node.AnnotationCleared, node.Cleared{
		Revision: "r-" + image, Ready: true, Running: paced(image, ""), Canary: paced(image, ""),
	}.String())
}

// canary writes cleared of a set whose ordinals from p up run another image than those below.
func canary(below, above string, p int32) change {
	return annotate(node.AnnotationCleared, node.Cleared{
		Revision: "r-" + above, Ready: true, Running: paced(below, ""), Partition: p, Canary: paced(above, ""),
	}.String())
}

func heldText(image string, own *int32) string {
	return node.Held{Running: paced(image, ""), Partition: own}.String()
}

// heldOver writes held: the node ran this image when it was held, its writer states this partition.
func heldOver(image string, own *int32) change {
	return annotate(node.AnnotationHeld, heldText(image, own))
}

const slotText = "paceline-slot-0/3"

func hasSlot(s *set) { annotate(node.AnnotationSlot, slotText)(s) }

func zero() *int32 { return ptr.To(int32(0)) }

// wanted is what a case ends in. Annotations of the result are compared with those of the base, in
// which one value of each name stands for all.
type wanted struct {
	reason    Reason
	held      string // the annotation held; "": none
	slot      bool
	cleared   bool
	partition *int32 // of the object after the patch
	fresh     bool
}

type gateCase struct {
	old   *set // nil: CREATE
	asked set
	proof Proof
	own   bool
	off   bool // not in a cell with a budget
	pace  node.Pace
	want  wanted
}

func (c gateCase) facts() Facts {
	owned := c.asked.owned
	if c.old != nil && !c.own {
		owned = c.old.owned
	}
	f := Facts{Owned: map[string]string{}, Own: c.own, Paced: !c.off, Pace: c.pace, Slot: c.proof}
	for _, name := range node.Owned() {
		if value, ok := owned[name]; ok {
			f.Owned[name] = value
		}
	}
	asked := c.asked
	asked.owned = f.Owned
	f.New = asked.view()
	if c.old != nil {
		old := c.old.view()
		f.Old = &old
	}
	if f.Pace == "" {
		f.Pace = node.PaceImages
	}
	return f
}

// update is a request that changes a stored object.
func update(old set, changes ...change) gateCase {
	return gateCase{old: &old, asked: old.with(changes...)}
}

func create(s set) gateCase { return gateCase{asked: s} }

func (c gateCase) by(proof Proof) gateCase        { c.proof = proof; return c }
func (c gateCase) byPaceline() gateCase           { c.own = true; return c }
func (c gateCase) unpaced() gateCase              { c.off = true; return c }
func (c gateCase) pacing(pace node.Pace) gateCase { c.pace = pace; return c }
func (c gateCase) gives(want wanted) gateCase     { c.want = want; return c }

// The nodes that requests change.
func bases() (rolling, manual, held, heldManual, fresh set) {
	rolling = set{image: "v1", replicas: 1, strategy: node.RollingUpdate, partition: zero()}.with(runs("v1"))
	manual = set{image: "v1", replicas: 1, strategy: node.OnDelete}.with(runs("v1"))
	held = rolling.with(image("v2"), partition(node.HeldPartition), heldOver("v1", zero()))
	heldManual = manual.with(image("v2"), heldOver("v1", nil))
	fresh = set{
		image: "v1", replicas: 1, strategy: node.RollingUpdate, partition: zero(),
		status: node.Status{Observed: true, CurrentRevision: "r", UpdateRevision: "r", Ready: 1},
	}
	return rolling, manual, held, heldManual, fresh
}

func gateCases() map[string]gateCase {
	rolling, manual, held, heldManual, fresh := bases()
	reserved := ptr.To(node.HeldPartition)
	three := ptr.To(int32(3))
	isHeld := func(own *int32, fresh bool) wanted {
		return wanted{reason: ReasonHeld, held: heldText("v1", own), cleared: true, partition: reserved, fresh: fresh}
	}
	passes := func(reason Reason) wanted { return wanted{reason: reason, cleared: true, partition: zero()} }
	cases := map[string]gateCase{
		// Holding.
		"RollingUpdate: drift without a slot is held by the partition": update(rolling, image("v2")).gives(isHeld(zero(), true)),
		"OnDelete: drift without a slot is held, there is no partition": update(manual, image("v2")).gives(
			wanted{reason: ReasonHeld, held: heldText("v1", nil), cleared: true, fresh: true}),
		"just installed and settled: held over the stored template": update(fresh, image("v2")).gives(
			wanted{reason: ReasonHeld, held: heldText("v1", zero()), partition: reserved, fresh: true}),
		"Paceline's own account is held too: a paced change is one": update(rolling, image("v2")).byPaceline().gives(isHeld(zero(), true)),
		"a second bump keeps the running fields of the first hold":  update(held, image("v3")).gives(isHeld(zero(), true)),
		"without cleared too": update(held.with(without(node.AnnotationCleared)), image("v3")).gives(
			wanted{reason: ReasonHeld, held: heldText("v1", zero()), partition: reserved, fresh: true}),
		"OnDelete: a second bump keeps them": update(heldManual, image("v3")).gives(
			wanted{reason: ReasonHeld, held: heldText("v1", nil), cleared: true, fresh: true}),
		"re-applied while held: nothing new":                    update(held).gives(isHeld(zero(), false)),
		"re-applied with the writer's partition: nothing new":   update(held, partition(0)).gives(isHeld(zero(), false)),
		"OnDelete: re-applied while held: nothing new":          update(heldManual).gives(wanted{reason: ReasonHeld, held: heldText("v1", nil), cleared: true}),
		"a hold that cannot be read still holds":                update(held.with(annotate(node.AnnotationHeld, "{")), image("v3")).gives(isHeld(nil, true)),
		"a template without what runs it, gated: it stays held": update(held.with(without(node.AnnotationCleared), without(node.AnnotationHeld))).gives(wanted{reason: ReasonHeld, held: node.Held{}.String(), partition: reserved}),
		"scale and a bump in one: held, the scale stands":       update(rolling, image("v2"), scale(3)).gives(isHeld(zero(), true)),

		// Unpaced changes.
		"an unpaced change on a settled node passes": update(rolling, env("x")).gives(passes(ReasonPass)),
		"an unpaced change while held stays held":    update(held, env("x")).gives(isHeld(zero(), false)),
		"scaling passes":                     update(rolling, scale(5)).gives(passes(ReasonPass)),
		"scaling a held node keeps the hold": update(held, scale(5)).gives(isHeld(zero(), false)),

		// rollout.pace: template.
		"pace template: any field of the template is held":       update(rolling, env("x")).pacing(node.PaceTemplate).gives(isHeld(zero(), true)),
		"pace template: an image is held":                        update(rolling, image("v2")).pacing(node.PaceTemplate).gives(isHeld(zero(), true)),
		"pace template: the environment set back lifts":          update(held.with(image("v1"), env("x")), env("")).pacing(node.PaceTemplate).gives(passes(ReasonLifted)),
		"pace template to images: a held environment is let go":  update(held.with(image("v1"), env("x"))).gives(passes(ReasonLifted)),
		"pace template: what the template does not hold, passes": update(rolling, scale(2)).pacing(node.PaceTemplate).gives(passes(ReasonPass)),

		// Lifting.
		"the image set back lifts":                             update(held, image("v1")).gives(passes(ReasonLifted)),
		"OnDelete: the image set back lifts":                   update(heldManual, image("v1")).gives(wanted{reason: ReasonLifted, cleared: true}),
		"set back without cleared lifts":                       update(held.with(without(node.AnnotationCleared)), image("v1")).gives(wanted{reason: ReasonLifted, partition: zero()}),
		"a lift gives the writer's partition back":             update(held.with(heldOver("v1", three)), image("v1")).gives(wanted{reason: ReasonLifted, cleared: true, partition: three}),
		"a lift with a partition stated: that one":             update(held.with(heldOver("v1", three)), image("v1"), partition(1)).gives(wanted{reason: ReasonLifted, cleared: true, partition: ptr.To(int32(1))}),
		"cleared at the wish by Paceline lifts":                update(held, runs("v2")).byPaceline().gives(passes(ReasonLifted)),
		"cleared elsewhere by Paceline keeps holding":          update(held, runs("v0")).byPaceline().gives(isHeld(zero(), false)),
		"gated by the partition alone, cleared agrees: lifted": update(rolling.with(partition(node.HeldPartition))).gives(passes(ReasonLifted)),

		// Opening.
		"a proven slot opens and gives the writer's partition back": update(held.with(heldOver("v1", three)), hasSlot).byPaceline().by(ProofTrue).gives(
			wanted{reason: ReasonOpened, slot: true, cleared: true, partition: three}),
		"OnDelete: a proven slot takes held off":           update(heldManual, hasSlot).byPaceline().by(ProofTrue).gives(wanted{reason: ReasonOpened, slot: true, cleared: true}),
		"a new wish in mid-roll rolls under the same slot": update(rolling.with(image("v2"), hasSlot), image("v3")).by(ProofTrue).gives(wanted{reason: ReasonOpened, slot: true, cleared: true, partition: zero()}),
		"an open node's writer sets a partition: it stands": update(rolling.with(image("v2"), hasSlot), partition(2)).by(ProofTrue).gives(
			wanted{reason: ReasonOpened, slot: true, cleared: true, partition: ptr.To(int32(2))}),
		"a forged slot opens nothing and is dropped":     update(held, hasSlot).gives(isHeld(zero(), false)),
		"a forged slot with a bump opens nothing":        update(rolling, image("v2"), hasSlot).gives(isHeld(zero(), true)),
		"a slot that its Lease denies is dropped":        update(held.with(hasSlot)).by(ProofFalse).gives(isHeld(zero(), false)),
		"a slot that its Lease denies, in mid-roll":      update(rolling.with(image("v2"), hasSlot), env("x")).by(ProofFalse).gives(passes(ReasonInFlight)),
		"released by Paceline: slot off, cleared judged": update(rolling.with(image("v2"), hasSlot), without(node.AnnotationSlot), runs("v2")).byPaceline().gives(passes(ReasonPass)),

		// The Lease cannot be read.
		"Lease unreadable: a paced change is refused":           update(rolling.with(image("v2"), hasSlot), image("v3")).by(ProofUnknown).gives(wanted{reason: ReasonRefused, slot: true, cleared: true, partition: zero()}),
		"Lease unreadable: an unpaced change passes, slot kept": update(rolling.with(image("v2"), hasSlot), env("x")).by(ProofUnknown).gives(wanted{reason: ReasonPass, slot: true, cleared: true, partition: zero()}),
		"Lease unreadable: a gated node stays gated": update(held.with(hasSlot), env("x")).by(ProofUnknown).gives(
			wanted{reason: ReasonHeld, held: heldText("v1", zero()), slot: true, cleared: true, partition: reserved}),
		"Lease unreadable: 2147483647 is not stated": update(rolling.with(image("v2"), hasSlot), partition(node.HeldPartition)).by(ProofUnknown).gives(
			wanted{reason: ReasonPass, slot: true, cleared: true, partition: zero()}),
		"Lease unreadable, pace template: the environment is refused": update(rolling.with(image("v2"), hasSlot), env("x")).by(ProofUnknown).pacing(node.PaceTemplate).gives(
			wanted{reason: ReasonRefused, slot: true, cleared: true, partition: zero()}),

		// The writer's partition.
		"a partition stated while held is remembered, not followed":  update(held, partition(3)).gives(isHeld(three, false)),
		"a partition stated and taken back while held is remembered": update(held.with(heldOver("v1", three)), partition(0)).gives(isHeld(zero(), false)),
		"a partition stated with the bump is remembered":             update(rolling, image("v2"), partition(3)).gives(isHeld(three, true)),
		"a partition of its own before the bump is remembered":       update(rolling.with(partition(3)), image("v2")).gives(isHeld(three, true)),
		"2147483647 stated with the bump is not stated":              update(rolling.with(partition(3)), image("v2"), partition(node.HeldPartition)).gives(isHeld(three, true)),
		"2147483647 on a settled node is what was there before":      update(rolling.with(partition(3)), partition(node.HeldPartition)).gives(wanted{reason: ReasonPass, cleared: true, partition: three}),
		"2147483647 with none before is 0":                           update(rolling, partition(node.HeldPartition)).gives(passes(ReasonPass)),
		"2147483647 on a node in mid-roll is not stated":             update(rolling.with(image("v2"), partition(2)), partition(node.HeldPartition)).gives(wanted{reason: ReasonInFlight, cleared: true, partition: ptr.To(int32(2))}),
		"a canary is drift against what its ordinals run": update(rolling.with(image("v2"), partition(2), canary("v1", "v2", 2)), image("v1")).gives(
			wanted{reason: ReasonHeld, held: heldText("v2", ptr.To(int32(2))), cleared: true, partition: reserved, fresh: true}),
		"a canary at its template is settled": update(rolling.with(image("v2"), partition(2), canary("v1", "v2", 2)), env("x")).gives(
			wanted{reason: ReasonPass, cleared: true, partition: ptr.To(int32(2))}),

		// The strategy.
		"held, switched to OnDelete: still held, no partition": update(held, onDelete).gives(wanted{reason: ReasonHeld, held: heldText("v1", zero()), cleared: true}),
		"held with a partition of its own, switched to OnDelete: remembered": update(held.with(heldOver("v1", three)), onDelete).gives(
			wanted{reason: ReasonHeld, held: heldText("v1", three), cleared: true}),
		"held, switched to RollingUpdate: held by the partition":     update(heldManual, rollingUpdate(0)).gives(isHeld(zero(), false)),
		"switched to RollingUpdate with a bump: held":                update(manual, rollingUpdate(0), image("v2")).gives(isHeld(zero(), true)),
		"a settled node is switched as it likes":                     update(manual, rollingUpdate(0)).gives(passes(ReasonPass)),
		"an idle OnDelete node is held when Paceline has looked":     update(manual.with(image("v2")), annotate(node.AnnotationPlan, "x")).byPaceline().gives(wanted{reason: ReasonHeld, held: heldText("v1", nil), cleared: true}),
		"an OnDelete node that Paceline has not looked at passes":    update(manual.with(image("v2")), env("x")).gives(wanted{reason: ReasonInFlight, cleared: true}),
		"a RollingUpdate node in mid-roll is no idle one":            update(rolling.with(image("v2")), annotate(node.AnnotationPlan, "x")).byPaceline().gives(passes(ReasonInFlight)),
		"an OnDelete node whose cleared is not ready is no idle one": update(manual.with(image("v2"), annotate(node.AnnotationCleared, node.Cleared{Canary: paced("v1", "")}.String()))).byPaceline().gives(wanted{reason: ReasonInFlight, cleared: true}),

		// Not settled.
		"never ready: a paced fix passes": update(fresh.with(says(node.Status{Observed: true, CurrentRevision: "r", UpdateRevision: "r"})), image("v2")).gives(wanted{reason: ReasonInFlight, partition: zero()}),
		"just installed in mid-roll: a paced change passes": update(fresh.with(says(node.Status{Observed: true, CurrentRevision: "r", UpdateRevision: "s", Ready: 1})), image("v2")).gives(
			wanted{reason: ReasonInFlight, partition: zero()}),
		"just installed, status behind: a paced change passes":           update(fresh.with(says(node.Status{CurrentRevision: "r", UpdateRevision: "r", Ready: 1})), image("v2")).gives(wanted{reason: ReasonInFlight, partition: zero()}),
		"in mid-roll by cleared: a paced change passes":                  update(rolling.with(image("v2")), image("v3")).gives(passes(ReasonInFlight)),
		"in mid-roll, set back to what runs: passes":                     update(rolling.with(image("v2")), image("v1")).gives(passes(ReasonPass)),
		"released before it was ready is settled: the next bump is held": update(rolling.with(annotate(node.AnnotationCleared, node.Cleared{Running: paced("v1", ""), Canary: paced("v1", "")}.String())), image("v2")).gives(isHeld(zero(), true)),
		"cleared wins over a status that lags":                           update(rolling.with(says(node.Status{CurrentRevision: "a", UpdateRevision: "b"})), image("v2")).gives(isHeld(zero(), true)),

		// Paused.
		"replicas 0 in the new object: nothing is held":    update(rolling, image("v2"), scale(0)).gives(passes(ReasonPaused)),
		"replicas 0 in the old object: nothing is held":    update(rolling.with(scale(0)), image("v2")).gives(passes(ReasonPaused)),
		"paused while held: the hold ends":                 update(held, scale(0)).gives(passes(ReasonPaused)),
		"paused while held gives the partition back":       update(held.with(heldOver("v1", three)), scale(0)).gives(wanted{reason: ReasonPaused, cleared: true, partition: three}),
		"resumed from 0 with a bump: starts on the new":    update(rolling.with(scale(0)), image("v2"), scale(1)).gives(passes(ReasonPaused)),
		"scaled to 0 past the webhook, touched: hold ends": update(held.with(scale(0))).gives(passes(ReasonPaused)),

		// Leaving pacing.
		"left while held: everything of ours goes": update(held).unpaced().gives(wanted{reason: ReasonLeft, partition: zero()}),
		"left while held gives the partition back": update(held.with(heldOver("v1", three))).unpaced().gives(wanted{reason: ReasonLeft, partition: three}),
		"left with a slot: it goes too":            update(rolling.with(image("v2"), hasSlot), env("x")).unpaced().gives(wanted{reason: ReasonLeft, partition: zero()}),
		"never paced: passes untouched":            update(fresh, image("v2")).unpaced().gives(wanted{reason: ReasonPass, partition: zero()}),
		"left, bumped in the same request: rolls":  update(held, image("v3")).unpaced().gives(wanted{reason: ReasonLeft, partition: zero()}),

		// Deleting and creating.
		"a node that is being deleted passes as it is": update(held, image("v3"), deleted).gives(wanted{reason: ReasonPass, held: heldText("v1", zero()), cleared: true, partition: reserved}),
		"created":                                     create(fresh).gives(wanted{reason: ReasonCreated, partition: zero()}),
		"created with a partition of its own":         create(fresh.with(partition(2))).gives(wanted{reason: ReasonCreated, partition: ptr.To(int32(2))}),
		"a copy of a held node: ours is taken off":    create(held.with(hasSlot)).gives(wanted{reason: ReasonCreated, partition: zero()}),
		"a copy's 2147483647 is its held partition":   create(held.with(heldOver("v1", three))).gives(wanted{reason: ReasonCreated, partition: three}),
		"a copy's 2147483647 without held is 0":       create(held.with(without(node.AnnotationHeld))).gives(wanted{reason: ReasonCreated, partition: zero()}),
		"created outside pacing: a copy is freed too": create(held.with(hasSlot)).unpaced().gives(wanted{reason: ReasonLeft, partition: zero()}),

		// Carrying over.
		"a user takes held off: it is carried over":       update(held, without(node.AnnotationHeld), partition(0)).gives(isHeld(zero(), false)),
		"a user takes all of ours off: carried over":      update(held, without(node.AnnotationHeld), without(node.AnnotationCleared), partition(0)).gives(isHeld(zero(), false)),
		"a user forges cleared: it is not read":           update(held, runs("v2")).gives(isHeld(zero(), false)),
		"a user forges cleared with the bump: not read":   update(rolling, image("v2"), runs("v2")).gives(isHeld(zero(), true)),
		"a user forges held on a settled node: taken off": update(rolling, heldOver("v0", nil)).gives(passes(ReasonPass)),
		"a user forges another held: not read":            update(held, heldOver("v2", three)).gives(isHeld(zero(), false)),
	}
	return cases
}

func TestDecide(t *testing.T) {
	t.Parallel()
	seen := map[Reason]bool{}
	for name, c := range gateCases() {
		seen[c.want.reason] = true
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := c.facts()
			before := maps.Clone(f.Owned)
			got := Decide(f)
			require.Equal(t, c.want.reason, got.Reason)
			require.Equal(t, c.want.held, got.Owned[node.AnnotationHeld], "held")
			require.Equal(t, c.want.slot, got.Owned[node.AnnotationSlot] != "", "slot")
			require.Equal(t, c.want.cleared, got.Owned[node.AnnotationCleared] != "", "cleared")
			if c.want.cleared {
				require.Equal(t, f.Owned[node.AnnotationCleared], got.Owned[node.AnnotationCleared], "the webhook writes no cleared")
			}
			after := c.asked.partition
			if got.Partition != nil {
				after = got.Partition
			}
			require.Equal(t, c.want.partition, after, "partition")
			require.Equal(t, c.want.fresh, got.Freshly, "fresh")
			require.Equal(t, before, f.Owned, "the facts are left alone")
			require.Equal(t, got, Decide(f), "the same facts, the same decision")
		})
	}
	for _, reason := range []Reason{
		ReasonPass, ReasonCreated, ReasonHeld, ReasonLifted, ReasonOpened, ReasonInFlight, ReasonPaused, ReasonLeft, ReasonRefused,
	} {
		require.True(t, seen[reason], "no case ends in %s", reason)
	}
}

// Whatever is asked, the result is one that the same rules leave alone: admission runs again on
// every write, and a second look may not change what the first has decided.
func TestDecideIsStable(t *testing.T) {
	t.Parallel()
	for name, c := range gateCases() {
		if c.want.reason == ReasonRefused || c.asked.deleting {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := Decide(c.facts())
			stored := c.asked
			stored.owned = first.Owned
			if first.Partition != nil {
				stored.partition = first.Partition
			}
			again := gateCase{old: &stored, asked: stored, own: c.own, off: c.off, pace: c.pace, proof: c.proof}
			if _, there := first.Owned[node.AnnotationSlot]; !there {
				again.proof = ProofNone
			}
			second := Decide(again.facts())
			require.Equal(t, first.Owned, second.Owned)
			if second.Partition != nil {
				require.Equal(t, stored.partition, second.Partition)
			}
			require.False(t, second.Freshly)
		})
	}
}
