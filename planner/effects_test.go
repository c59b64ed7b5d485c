package planner

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/paceline/paceline/lease"
	"github.com/paceline/paceline/node"
)

// world is a node that runs v2 on a slot, its pod, and a reconciler that may write them.
type world struct {
	*NodeReconciler
	api    client.Client
	writes []string // verb and kind
	facts  Facts
	set    *appsv1.StatefulSet
}

func newWorld(t *testing.T) *world {
	t.Helper()
	f := rolling(runsPods(pod{"v2", ""}), counts(1, 1))
	labels := map[string]string{"app": "rpc-0"}
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: f.Namespace, Name: f.Name, UID: f.UID,
			Annotations: map[string]string{node.AnnotationSlot: f.View.Slot.String(), node.AnnotationCleared: cleared("v1").String(), "note": "kept"},
		},
		Spec: appsv1.StatefulSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}},
	}
	thePod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: f.Namespace, Name: "rpc-0-0", UID: f.Pods[0].UID,
			Labels: map[string]string{"app": "rpc-0", node.LabelRevision: "r-v2"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "StatefulSet", Name: f.Name, UID: f.UID, Controller: ptr.To(true),
			}},
		},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	slot := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: f.Namespace, Name: f.Slot.Name, UID: f.Slot.UID,
			Annotations: map[string]string{node.AnnotationHolderUID: string(f.UID), node.AnnotationPlan: f.Slot.Plan},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To(f.Name), LeaseTransitions: ptr.To(f.Slot.Transitions)},
	}
	w := &world{facts: f}
	note := func(verb string, o client.Object) { w.writes = append(w.writes, verb+" "+kindOf(o)) }
	w.api = fake.NewClientBuilder().WithObjects(set, thePod, slot).WithInterceptorFuncs(interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			note("update", o)
			return c.Update(ctx, o, options...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
			note("patch", o)
			return c.Patch(ctx, o, p, options...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			var d client.DeleteOptions
			d.ApplyOptions(options)
			if _, isPod := o.(*corev1.Pod); isPod {
				require.NotNil(t, d.Preconditions)
				require.Equal(t, f.Pods[0].UID, *d.Preconditions.UID, "a pod is deleted by its UID")
			}
			note("delete", o)
			return c.Delete(ctx, o, options...)
		},
	}).Build()
	clock := clocktesting.NewFakePassiveClock(moment)
	w.NodeReconciler = &NodeReconciler{Options: Options{
		Fleet: Fleet{Cache: w.api, Live: w.api}, Store: lease.Store{Reader: w.api, Writer: w.api, Clock: clock},
		Writer: w.api, Clock: clock, Board: &Board{},
	}}
	w.set = w.liveSet(t)
	return w
}

func kindOf(o client.Object) string {
	switch o.(type) {
	case *appsv1.StatefulSet:
		return "StatefulSet"
	case *corev1.Pod:
		return "Pod"
	case *coordinationv1.Lease:
		return "Lease"
	}
	return "other"
}

func (w *world) liveSet(t *testing.T) *appsv1.StatefulSet {
	t.Helper()
	var set appsv1.StatefulSet
	require.NoError(t, w.api.Get(t.Context(), types.NamespacedName{Namespace: "cell", Name: "rpc-0"}, &set))
	return &set
}

func (w *world) liveSlot(t *testing.T) lease.Slot {
	t.Helper()
	slot, err := w.Store.Get(t.Context(), "cell", w.facts.Slot.Name)
	require.NoError(t, err)
	return slot
}

func (w *world) changeLease(t *testing.T, change func(*coordinationv1.Lease)) {
	t.Helper()
	var l coordinationv1.Lease
	require.NoError(t, w.api.Get(t.Context(), types.NamespacedName{Namespace: "cell", Name: w.facts.Slot.Name}, &l))
	change(&l)
	require.NoError(t, w.api.Update(t.Context(), &l))
}

