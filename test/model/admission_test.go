package model

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/paceline/paceline/lease"
	"github.com/paceline/paceline/node"
	"github.com/paceline/paceline/webhook"
)

var errConflict = errors.New("conflict")

// request is an update of a StatefulSet on its way through the API server: admission sees the stored
// object and the Lease at one moment, the object is stored at a later one if it is still the same.
type request struct {
	by     string
	name   string
	uid    types.UID
	rv     int64 // 0: unconditional; the API server tries again with the object as it is then
	own    bool
	change func(*set)

	base, out *set
	// asked is the template as it was asked for, before the webhook. withdraws: it takes back what is deferred.
	asked       template
	withdraws   bool
	away, paced bool
	pace        node.Pace // the cell's, at admission
	reason      webhook.Reason
}

// Writers, by what their requests are called. Others patch, and name nothing but what they change.
const (
	byRender  = "render"      // a whole object without Paceline's annotations
	byApply   = "kubectl"     // client-side: last-applied states the whole template
	byApplier = "server-side" // an Apply entry owns the image
)

func (r *request) author() node.Author {
	switch {
	case r.own:
		return node.Author{FieldManager: "paceline", User: "paceline"}
	case r.by == byRender || r.by == byApply || r.by == byApplier:
		return node.Author{FieldManager: r.by, User: "writer"}
	}
	return node.Author{FieldManager: "patch", User: "writer"}
}

// evidence is what webhook/withdraw.go reads of the request.
func (r *request) evidence() webhook.Evidence {
	_, there := r.out.annotations[node.AnnotationDeferred]
	e := webhook.Evidence{By: r.author(), Missing: !there}
	switch {
	case r.own:
	case r.by == byApplier:
		e.Applied = fieldpath.NewSet(fieldpath.MakePathOrDie("spec", "template", "spec", "containers", fieldpath.KeyByFields("name", "app"), "image"))
	case r.by == byApply && r.base.applied != r.out.applied:
		e.LastApplied = []byte(r.out.applied)
	}
	return e
}

// takesBack is the documentation's rules W1 to W3, of a request that leaves as it stands what is deferred of the node.
func (r *request) takesBack() bool {
	if r.own || !r.base.pinned() {
		return false
	}
	deferred, err := node.ParseDeferred(r.base.annotations[node.AnnotationDeferred])
	if err != nil {
		panic(err)
	}
	for field, wish := range deferred.Fields {
		whole := field == node.FieldTemplate
		if r.asked.image != r.base.image || (whole && r.asked != r.base.template) {
			return false // stated anew
		}
		e := r.evidence()
		switch {
		case e.Applied != nil && (!whole || wish.By == e.By): // W1
		case len(e.LastApplied) > 0: // W2
		case e.Missing && wish.By == e.By: // W3
		default:
			return false
		}
	}
	return true
}

// admit is the first half.
func (w *world) admit(r *request) error {
	base := w.sets[r.name]
	if base == nil || (r.uid != "" && base.uid != r.uid) || (r.rv != 0 && base.rv != r.rv) {
		return errConflict
	}
	out := base.clone()
	r.change(out)
	if out.strategy == node.RollingUpdate && out.partition == nil {
		out.partition = new(int32) // the API server's default
	}
	if out.strategy == node.OnDelete {
		out.partition = nil
	}
	r.base, r.out, r.away, r.paced, r.reason = base, out, w.webhookAway, w.paces(out, w.cell), ""
	r.asked, r.pace = out.template, w.cell.Pace
	if r.withdraws = r.takesBack(); r.away { // what the object says is then all there is
		r.withdraws = base.pinned() && !out.pinned()
	}
	if !w.called(base, out) {
		return nil
	}
	if w.webhookAway {
		return nil
	}
	return w.judge(r)
}

