package model

import (
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/paceline/paceline/lease"
	"github.com/paceline/paceline/node"
	"github.com/paceline/paceline/webhook"
)

// window is what was true at some moment of a pass: from its first live read on.
type window struct {
	running   int      // the most nodes that make the budget
	unslotted []string // the nodes that rolled without a slot all the time
	// Since the last live read of the namespace: the highest percentage, and whether granting was allowed.
	percent int
	thawed  bool
	// adopted holds who was given a slot beside the pass though it did not roll all the time: adoption may
	// go over the count, and a pass cannot see what another does after its reads.
	adopted map[types.UID]bool
}

func (w *world) open() *window {
	x := &window{unslotted: w.unslotted(), adopted: map[types.UID]bool{}}
	w.windows = append(w.windows, x)
	w.widen(x)
	return x
}

func (w *world) widen(x *window) {
	x.running, x.percent = max(x.running, w.running()), max(x.percent, w.cell.Percent)
	if len(x.unslotted) > 0 {
		now := w.unslotted()
		x.unslotted = slices.DeleteFunc(x.unslotted, func(name string) bool { return !slices.Contains(now, name) })
	}
	x.thawed = x.thawed || (w.cell.Paces() && !w.cell.Frozen)
}

// recheck is called at each live read of the namespace.
func (x *window) recheck(w *world) {
	x.percent, x.thawed = 0, false
	w.widen(x)
}

// adopts is called at each adoption, before the next look at what rolls.
func (w *world) adopts(n lease.Node) {
	for _, x := range w.windows {
		if !slices.Contains(x.unslotted, n.Name) {
			x.adopted[n.UID] = true
		}
	}
}

// running counts the nodes that make the budget: cleared and ready, not paused, not being deleted.
func (w *world) running() int {
	count := 0
	for _, s := range w.sets {
		cleared := s.annotations[node.AnnotationCleared]
		if w.paces(s, w.cell) && !s.deleting && s.replicas > 0 && strings.Contains(cleared, `"ready":true`) {
			count++
		}
	}
	return count
}

// unslotted lists the nodes whose pods Kubernetes replaces now and that hold no slot.
func (w *world) unslotted() []string {
	var out []string
	for _, name := range w.names {
		s := w.sets[name]
		if s == nil || s.deleting || s.replicas == 0 || s.strategy == node.OnDelete || !w.paces(s, w.cell) || w.holds(s) {
			continue
		}
		outdated := func(p *pod) bool {
			return p.ordinal >= int(s.from()) && inRevision(p.revision).differs(s.template, w.cell.Pace)
		}
		if slices.ContainsFunc(w.podsOf(w.pods, name, s.uid), outdated) {
			out = append(out, name)
		}
	}
	return out
}

// granted is called at each grant. Invariant 1 (and 2: the pass may have decided on what was stale):
// holders after the grant and nodes rolling without a slot all through the pass are no more than the
// most nodes of the pass and the highest percentage since the namespace was last read make.
func (w *world) granted(x *window, n lease.Node) {
	holders := map[types.UID]bool{}
	for _, slot := range w.leases {
		if !slot.Free() && !x.adopted[slot.HolderUID] {
			holders[slot.HolderUID] = true
		}
	}
	w.widen(x)
	if slots := lease.Count(x.running, x.percent); len(holders)+len(x.unslotted) > slots {
		w.fail("(1) granted to %s: %d holders, and %v roll without a slot, for %d slots", n.Name, len(holders), x.unslotted, slots)
	}
	if !x.thawed {
		w.fail("(1) granted to %s in a cell that was frozen or did not pace since it was last read", n.Name)
	}
}

