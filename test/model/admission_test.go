package model

import (
	"errors"
	"fmt"
	"maps"
	"reflect"

	"k8s.io/apimachinery/pkg/types"

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

	base, out   *set
	away, paced bool
	reason      webhook.Reason
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
	if out.deleting || (!w.cell.Enabled && base.annotations[node.AnnotationHeld] == "") {
		return false
	}
	for _, name := range append(node.Owned(), node.AnnotationTouch) {
		if base.annotations[name] != out.annotations[name] {
			return true
		}
	}
	return base.image != out.image || base.strategy != out.strategy || !reflect.DeepEqual(base.partition, out.partition) ||
		(base.replicas == 0) != (out.replicas == 0) || base.labels[node.LabelPacing] != out.labels[node.LabelPacing]
}

// judge asks the real gate, with the facts that webhook/statefulset.go gathers.
func (w *world) judge(r *request) error {
	facts := w.gateFacts(r, w.webhookCell)
	if !facts.Paced && (facts.Old.Gated() || !facts.New.Template.Equal(facts.Old.Template, facts.Pace)) {
		facts = w.gateFacts(r, w.cell)
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

func (w *world) gateFacts(r *request, cell node.Cell) webhook.Facts {
	from := r.base.annotations
	if r.own {
		from = r.out.annotations
	}
	owned := map[string]string{}
	for _, name := range node.Owned() {
		if value, ok := from[name]; ok {
			owned[name] = value
		}
	}
	old, asked := r.base.view(), node.NewView(r.out.meta(owned), r.out.spec(), r.base.view().Status)
	facts := webhook.Facts{
		Old: &old, New: asked, Owned: owned, Own: r.own, Pace: cell.Pace, Paced: w.paces(r.out, cell),
	}
	if facts.Paced {
		facts.Slot = w.proof(asked)
	}
	return facts
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
	if !reflect.DeepEqual(r.base.spec(), r.out.spec()) {
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
	return reflect.DeepEqual(a.spec(), b.spec()) && maps.Equal(a.labels, b.labels) && maps.Equal(a.annotations, b.annotations)
}

// create stores a new set, through the webhook's CREATE.
func (w *world) create(name string, replicas int, onDelete bool) {
	s := &set{
		name: name, uid: w.uid("s"), generation: 1, replicas: int32(replicas), strategy: node.RollingUpdate,
		partition: new(int32), image: w.image("v"), labels: map[string]string{}, annotations: map[string]string{},
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
	w.asked[name], w.past[name], w.wrongs[name] = s.image, nil, map[string]bool{}
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