// called is the chart's registration: namespaceSelector and matchConditions.
func (w *world) called(base, out *set) bool {
	if out.deleting || (!w.cell.Enabled && base.annotations[node.AnnotationHeld] == "" && !base.pinned()) {
		return false
	}
	if base.pinned() {
		return true
	}
	for _, name := range append(node.Owned(), node.AnnotationTouch) {
		if base.annotations[name] != out.annotations[name] {
			return true
		}
	}
	return base.template != out.template || base.strategy != out.strategy || !reflect.DeepEqual(base.partition, out.partition) ||
		(base.replicas == 0) != (out.replicas == 0) || base.labels[node.LabelPacing] != out.labels[node.LabelPacing]
}

// judge asks the real gate, with the facts that webhook/statefulset.go gathers.
func (w *world) judge(r *request) error {
	facts, wishes := w.question(r, w.webhookCell)
	if mayDependOn(facts, r) {
		facts, wishes = w.question(r, w.cell)
	}
	r.paced = facts.Paced
	decision := webhook.Decide(facts)
	r.reason = decision.Reason
	if decision.Reason == webhook.ReasonRefused {
		// Invariant 6: nothing is refused but what cannot be proven.
		if facts.Slot != webhook.ProofUnknown {
			w.fail("(6) refused although the Lease was read: %s of %s", r.by, r.name)
		}
		return errConflict
	}
	if wishes != nil {
		var err error
		if decision, err = wishes.Apply(decision, r.out.annotations); err != nil {
			w.fail("(6) %s: %v", r, err)
		}
	}
	if decision.Template != nil {
		r.out.template = templateOf(decision.Template)
	}
	for _, name := range node.Owned() {
		delete(r.out.annotations, name)
	}
	maps.Copy(r.out.annotations, decision.Owned)
	if decision.Partition != nil {
		if r.out.strategy == node.OnDelete {
			w.fail("(6) the patch gives an OnDelete set a partition: the API server refuses %s of %s", r.by, r.name)
		}
		r.out.partition = decision.Partition
	}
	return nil
}

// question is StatefulSet.question.
func (w *world) question(r *request, cell node.Cell) (webhook.Facts, *webhook.Wishes) {
	from := r.base.annotations
	if r.own {
		from = r.out.annotations
	}
	owned, annotations := map[string]string{}, maps.Clone(r.out.annotations)
	for _, name := range node.Owned() {
		delete(annotations, name)
		if value, ok := from[name]; ok {
			owned[name], annotations[name] = value, value
		}
	}
	stored, asked, deferred := r.base.paced(), r.out.paced(), owned[node.AnnotationDeferred]
	var wishes *webhook.Wishes
	var pinned *node.Paced
	if deferred != "" || cell.Gate == node.GatePin {
		var err error
		wishes, err = webhook.NewWishes(webhook.Change{
			Stored: r.base.text(), Asked: r.out.text(), Deferred: deferred, Pace: cell.Pace, Evidence: r.evidence(), Own: r.own,
		})
		if err == nil && deferred != "" {
			stands := stored
			pinned = &stands
			stored, asked, err = wishes.Paced(true)
		}
		if err != nil {
			w.fail("(6) %s: %v", r, err)
		}
	}
	spec := func(s *set, t node.Paced) node.Spec {
		return node.Spec{Replicas: &s.replicas, Strategy: s.strategy, Partition: s.partition, Template: t, Pinned: pinned}
	}
	status := r.base.view().Status
	old := node.NewView(r.base.meta(r.base.annotations), spec(r.base, stored), status)
	facts := webhook.Facts{
		Old: &old, New: node.NewView(r.out.meta(annotations), spec(r.out, asked), status),
		Owned: owned, Own: r.own, Pace: cell.Pace, Gate: cell.Gate, Paced: w.paces(r.out, cell),
	}
	if facts.Paced {
		facts.Slot = w.proof(facts.New)
	}
	return facts, wishes
}

// mayDependOn is Facts.mayDependOn.
func mayDependOn(f webhook.Facts, r *request) bool {
	changes := f.Old.Gated() || !f.New.Template.Equal(f.Old.Template, f.Pace)
	if !f.Paced {
		return changes
	}
	if f.Pace == node.PaceImages && f.New.Deferred != nil && f.New.Deferred.Whole() {
		return true
	}
	return f.Pace == node.PaceImages && (f.Gate == node.GatePin || !changes) && r.base.template != r.out.template
}