// account notes after a stored update what the writer asks for, and excuses a node whose pods may go
// without a slot by the documentation's own words.
func (w *world) account(r *request) {
	base, out := r.base, r.out
	if base.strategy == node.OnDelete && out.strategy == node.RollingUpdate {
		w.switched[out.uid] = true
	}
	w.ask(r)
	changed := base.differs(out.template, w.cell.Pace)
	switch {
	case r.own && !out.between(base.template, base.wanted()):
		w.fail("(8) %s makes %s of %s, for which %s waited", r, out.revision(), base.revision(), base.wanted().revision())
	case r.away && (changed || base.from() != out.from() || base.strategy != out.strategy || base.gated() != out.gated()):
		w.excuse(out, "the webhook was away")
	case w.paces(base, w.cell) && !w.paces(out, w.cell):
		w.excuse(out, "it left pacing")
	case (changed || base.gated() || base.strategy != out.strategy) && (!r.paced || !w.paces(out, w.cell) || r.reason == webhook.ReasonLeft):
		w.excuse(out, "it is not paced")
	case (changed || base.gated()) && (base.replicas == 0 || out.replicas == 0):
		w.excuse(out, "it is paused")
	case changed && !settled(base, w.cell.Pace):
		w.excuse(out, "it was not settled")
	case base.template != out.template && r.pace != w.cell.Pace:
		w.excuse(out, "the pace changed while the request was in admission")
	}
}

// ask notes what a writer's request asks for, and what waited and is not asked for any more.
func (w *world) ask(r *request) {
	base, name := r.base, r.out.name
	asked := w.asked[name]
	switch {
	case r.own:
		return
	case r.withdraws:
		asked = r.asked
	case r.away && base.pinned():
		asked = r.unseen()
	default:
		if r.asked.image != base.image {
			asked.image = r.asked.image
		}
		if r.asked.label != base.label {
			asked.label = r.asked.label
		}
	}
	before := base.wanted().image
	if before != asked.image {
		w.past[name] = append(w.past[name], before)
		running, known := base.view().Running()
		if base.gated() && known && before != imageOf(running) && !w.holds(r.out) && w.excuses[r.out.uid] == "" {
			w.wrongs[name][before] = true // waited, and was never begun
		}
	}
	w.asked[name] = asked
	delete(w.wrongs[name], asked.image)
}

// unseen is what a write asks for of a pinned node that no webhook saw: what it changes. A field that it puts back
// to what was pinned says nothing: the wish for it stands.
func (r *request) unseen() template {
	deferred, err := node.ParseDeferred(r.out.annotations[node.AnnotationDeferred])
	if err != nil {
		panic(err)
	}
	asked := r.asked
	for field, wish := range deferred.Fields {
		if field == node.FieldTemplate {
			stood, want := templateOf(wish.Stands), templateOf(wish.Want)
			if asked.image == stood.image {
				asked.image = want.image
			}
			if asked.label == stood.label {
				asked.label = want.label
			}
		} else if strconv.Quote(asked.image) == string(wish.Stands) {
			asked.image = strings.Trim(string(wish.Want), `"`)
		}
	}
	return asked
}

// settled is the documentation's word, of the object before a request.
func settled(s *set, pace node.Pace) bool {
	if s.gated() {
		return true
	}
	if v := s.view(); v.Cleared != nil {
		return v.Cleared.Canary.Equal(s.paced(), pace)
	}
	return s.status.observed == s.generation && s.status.current == s.status.update && s.status.ready > 0
}

func (w *world) excuse(s *set, why string) {
	if w.excuses[s.uid] == "" {
		w.log("%s may roll without a slot: %s", s.name, why)
		w.excuses[s.uid] = why
	}
}

// pardon ends the excuses of nodes that run what they ask for and are known to.
func (w *world) pardon() {
	for _, name := range w.names {
		s := w.sets[name]
		if s != nil && !s.gated() && w.excuses[s.uid] == "" && !w.paces(s, w.cell) && s.view().Drift(w.cell.Pace) {
			w.excuse(s, "it is not paced while it rolls")
		}
		if s == nil || w.excuses[s.uid] == "" || s.gated() || s.status.observed != s.generation || len(w.syncs[name]) > 0 {
			continue
		}
		v := s.view()
		pods := w.podsOf(w.pods, name, s.uid)
		odd := func(p *pod) bool {
			other := p.revision != s.revision() && s.strategy == node.RollingUpdate
			return p.deleting || !p.ready || other || inRevision(p.revision).differs(s.template, w.cell.Pace)
		}
		if v.Cleared != nil && v.Cleared.Canary.Equal(s.paced(), w.cell.Pace) && len(pods) == int(s.replicas) && !slices.ContainsFunc(pods, odd) && s.status.current == s.revision() {
			w.log("%s has settled", name)
			delete(w.excuses, s.uid)
		}
	}
}