// effectsOfAHolder are all that depend on a slot, and what each writes, in its order.
func effectsOfAHolder(f Facts) map[string]struct {
	effect Effect
	writes []string
} {
	return map[string]struct {
		effect Effect
		writes []string
	}{
		"open":       {Open{}, []string{"patch StatefulSet"}},
		"touch":      {Touch{}, []string{"patch StatefulSet"}},
		"delete pod": {DeletePod{f.Pods[0]}, []string{"delete Pod"}},
		"release":    {Release{cleared("v2")}, []string{"patch StatefulSet", "update Lease"}},
		"forget":     {Forget{}, []string{"patch StatefulSet"}},
		"free":       {Free{}, []string{"patch StatefulSet", "update Lease"}},
		"plan alone": {nil, nil},
	}
}

func TestEffects(t *testing.T) {
	t.Parallel()
	for name, c := range effectsOfAHolder(newWorld(t).facts) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			require.NoError(t, w.perform(t.Context(), w.set, w.facts, Step{Effect: c.effect}))
			require.Equal(t, c.writes, w.writes)
		})
		t.Run(name+", its plan is written first", func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			next := NewPlan(w.facts.View, node.PaceImages, 3, moment)
			next.Tasks[0].finish(moment)
			require.NoError(t, w.perform(t.Context(), w.set, w.facts, Step{Effect: c.effect, Plan: &next}))
			require.Equal(t, append([]string{"update Lease"}, c.writes...), w.writes)
		})
	}
}

func TestEffectsCheckTheLease(t *testing.T) {
	t.Parallel()
	lost := map[string]func(*testing.T, *world){
		"the Lease is gone": func(t *testing.T, w *world) {
			require.NoError(t, w.api.Delete(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "cell", Name: w.facts.Slot.Name}}))
		},
		"free": func(t *testing.T, w *world) {
			w.changeLease(t, func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = nil })
		},
		"held by another node": func(t *testing.T, w *world) {
			w.changeLease(t, func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = ptr.To("rpc-9") })
		},
		"held by another of its name": func(t *testing.T, w *world) {
			w.changeLease(t, func(l *coordinationv1.Lease) { l.Annotations[node.AnnotationHolderUID] = "other" })
		},
		"taken again since": func(t *testing.T, w *world) {
			w.changeLease(t, func(l *coordinationv1.Lease) { l.Spec.LeaseTransitions = ptr.To(int32(4)) })
		},
		"another Lease of its name": func(t *testing.T, w *world) {
			w.changeLease(t, func(l *coordinationv1.Lease) { l.UID = "other" })
		},
		"the plan was advanced": func(t *testing.T, w *world) {
			w.changeLease(t, func(l *coordinationv1.Lease) { l.Annotations[node.AnnotationPlan] = "further" })
		},
	}
	for why, lose := range lost {
		for name, c := range effectsOfAHolder(newWorld(t).facts) {
			t.Run(why+": "+name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				lose(t, w)
				w.writes = nil
				next := NewPlan(w.facts.View, node.PaceImages, 3, moment)
				for _, step := range []Step{{Effect: c.effect}, {Effect: c.effect, Plan: &next}} {
					require.ErrorIs(t, w.perform(t.Context(), w.set, w.facts, step), errStale)
				}
				require.Empty(t, w.writes, "nothing was written")
			})
		}
	}
}