// admitPod is the pod webhook: the revision at which a new pod of the set comes.
func (w *world) admitPod(s *set, made string) string {
	live := w.sets[s.name]
	if !w.cell.Enabled || live.annotations[node.AnnotationHeld] == "" {
		return made
	}
	if w.podWebhookAway {
		w.excuse(live, "the pod webhook was away")
		return made
	}
	view := live.view()
	facts := webhook.Recreated{
		Paced: w.paces(live, w.cell), Node: view, Slot: w.proof(view), Revision: made, Pods: w.fleet(w.pods, live),
	}
	at, reason := facts.At()
	if at == "" || !slices.Contains(w.revisions[live.uid], at) {
		return made
	}
	w.counts[string(reason)]++
	return at
}

func (w *world) proof(v node.View) webhook.Proof {
	switch {
	case !v.HasSlot:
		return webhook.ProofNone
	case v.Slot == nil || !lease.IsName(v.Slot.Lease):
		return webhook.ProofFalse
	case w.leaseUnreadable:
		return webhook.ProofUnknown
	}
	if slot, ok := w.leases[v.Slot.Lease]; ok && slot.Proves(v.Slot, v.Name, v.UID) {
		return webhook.ProofTrue
	}
	return webhook.ProofFalse
}

// commit is the second half. again: the object changed meanwhile, admission has to run once more.
func (w *world) commit(r *request) (again bool, err error) {
	if w.sets[r.name] != r.base {
		if r.rv != 0 {
			return false, errConflict
		}
		return true, nil
	}
	if same(r.base, r.out) {
		return false, nil
	}
	if !reflect.DeepEqual(r.base.spec(), r.out.spec()) || r.base.template != r.out.template {
		r.out.generation++
	}
	r.out.rv = w.nextRV()
	r.out.parsed = nil
	w.sets[r.name] = r.out
	w.log("%s: %s (%s)", r.by, describe(r.out), r.reason)
	if w.counts[string(r.reason)]++; r.own {
		w.counts[r.by[len("controller 0 "):]]++
	}
	w.account(r)
	return false, nil
}

func same(a, b *set) bool {
	return reflect.DeepEqual(a.spec(), b.spec()) && a.template == b.template && a.applied == b.applied && maps.Equal(a.labels, b.labels) && maps.Equal(a.annotations, b.annotations)
}

// create stores a new set, through the webhook's CREATE.
func (w *world) create(name string, replicas int, onDelete bool) {
	s := &set{
		name: name, uid: w.uid("s"), generation: 1, replicas: int32(replicas), strategy: node.RollingUpdate,
		partition: new(int32), template: template{w.image("v"), "l0"}, labels: map[string]string{}, annotations: map[string]string{},
	}
	if onDelete {
		s.strategy, s.partition = node.OnDelete, nil
	}
	decision := webhook.Decide(webhook.Facts{New: s.view(), Owned: map[string]string{}, Paced: w.cell.Paces(), Pace: w.cell.Pace})
	if decision.Partition != nil || len(decision.Owned) > 0 {
		w.fail("(6) a new set is changed: %+v", decision)
	}
	s.rv = w.nextRV()
	s.parsed = nil
	w.sets[name] = s
	w.asked[name], w.past[name], w.wrongs[name] = s.template, nil, map[string]bool{}
	w.log("create %s", describe(s))
}

// update is an unconditional request that is admitted and stored in one step.
func (w *world) update(by, name string, change func(*set)) {
	r := &request{by: by, name: name, change: change}
	for again := true; again; {
		if err := w.admit(r); err != nil {
			w.log("%s of %s failed: %v", by, name, err)
			return
		}
		again, _ = w.commit(r)
	}
}

func (r *request) String() string { return fmt.Sprintf("%s of %s", r.by, r.name) }