// mayDisrupt is called before a pod goes for an update. Invariants 1 and 2: not of a node that was
// settled when it got its drift, with the webhook there, while it holds no slot.
func (w *world) mayDisrupt(s *set, p *pod, by string) {
	live := w.sets[s.name]
	if live == nil || live.uid != s.uid || w.excuses[s.uid] != "" || w.holds(live) || !inRevision(p.revision).differs(s.template, w.cell.Pace) {
		return
	}
	w.fail("(2) %s deletes %s for %s, which holds no slot", by, p.name, describe(live))
}

// mayStart is called before a pod is created.
func (w *world) mayStart(s *set, name, revision string) {
	live := w.sets[s.name]
	if s.strategy != live.strategy || w.excuses[s.uid] != "" || w.holds(live) {
		return
	}
	if s.strategy == node.OnDelete {
		w.mayRecreate(live, name, revision)
		return
	}
	// Invariant 4: what was withdrawn while it waited never rolls.
	if w.wrongs[s.name][inRevision(revision).image] {
		w.fail("(4) pod %s is created at %s, which was withdrawn while it waited", name, revision)
	}
	// The gate: pods of a waiting node that are lost or added come back on what the node runs.
	early := live.view().Cleared != nil && !live.view().Cleared.Ready
	older := (early || w.switched[s.uid]) && known.lostToOlder && w.draw != nil
	if running, ok := live.view().Running(); !older && live.gated() && ok && s.replicas > 0 && !inRevision(revision).paced().Equal(running, w.cell.Pace) {
		w.fail("(2) pod %s is created at %s while its node waits and runs %s", name, revision, imageOf(running))
	}
}

// mayRecreate is mayStart of an OnDelete node. A pod of one that waits comes as what it runs (invariant 10 of
// docs/reliability.md), unless the revision is gone, or somebody replaces the pods by hand.
func (w *world) mayRecreate(live *set, name, revision string) {
	v := live.view()
	running, known := v.Running()
	if !w.paces(live, w.cell) || !live.gated() || !known || live.replicas == 0 || inRevision(revision).paced().Equal(running, w.cell.Pace) {
		return
	}
	other := func(p *pod) bool { return !p.deleting && p.revision != v.Cleared.Revision }
	switch {
	case v.Cleared == nil || !slices.Contains(w.revisions[live.uid], v.Cleared.Revision):
		w.excuse(live, "nothing tells at which revision a lost pod was")
	case slices.ContainsFunc(w.podsOf(w.pods, live.name, live.uid), other):
		w.excuse(live, "its pods were replaced by hand")
	default:
		w.fail("(10) pod %s is created at %s while its node waits and runs %s", name, revision, imageOf(running))
	}
}

// check looks after every step at what holds at every moment.
func (w *world) check() {
	for _, x := range w.windows {
		w.widen(x)
	}
	w.pardon()
}

// excuseLabels is called when the pace changes: what was under way and not paced till then is not held.
func (w *world) excuseLabels() {
	for _, s := range w.sets {
		other := func(p *pod) bool { return p.revision != s.revision() }
		cleared := s.view().Cleared
		if w.cell.Pace == node.PaceTemplate && s.from() != node.HeldPartition && s.annotations[node.AnnotationHeld] == "" &&
			(slices.ContainsFunc(w.podsOf(w.pods, s.name, s.uid), other) || cleared != nil && !cleared.Canary.Equal(s.paced(), w.cell.Pace)) {
			w.excuse(s, "its label was under way when the pace changed")
		}
	}
}
