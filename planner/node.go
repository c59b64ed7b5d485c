package planner

import (
	"context"
	"errors"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/paceline/paceline/lease"
	"github.com/paceline/paceline/node"
)

// retrySoon is how long a look waits whose facts were stale: the watch brings the new ones sooner.
const retrySoon = 100 * time.Millisecond

// How often a message may change while its reason stays: of a node that waits, and of one that rolls.
const (
	refreshWaiting = time.Minute
	refreshRolling = 5 * time.Second
)

// Options makes the reconcilers.
type Options struct {
	// Fleet reads.
	Fleet Fleet
	// Store reads and writes slots.
	Store lease.Store
	// Writer writes StatefulSets and pods.
	Writer client.Client
	// Later names the webhook configurations that are asked about a namespace's StatefulSets after Paceline's;
	// nil: nobody looks.
	Later func(ctx context.Context, namespace string) []string
	// Events records Events.
	Events events.EventRecorder
	Clock  clock.PassiveClock
	// Board carries the cells' queues from the cell reconciler to messages.
	Board *Board
	// Workers is how many nodes are looked at at once.
	Workers int
	// Resync is the interval of the net under the watches.
	Resync time.Duration
	// Deadline is how long a holder may go without progress before it is stuck.
	Deadline time.Duration
}

// NodeReconciler runs the plan of each node that holds a slot, and keeps cleared and the conditions
// of all others.
type NodeReconciler struct {
	Options
	seen sync.Map // types.NamespacedName to *memory; forgotten at a restart, which at worst repeats a message
}

// memory is what a node's last look left behind, for messages and for progress alone.
type memory struct {
	wrote time.Time
	// plan and high say how far the holder's plan has come, so that falling back is no progress.
	plan string
	high int
	// refused counts the tries to open the gate that failed in a row, opens is when the next is due.
	refused int
	opens   time.Time
	// said is the reason that an Event was recorded of last: the cache may still show the one before.
	said string
	// deleted is the pod that was deleted last: the cache may still show it as it was.
	deleted types.UID
	// released: an update was completed, and nothing has waited or rolled since. The StatefulSet controller may
	// put back the conditions of before.
	released bool
}

// RegisterNode adds the node reconciler to the manager.
func RegisterNode(mgr ctrl.Manager, options Options) error {
	r := &NodeReconciler{Options: options}
	return ctrl.NewControllerManagedBy(mgr).Named("node").
		For(&appsv1.StatefulSet{}).
		Owns(&corev1.Pod{}).
		Owns(&appsv1.ControllerRevision{}).
		Watches(&coordinationv1.Lease{}, handler.EnqueueRequestsFromMapFunc(holderOf)).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.nodesOf)).
		WithOptions(controller.Options{MaxConcurrentReconciles: options.Workers}).
		Complete(r)
}

func holderOf(_ context.Context, o client.Object) []reconcile.Request {
	l, ok := o.(*coordinationv1.Lease)
	if !ok || !lease.IsName(l.Name) || l.Spec.HolderIdentity == nil {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: l.Namespace, Name: *l.Spec.HolderIdentity}}}
}

func (r *NodeReconciler) nodesOf(ctx context.Context, o client.Object) []reconcile.Request {
	var sets appsv1.StatefulSetList
	if err := r.Fleet.Cache.List(ctx, &sets, client.InNamespace(o.GetName()), client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "listing StatefulSets", "namespace", o.GetName())
		return nil
	}
	var requests []reconcile.Request
	for i := range sets.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&sets.Items[i])})
	}
	return requests
}

