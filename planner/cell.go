package planner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/paceline/paceline/lease"
	"github.com/paceline/paceline/node"
)

// CellReconciler grants the slots of each cell.
type CellReconciler struct {
	Options
	complaints sync.Map // namespace to the text of the last complaint, which is not repeated
}

// RegisterCell adds the cell reconciler to the manager.
func RegisterCell(mgr ctrl.Manager, options Options) error {
	r := &CellReconciler{Options: options}
	toCell := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: o.GetNamespace()}}}
	})
	slots := predicate.NewPredicateFuncs(func(o client.Object) bool {
		_, isLease := o.(*coordinationv1.Lease)
		return !isLease || lease.IsName(o.GetName())
	})
	return ctrl.NewControllerManagedBy(mgr).Named("cell").
		For(&corev1.Namespace{}).
		Watches(&appsv1.StatefulSet{}, toCell).
		Watches(&coordinationv1.Lease{}, toCell).
		WithEventFilter(slots).
		Complete(r)
}

// pass is what one look at a cell has read.
type pass struct {
	namespace string
	cell      node.Cell
	problems  []error
	nodes     []lease.Node
	slots     []lease.Slot
	at        time.Time // when all was read
}

// Reconcile looks at one cell. Where the cache shows something to do, all is read again live and
// decided anew: stale input may delay a roll, it never adds one.
func (r *CellReconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	seen, err := r.look(ctx, r.Fleet.Cache, request.Name)
	if apierrors.IsNotFound(err) {
		r.Board.Remove(request.Name)
		r.complaints.Delete(request.Name)
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if seen.cell.Terminating {
		return reconcile.Result{}, nil
	}
	r.Board.Post(request.Name, lease.Line(seen.cell, seen.nodes, seen.slots))
	if err := r.complain(ctx, seen); err != nil {
		return reconcile.Result{}, err
	}
	if seen.idle(r.Clock.Now(), r.Deadline) {
		if seen.empty() {
			return reconcile.Result{}, nil
		}
		return reconcile.Result{RequeueAfter: r.Resync}, nil
	}
	live, err := r.look(ctx, r.Fleet.Live, request.Name)
	if err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	err = r.move(ctx, live)
	if errors.Is(err, lease.ErrConflict) || errors.Is(err, errStale) {
		ctrl.LoggerFrom(ctx).V(1).Info("looking again", "reason", err.Error())
		return reconcile.Result{RequeueAfter: retrySoon}, nil
	}
	return reconcile.Result{RequeueAfter: r.Resync}, err
}

// look reads a cell. The Leases come first: a node that is given back meanwhile then still counts.
func (r *CellReconciler) look(ctx context.Context, from client.Reader, namespace string) (pass, error) {
	slots, err := r.Fleet.Slots(ctx, from, namespace)
	if err != nil {
		return pass{}, err
	}
	cell, problems, err := r.Fleet.Cell(ctx, from, namespace)
	if err != nil {
		return pass{}, err
	}
	nodes, err := r.Fleet.Nodes(ctx, from, namespace, cell)
	if err != nil {
		return pass{}, err
	}
	return pass{namespace, cell, problems, nodes, slots, r.Clock.Now()}, nil
}

func (p pass) moves() lease.Moves { return lease.Decide(p.cell, p.nodes, p.slots) }

func (p pass) idle(now time.Time, deadline time.Duration) bool {
	m := p.moves()
	return len(m.Adopt)+len(m.Free)+len(m.Grant)+len(m.Create)+len(m.Delete) == 0 && len(p.leaving(now, deadline)) == 0
}

// empty reports a namespace that has nothing to do with Paceline.
func (p pass) empty() bool { return !p.cell.Enabled && len(p.slots) == 0 }

// leaving lists nodes that are still held although they are not paced (any more), as many as may
// be let go now: at most as many at once as there were slots, counting those that are on their way, which
// is for a progress deadline at most: one that never becomes ready keeps nobody.
func (p pass) leaving(now time.Time, deadline time.Duration) []lease.Node {
	var held []lease.Node
	room := max(1, len(p.slots))
	for _, n := range p.nodes {
		gated := n.HasWish() || (p.cell.Enabled && n.Gated()) // elsewhere the reserved partition is no business of ours
		switch {
		case n.Paced || n.Deleting:
		case gated && mayTouch(n.View, now) > 0:
			room-- // it was let go a moment ago, and its webhook has not answered
		case gated:
			held = append(held, n)
		case n.Strategy == node.RollingUpdate && (n.HasSlot || now.Sub(n.Touched) < deadline) && rolls(n.View):
			room--
		}
	}
	return held[:max(0, min(room, len(held)))]
}

func rolls(v node.View) bool {
	return !v.Status.Observed || v.Status.Updated < v.Replicas-v.OwnPartition() || v.Status.Ready < v.Replicas
}

// move carries out the moves: adopt, then free, then grant.
func (r *CellReconciler) move(ctx context.Context, p pass) error {
	moves := p.moves()
	adopted := "rolls already; it took %s"
	if later := r.later(ctx, p.namespace); len(later) > 0 {
		adopted = "rolls already; its template may have been changed after Paceline looked, by " + lease.Names(later) + "; it took %s"
	}
	for _, pairing := range moves.Adopt {
		if err := r.give(ctx, p, pairing, node.EventAdopted, adopted); err != nil {
			return err
		}
	}
	for _, slot := range moves.Free {
		if _, err := r.Store.Free(ctx, slot); err != nil {
			return err
		}
		ctrl.LoggerFrom(ctx).Info("freed slot whose holder is gone", "slot", slot.Name, "node", slot.Holder)
	}
	for _, pairing := range moves.Grant {
		if err := r.stillSo(ctx, p); err != nil {
			return err
		}
		if err := r.give(ctx, p, pairing, node.EventSlotTaken, "its turn has come; it took %s"); err != nil {
			return err
		}
	}
	for _, index := range moves.Create {
		if err := r.Store.Create(ctx, p.namespace, index, r.Deadline); err != nil {
			return err
		}
	}
	for _, slot := range moves.Delete {
		if err := r.Store.Delete(ctx, slot); err != nil {
			return err
		}
	}
	return r.letGo(ctx, p)
}

// readingLasts is how long grants are made on one reading of a cell. The first one never waits for another.
const readingLasts = time.Second

// stillSo is asked before each grant of a pass: whoever lowers the percentage or freezes the cell is heard
// between two of them.
func (r *CellReconciler) stillSo(ctx context.Context, p pass) error {
	if r.Clock.Now().Sub(p.at) > readingLasts {
		return fmt.Errorf("%w: the cell was read more than %s ago", errStale, readingLasts)
	}
	cell, _, err := r.Fleet.Cell(ctx, r.Fleet.Live, p.namespace)
	if err == nil && cell != p.cell {
		err = fmt.Errorf("%w: the cell's settings are others", errStale)
	}
	return err
}

// give takes the slot for the node, with its plan, in one conditional write.
func (r *CellReconciler) give(ctx context.Context, p pass, pairing lease.Pairing, event, message string) error {
	n, slot := pairing.Node, pairing.Slot
	slot.Namespace = p.namespace
	plan := NewPlan(n.View, p.cell.Pace, slot.Transitions+1, r.Clock.Now())
	holder := lease.Holder{Name: n.Name, UID: n.UID, Plan: plan.String()}
	var err error
	if slot.ResourceVersion == "" {
		slot, err = r.Store.CreateHeld(ctx, p.namespace, slot.Index, r.Deadline, holder)
	} else {
		slot, err = r.Store.Take(ctx, slot, holder, r.Deadline)
	}
	if err != nil {
		return err
	}
	ctrl.LoggerFrom(ctx).Info("gave slot", "slot", slot.Name, "node", n.Name, "transitions", slot.Transitions, "event", event)
	r.Events.Eventf(reference(n), nil, corev1.EventTypeNormal, event, "Grant", message, slot.Name)
	return nil
}

func (r *CellReconciler) letGo(ctx context.Context, p pass) error {
	for _, n := range p.leaving(r.Clock.Now(), r.Deadline) {
		var set appsv1.StatefulSet
		if err := r.Fleet.Live.Get(ctx, types.NamespacedName{Namespace: p.namespace, Name: n.Name}, &set); err != nil {
			return client.IgnoreNotFound(err)
		}
		if err := touch(ctx, r.Writer, &set, r.Clock.Now()); err != nil {
			return err
		}
	}
	return nil
}

// complain says in an Event which annotation of the namespace could not be read; what was in force
// stays in force.
func (r *CellReconciler) complain(ctx context.Context, p pass) error {
	complaint := ""
	if p.cell.Enabled && len(p.problems) > 0 {
		complaint = errors.Join(p.problems...).Error()
	}
	if last, _ := r.complaints.Swap(p.namespace, complaint); complaint == "" || last == complaint {
		return nil
	}
	var ns corev1.Namespace
	if err := r.Fleet.Cache.Get(ctx, types.NamespacedName{Name: p.namespace}, &ns); err != nil {
		return client.IgnoreNotFound(err)
	}
	r.Events.Eventf(&ns, nil, corev1.EventTypeWarning, node.EventInvalidCell, "Read",
		"%s; the configuration file's value stays in force", complaint)
	return nil
}

func reference(n lease.Node) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: "apps/v1", Kind: "StatefulSet", Namespace: n.Namespace, Name: n.Name, UID: n.UID,
	}
}
