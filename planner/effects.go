package planner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/paceline/paceline/lease"
	"github.com/paceline/paceline/node"
)

// FieldManager is the name under which Paceline writes; it never owns anything under spec.
const FieldManager = "paceline"

// errStale: what the step was decided on is no longer so. Nothing was written; the next look decides
// anew.
var errStale = errors.New("it changed meanwhile")

// perform carries out one effect, and with it the step's plan. Each depends on a live read of the
// Lease where it depends on a slot.
func (r *NodeReconciler) perform(ctx context.Context, set *appsv1.StatefulSet, f Facts, step Step) error {
	if f.Slot == nil {
		return r.performAtRest(ctx, set, f, step.Effect)
	}
	slot, err := r.held(ctx, f)
	if err != nil {
		return err
	}
	if slot, err = r.setPlan(ctx, slot, step); err != nil {
		return err
	}
	switch effect := step.Effect.(type) {
	case nil:
		return nil
	case Open:
		return r.annotate(ctx, set, map[string]*string{node.AnnotationSlot: text(slot.Ref().String())})
	case Touch:
		return r.touch(ctx, set)
	case DeletePod:
		return r.deletePod(ctx, set, effect.Pod)
	case Release:
		return r.release(ctx, set, f, slot, effect.Cleared)
	case Forget:
		return r.forget(ctx, set)
	case Free:
		return r.free(ctx, set, slot)
	}
	return fmt.Errorf("effect %T is none of a holder", step.Effect)
}

// setPlan writes the plan where it moved. Who gives a slot back reads Lease and StatefulSet first. So
// what opens the gate changes the Lease before, with one attempt more where nothing else moved: one of
// the two then sees the other. An attempt is no progress.
func (r *NodeReconciler) setPlan(ctx context.Context, slot lease.Slot, step Step) (lease.Slot, error) {
	plan, progress := step.Plan, true
	if _, opens := step.Effect.(Open); opens && plan == nil && step.Running != nil {
		plan, progress = step.Running.another(), false
	}
	if plan == nil {
		return slot, nil
	}
	return r.Store.SetPlan(ctx, slot, plan.String(), progress)
}

func (r *NodeReconciler) performAtRest(ctx context.Context, set *appsv1.StatefulSet, f Facts, effect Effect) error {
	switch effect := effect.(type) {
	case nil:
		return nil
	case Stamp:
		if err := r.seesLive(ctx, set, f, effect.Cleared, true); err != nil {
			return err
		}
		return r.annotate(ctx, set, map[string]*string{node.AnnotationCleared: text(effect.Cleared.String())})
	case Touch:
		return r.touch(ctx, set)
	case Forget:
		return r.forget(ctx, set)
	}
	return fmt.Errorf("effect %T needs a slot, StatefulSet %s has none", effect, f.Name)
}

// held reads the slot live and makes sure that this node still holds it, since the transition that
// the step was decided on.
func (r *NodeReconciler) held(ctx context.Context, f Facts) (lease.Slot, error) {
	slot, err := r.Store.Get(ctx, f.Namespace, f.Slot.Name)
	if apierrors.IsNotFound(err) {
		return lease.Slot{}, fmt.Errorf("%w: %s is gone", errStale, f.Slot.Name)
	}
	if err != nil {
		return lease.Slot{}, err
	}
	if slot.UID != f.Slot.UID || slot.Transitions != f.Slot.Transitions || !slot.HeldBy(f.Name, f.UID) {
		return lease.Slot{}, fmt.Errorf("%w: %s is held by %q at transition %d now", errStale, slot.Name, slot.Holder, slot.Transitions)
	}
	if slot.Plan != f.Slot.Plan {
		return lease.Slot{}, fmt.Errorf("%w: the plan on %s was advanced", errStale, slot.Name)
	}
	return slot, nil
}

// release gives the slot back. ONE update of the StatefulSet, at the resource version that the facts
// were read at, removes slot and writes cleared; only then the Lease is freed. The other way round a
// write held inside admission could land after the release and roll without a slot.
func (r *NodeReconciler) release(ctx context.Context, set *appsv1.StatefulSet, f Facts, slot lease.Slot, cleared node.Cleared) error {
	if err := r.seesLive(ctx, set, f, cleared, !f.ReleaseWhenUpdated); err != nil {
		return err
	}
	err := r.annotate(ctx, set, map[string]*string{node.AnnotationSlot: nil, node.AnnotationCleared: text(cleared.String())})
	if err != nil {
		return err
	}
	_, err = r.Store.Free(ctx, slot)
	return err
}