// One write takes slot off and says what runs; only then the Lease is free.
func TestRelease(t *testing.T) {
	t.Parallel()
	t.Run("done", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		require.NoError(t, w.perform(t.Context(), w.set, w.facts, Step{Effect: Release{cleared("v2")}}))
		require.Equal(t, map[string]string{node.AnnotationCleared: cleared("v2").String(), "note": "kept"}, w.liveSet(t).Annotations)
		require.True(t, w.liveSlot(t).Free())
	})
	refused := map[string]func(*testing.T, *world){
		"the StatefulSet changed meanwhile": func(t *testing.T, w *world) {
			set := w.liveSet(t)
			set.Spec.ServiceName = "changed"
			require.NoError(t, w.api.Update(t.Context(), set))
		},
		"a pod is not ready any more": func(t *testing.T, w *world) {
			w.changePod(t, func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse })
		},
		"a pod is of another revision": func(t *testing.T, w *world) {
			w.changePod(t, func(p *corev1.Pod) { p.Labels[node.LabelRevision] = "r-v1" })
		},
		"a pod is gone": func(t *testing.T, w *world) {
			require.NoError(t, w.api.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "cell", Name: "rpc-0-0", UID: w.facts.Pods[0].UID}},
				client.Preconditions{UID: &w.facts.Pods[0].UID}))
		},
	}
	for why, change := range refused {
		t.Run(why+": the slot stays", func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			change(t, w)
			require.ErrorIs(t, w.perform(t.Context(), w.set, w.facts, Step{Effect: Release{cleared("v2")}}), errStale)
			require.NotEmpty(t, w.liveSet(t).Annotations[node.AnnotationSlot])
			require.False(t, w.liveSlot(t).Free())
		})
	}
}

func (w *world) changePod(t *testing.T, change func(*corev1.Pod)) {
	t.Helper()
	var p corev1.Pod
	require.NoError(t, w.api.Get(t.Context(), types.NamespacedName{Namespace: "cell", Name: "rpc-0-0"}, &p))
	change(&p)
	require.NoError(t, w.api.Status().Update(t.Context(), p.DeepCopy()))
	p.ResourceVersion = ""
	require.NoError(t, w.api.Update(t.Context(), &p))
}

// Without a slot only annotations of the node itself are written, on condition that it is as it was read.
func TestEffectsAtRest(t *testing.T) {
	t.Parallel()
	atRest := func(w *world) Facts { return w.facts.but(func(f *Facts) { f.Slot = nil }) }
	for name, effect := range map[string]Effect{"stamp": Stamp{cleared("v2")}, "touch": Touch{}, "forget": Forget{}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			require.NoError(t, w.perform(t.Context(), w.set, atRest(w), Step{Effect: effect}))
			require.Equal(t, []string{"patch StatefulSet"}, w.writes)
			require.Equal(t, "kept", w.liveSet(t).Annotations["note"])
			require.ErrorIs(t, w.perform(t.Context(), w.set, atRest(w), Step{Effect: effect}), errStale, "it was read before that write")
		})
	}
	for name, effect := range map[string]Effect{"open": Open{}, "delete pod": DeletePod{}, "release": Release{}, "free": Free{}} {
		t.Run(name+" needs a slot", func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			require.ErrorContains(t, w.perform(t.Context(), w.set, atRest(w), Step{Effect: effect}), "needs a slot")
			require.Empty(t, w.writes)
		})
	}
}

func TestForgetTouchesAHeldNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	set := w.liveSet(t)
	set.Annotations[node.AnnotationHeld] = node.Held{Running: paced("v1")}.String()
	require.NoError(t, w.api.Update(t.Context(), set))
	w.set = w.liveSet(t)
	require.NoError(t, w.perform(t.Context(), w.set, w.facts, Step{Effect: Forget{}}))
	got := w.liveSet(t).Annotations
	require.NotContains(t, got, node.AnnotationSlot)
	require.NotContains(t, got, node.AnnotationCleared)
	require.NotEmpty(t, got[node.AnnotationTouch], "admission looks again and ends the hold")
}

// A pod that the cache still shows is not deleted twice.
func TestPodIsDeletedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 3 {
		require.NoError(t, w.perform(t.Context(), w.set, w.facts, Step{Effect: DeletePod{w.facts.Pods[0]}}))
	}
	require.Equal(t, []string{"delete Pod"}, w.writes)
}