// Reconcile looks at one node, does the one write that comes next, and says where the node stands.
func (r *NodeReconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var set appsv1.StatefulSet
	if err := r.Fleet.Cache.Get(ctx, request.NamespacedName, &set); err != nil {
		if apierrors.IsNotFound(err) {
			r.seen.Delete(request.NamespacedName)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	facts, err := r.facts(ctx, &set)
	if err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	step := Next(facts)
	remembered := r.remember(facts, &step)
	remembered.pause(facts.Now, &step)
	err = r.perform(ctx, &set, facts, step)
	remembered.note(facts.Now, step, err)
	switch {
	case errors.Is(err, errStale) || errors.Is(err, lease.ErrConflict):
		ctrl.LoggerFrom(ctx).V(1).Info("looking again", "node", request.Name, "reason", err.Error())
		return reconcile.Result{RequeueAfter: retrySoon}, nil
	case err != nil:
		return reconcile.Result{}, errors.Join(err, r.say(ctx, &set, facts, withError(step, err), remembered))
	}
	r.announce(&set, facts, step)
	if step.Effect == nil { // after a write the watch brings the next look, and with it what to say
		if err := r.say(ctx, &set, facts, step, remembered); err != nil {
			return reconcile.Result{}, err
		}
	}
	return reconcile.Result{RequeueAfter: r.nextLook(facts, step)}, nil
}

func withError(step Step, err error) Step {
	step.Err = err
	return step
}

func (r *NodeReconciler) facts(ctx context.Context, set *appsv1.StatefulSet) (Facts, error) {
	cell, _, err := r.Fleet.Cell(ctx, r.Fleet.Cache, set.Namespace)
	if err != nil {
		return Facts{}, err
	}
	facts, err := r.Fleet.Facts(ctx, set, cell, r.Clock.Now())
	if err != nil {
		return Facts{}, err
	}
	slots, err := r.Fleet.Slots(ctx, r.Fleet.Cache, set.Namespace)
	if err != nil {
		return Facts{}, err
	}
	for i := range slots {
		if !slots[i].HeldBy(facts.Name, facts.UID) {
			continue
		}
		if facts.Slot == nil || slots[i].Proves(facts.View.Slot, facts.Name, facts.UID) {
			facts.Slot = &slots[i]
		}
	}
	facts.Later = r.later(ctx, set.Namespace)
	return facts, nil
}

func (o Options) later(ctx context.Context, namespace string) []string {
	if o.Later == nil {
		return nil
	}
	return o.Later(ctx, namespace)
}

// remember notes how far a holder is, and renews its slot where it came further without the plan
// saying so (a StatefulSet of many replicas).
func (r *NodeReconciler) remember(f Facts, step *Step) *memory {
	remembered := r.memoryOf(types.NamespacedName{Namespace: f.Namespace, Name: f.Name})
	if step.Running == nil {
		return remembered
	}
	progress := f.progress()
	moved := remembered.plan == step.Running.ID && progress > remembered.high
	if remembered.plan != step.Running.ID || moved {
		remembered.plan, remembered.high = step.Running.ID, progress
	}
	if moved && step.Plan == nil && step.Effect == nil {
		step.Plan = step.Running
	}
	return remembered
}

// pause puts off a gate that was refused to open: each try writes the Lease, which brings the next look.
func (m *memory) pause(now time.Time, step *Step) {
	if _, opens := step.Effect.(Open); opens && now.Before(m.opens) {
		step.Effect, step.Again = nil, m.opens.Sub(now)
	}
}

// maxPause bounds the pause between tries to open a gate.
const maxPause = time.Minute

func (m *memory) note(now time.Time, step Step, err error) {
	if _, releases := step.Effect.(Release); releases && err == nil {
		m.released = true
	}
	if _, opens := step.Effect.(Open); !opens {
		return
	}
	if err == nil || errors.Is(err, errStale) || errors.Is(err, lease.ErrConflict) {
		m.refused, m.opens = 0, time.Time{}
		return
	}
	m.opens = now.Add(min(time.Second<<min(m.refused, 6), maxPause))
	m.refused++
}

func (r *NodeReconciler) memoryOf(set types.NamespacedName) *memory {
	value, _ := r.seen.LoadOrStore(set, &memory{})
	remembered, ok := value.(*memory)
	if !ok { // nothing else is ever stored
		remembered = &memory{}
	}
	return remembered
}

// progress grows with each pod that carries the new revision, and with each of those that is ready.
func (f Facts) progress() int {
	updated, ready := 0, 0
	for _, pod := range f.pods() {
		if pod.Revision != f.Status.UpdateRevision || pod.Deleting {
			continue
		}
		updated++
		if pod.Ready {
			ready++
		}
	}
	return updated*(len(f.Pods)+1) + ready
}

// say mirrors where the node stands to its conditions.
func (r *NodeReconciler) say(ctx context.Context, set *appsv1.StatefulSet, f Facts, step Step, remembered *memory) error {
	previous := node.ReasonOf(set.Status.Conditions, node.ConditionUpdate)
	queue := r.Board.Queue(f.Namespace)
	want := Conditions(f, step, queue, remembered.before(previous))
	remembered.saw(want)
	conditions, changed := node.SetConditions(set.Status.Conditions, want, f.Now)
	if !changed {
		return nil
	}
	next := len(queue.Waiting) > 0 && queue.Waiting[0] == f.Name
	if !next && !f.due(set.Status.Conditions, want, remembered.wrote) {
		return nil
	}
	if err := r.writeConditions(ctx, set, conditions); err != nil {
		return err
	}
	remembered.wrote = f.Now
	r.announceConditions(set, want, previous, remembered)
	return nil
}

// before is the reason that the update condition had, whatever the StatefulSet controller made of it.
func (m *memory) before(previous string) string {
	if m.released {
		return node.ReasonUpdateComplete
	}
	return previous
}

// saw ends the memory of a completed update with the next one.
func (m *memory) saw(want []node.Condition) {
	for _, c := range want {
		if c.Type == node.ConditionUpdate && c.Reason != node.ReasonUpdateComplete {
			m.released = false
		}
	}
}

// due reports that conditions are to be written now: a reason changed, or the last message is old enough
// to say it anew.
func (f Facts) due(have []appsv1.StatefulSetCondition, want []node.Condition, wrote time.Time) bool {
	for _, c := range want {
		if c.Reason != node.ReasonOf(have, c.Type) {
			return true
		}
	}
	refresh := refreshWaiting
	if f.Slot != nil {
		refresh = refreshRolling
	}
	return !f.Paced || f.Now.Sub(wrote) >= refresh
}

// nextLook is when to look again although nothing was seen to change; 0: never, it is no business of ours.
func (r *NodeReconciler) nextLook(f Facts, step Step) time.Duration {
	switch {
	case step.Again > 0:
		return step.Again
	case f.Slot == nil && !f.Paced && !f.HasWish() && !f.HasSlot && f.Cleared == nil:
		return 0
	case f.Slot == nil:
		return r.Resync
	}
	next := min(r.Resync, refreshRolling)
	if left := f.Slot.Renewed.Add(f.Slot.Deadline).Sub(f.Now); left > 0 && f.Slot.Deadline > 0 {
		next = min(left+time.Second, next)
	}
	return next
}