// seesLive makes sure that the pods themselves, not a cache of them, are what cleared is going to say.
func (r *NodeReconciler) seesLive(ctx context.Context, set *appsv1.StatefulSet, f Facts, cleared node.Cleared, ready bool) error {
	live, err := r.Fleet.LivePods(ctx, set)
	if err != nil {
		return err
	}
	f.Pods = live
	if seen, ok := f.seen(ready); !ok || seen.Revision != cleared.Revision {
		return fmt.Errorf("%w: its pods are not what the cache says", errStale)
	}
	return nil
}

// free gives back the slot of a node that has nothing to roll. A conditional write of the StatefulSet
// comes first: whoever was about to open its gate by what it was before then fails.
func (r *NodeReconciler) free(ctx context.Context, set *appsv1.StatefulSet, slot lease.Slot) error {
	if err := r.touch(ctx, set); err != nil {
		return err
	}
	_, err := r.Store.Free(ctx, slot)
	return err
}

func (r *NodeReconciler) forget(ctx context.Context, set *appsv1.StatefulSet) error {
	changes := map[string]*string{node.AnnotationSlot: nil, node.AnnotationCleared: nil}
	if set.Annotations[node.AnnotationHeld]+set.Annotations[node.AnnotationDeferred] != "" {
		changes[node.AnnotationTouch] = text(node.TouchAt(r.Clock.Now()))
	}
	return r.annotate(ctx, set, changes)
}

func (r *NodeReconciler) touch(ctx context.Context, set *appsv1.StatefulSet) error {
	return touch(ctx, r.Writer, set, r.Clock.Now())
}

// touch writes the annotation touch, so that admission looks at the StatefulSet again.
func touch(ctx context.Context, writer client.Writer, set *appsv1.StatefulSet, now time.Time) error {
	return annotate(ctx, writer, set, map[string]*string{node.AnnotationTouch: text(node.TouchAt(now))})
}

func (r *NodeReconciler) annotate(ctx context.Context, set *appsv1.StatefulSet, changes map[string]*string) error {
	return annotate(ctx, r.Writer, set, changes)
}

// annotate writes annotations, nil removes one, on condition that the StatefulSet is as it was read.
func annotate(ctx context.Context, writer client.Writer, set *appsv1.StatefulSet, changes map[string]*string) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": set.ResourceVersion, "uid": set.UID, "annotations": changes,
	}})
	if err != nil {
		return fmt.Errorf("writing patch: %w", err)
	}
	target := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: set.Name}}
	err = writer.Patch(ctx, target, client.RawPatch(types.MergePatchType, body), client.FieldOwner(FieldManager))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return fmt.Errorf("%w: %w", errStale, err)
	}
	if err != nil {
		return fmt.Errorf("annotating StatefulSet %s: %w", set.Name, err)
	}
	return nil
}

func text(s string) *string { return &s }

// deletePod deletes this very pod. While the cache still shows it as it was, it is not asked for again.
func (r *NodeReconciler) deletePod(ctx context.Context, set *appsv1.StatefulSet, pod node.Pod) error {
	remembered := r.memoryOf(client.ObjectKeyFromObject(set))
	if remembered.deleted == pod.UID {
		return nil
	}
	if err := r.unchanged(ctx, set); err != nil {
		return err
	}
	target := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: pod.Name}}
	err := r.Writer.Delete(ctx, target, client.Preconditions{UID: &pod.UID})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return fmt.Errorf("%w: %w", errStale, err)
	}
	if err != nil {
		return fmt.Errorf("deleting pod %s: %w", pod.Name, err)
	}
	remembered.deleted = pod.UID
	return nil
}

// unchanged makes sure that the StatefulSet still asks for what the step was decided on.
func (r *NodeReconciler) unchanged(ctx context.Context, set *appsv1.StatefulSet) error {
	var live appsv1.StatefulSet
	if err := r.Fleet.Live.Get(ctx, client.ObjectKeyFromObject(set), &live); err != nil {
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("%w: %w", errStale, err)
		}
		return fmt.Errorf("reading StatefulSet: %w", err)
	}
	if live.UID != set.UID || live.Generation != set.Generation || live.Status.UpdateRevision != set.Status.UpdateRevision {
		return fmt.Errorf("%w: StatefulSet %s asks for something else now", errStale, set.Name)
	}
	return nil
}
