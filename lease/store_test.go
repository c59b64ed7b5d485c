package lease

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

const cellName = "cell"

var holder = Holder{Name: "rpc-1", UID: "u1", Plan: `{"v":1}`}

type world struct {
	Store
	client client.Client
	clock  *clocktesting.FakePassiveClock
}

func newWorld(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) world {
	t.Helper()
	api := fake.NewClientBuilder().WithObjects(objects...).WithInterceptorFuncs(funcs).Build()
	clock := clocktesting.NewFakePassiveClock(moment)
	return world{Store{Reader: api, Writer: api, Clock: clock}, api, clock}
}

// freeLease is a slot's Lease that others have written to as well.
func freeLease(index int) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cellName, Name: Name(index), UID: types.UID(Name(index)),
			Labels:          map[string]string{"team": "rpc"},
			Annotations:     map[string]string{"note": "kept"},
			Finalizers:      []string{"example.com/kept"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "kept", UID: "o"}},
		},
		Spec: coordinationv1.LeaseSpec{LeaseTransitions: ptr.To(int32(4))},
	}
}

func (w world) get(t *testing.T, index int) Slot {
	t.Helper()
	slot, err := w.Get(t.Context(), cellName, Name(index))
	require.NoError(t, err)
	return slot
}

func (w world) raw(t *testing.T, index int) *coordinationv1.Lease {
	t.Helper()
	var lease coordinationv1.Lease
	require.NoError(t, w.client.Get(t.Context(), types.NamespacedName{Namespace: cellName, Name: Name(index)}, &lease))
	return &lease
}

func TestStoreCreate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, interceptor.Funcs{})
	require.NoError(t, w.Create(t.Context(), cellName, 2, time.Minute))
	slot := w.get(t, 2)
	require.True(t, slot.Free())
	require.Zero(t, slot.Transitions)
	require.Equal(t, time.Minute, slot.Deadline)

	held, err := w.CreateHeld(t.Context(), cellName, 3, time.Minute, holder)
	require.NoError(t, err)
	require.True(t, held.HeldBy("rpc-1", "u1"))
	require.Equal(t, int32(1), held.Transitions)
	require.True(t, w.get(t, 3).Proves(ptr.To(held.Ref()), "rpc-1", "u1"))

	slots, err := w.List(t.Context(), cellName)
	require.NoError(t, err)
	require.Len(t, slots, 2)
	none, err := w.List(t.Context(), "other")
	require.NoError(t, err)
	require.Empty(t, none)
}

// One holder after the other: each write stamps its time, each take is a new transition.
func TestStoreTakeProgressFree(t *testing.T) {
	t.Parallel()
	w := newWorld(t, interceptor.Funcs{}, freeLease(0))
	slot, err := w.Take(t.Context(), w.get(t, 0), holder, 10*time.Minute)
	require.NoError(t, err)
	require.True(t, slot.HeldBy("rpc-1", "u1"))
	require.Equal(t, int32(5), slot.Transitions)
	require.Equal(t, holder.Plan, slot.Plan)
	require.Equal(t, 10*time.Minute, slot.Deadline)
	require.True(t, moment.Equal(slot.Acquired))

	w.clock.SetTime(moment.Add(time.Hour))
	slot, err = w.SetPlan(t.Context(), slot, `{"v":1,"id":"x"}`, true)
	require.NoError(t, err)
	require.True(t, moment.Equal(slot.Acquired))
	require.True(t, moment.Add(time.Hour).Equal(slot.Renewed))
	require.Equal(t, int32(5), slot.Transitions, "progress is no new holder")

	slot, err = w.Free(t.Context(), slot)
	require.NoError(t, err)
	require.Equal(t, Slot{
		Namespace: cellName, Name: Name(0), UID: types.UID(Name(0)), ResourceVersion: slot.ResourceVersion,
		Transitions: 5, Deadline: 10 * time.Minute,
	}, said(slot), "what was the holder's is gone")
	require.Equal(t, said(slot), said(w.get(t, 0)))
}

// What others put on a slot's Lease survives every write of ours.
func TestStoreLeavesForeignFieldsAlone(t *testing.T) {
	t.Parallel()
	foreign := freeLease(0)
	foreign.Spec.Strategy = ptr.To(coordinationv1.OldestEmulationVersion)
	foreign.Spec.PreferredHolder = ptr.To("kept")
	w := newWorld(t, interceptor.Funcs{}, foreign)
	check := func(doing string) {
		lease := w.raw(t, 0)
		require.Equal(t, "rpc", lease.Labels["team"], doing)
		require.Equal(t, "kept", lease.Annotations["note"], doing)
		require.Equal(t, foreign.Finalizers, lease.Finalizers, doing)
		require.Equal(t, foreign.OwnerReferences, lease.OwnerReferences, doing)
		require.Equal(t, foreign.Spec.Strategy, lease.Spec.Strategy, doing)
		require.Equal(t, foreign.Spec.PreferredHolder, lease.Spec.PreferredHolder, doing)
	}
	slot, err := w.Take(t.Context(), w.get(t, 0), holder, time.Minute)
	require.NoError(t, err)
	check("take")
	slot, err = w.SetPlan(t.Context(), slot, "x", true)
	require.NoError(t, err)
	check("plan")
	_, err = w.Free(t.Context(), slot)
	require.NoError(t, err)
	check("free")
}

// Every write names the resource version that it was decided on; who comes second writes nothing.
func TestStoreConflicts(t *testing.T) {
	t.Parallel()
	heldLease := freeLease(1)
	heldLease.Spec.HolderIdentity = ptr.To("rpc-9")
	writes := map[string]struct {
		index int
		write func(context.Context, Store, Slot) error
	}{
		"take": {0, func(ctx context.Context, s Store, slot Slot) error { return second(s.Take(ctx, slot, holder, 0)) }},
		"plan": {1, func(ctx context.Context, s Store, slot Slot) error { return second(s.SetPlan(ctx, slot, "x", true)) }},
		"free": {1, func(ctx context.Context, s Store, slot Slot) error { return second(s.Free(ctx, slot)) }},
		"delete": {0, func(ctx context.Context, s Store, slot Slot) error {
			return s.Delete(ctx, slot)
		}},
	}
	for name, c := range writes {
		t.Run(name+": the Lease was changed meanwhile", func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, interceptor.Funcs{}, freeLease(0), heldLease.DeepCopy())
			seen := w.get(t, c.index)
			other := w.raw(t, c.index)
			other.Labels["changed"] = "meanwhile"
			require.NoError(t, w.client.Update(t.Context(), other))
			require.ErrorIs(t, c.write(t.Context(), w.Store, seen), ErrConflict)
			require.Equal(t, other, w.raw(t, c.index), "nothing was written")
		})
		t.Run(name+": the Lease is gone", func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, interceptor.Funcs{}, freeLease(0), heldLease.DeepCopy())
			seen := w.get(t, c.index)
			gone := w.raw(t, c.index)
			gone.Finalizers = nil
			require.NoError(t, w.client.Update(t.Context(), gone))
			require.NoError(t, w.client.Delete(t.Context(), gone))
			require.ErrorIs(t, c.write(t.Context(), w.Store, seen), ErrConflict)
		})
	}
	t.Run("create: it is there already", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, interceptor.Funcs{}, freeLease(0))
		require.ErrorIs(t, w.Create(t.Context(), cellName, 0, 0), ErrConflict)
		_, err := w.CreateHeld(t.Context(), cellName, 0, 0, holder)
		require.ErrorIs(t, err, ErrConflict)
	})
}

func second(_ Slot, err error) error { return err }

func TestStoreNamedErrors(t *testing.T) {
	t.Parallel()
	heldLease := freeLease(1)
	heldLease.Spec.HolderIdentity = ptr.To("rpc-9")
	w := newWorld(t, interceptor.Funcs{}, freeLease(0), heldLease)

	_, err := w.Take(t.Context(), w.get(t, 1), holder, 0)
	require.ErrorIs(t, err, ErrNotFree)
	require.ErrorContains(t, err, "taking paceline-slot-1 for rpc-1")
	require.ErrorContains(t, err, "rpc-9 holds it")
	require.ErrorIs(t, w.Delete(t.Context(), w.get(t, 1)), ErrNotFree)
	_, err = w.Free(t.Context(), w.get(t, 0))
	require.ErrorIs(t, err, ErrNotHeld)

	_, err = w.Get(t.Context(), cellName, Name(7))
	require.True(t, apierrors.IsNotFound(err), "a read says not found, for callers to branch on: %v", err)
	require.NotErrorIs(t, err, ErrConflict)
}

// Any other failure is handed on as it is: it is no conflict.
func TestStoreHandsFailuresOn(t *testing.T) {
	t.Parallel()
	down := errors.New("connection refused")
	w := newWorld(t, interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return down },
		Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error { return down },
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return down },
		List:   func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return down },
	}, freeLease(0))
	slot := w.get(t, 0)
	_, take := w.Take(t.Context(), slot, holder, 0)
	_, list := w.List(t.Context(), cellName)
	for doing, err := range map[string]error{
		"creating slot lease": w.Create(t.Context(), cellName, 5, 0), "taking slot lease": take,
		"deleting slot lease": w.Delete(t.Context(), slot), "listing slot leases": list,
	} {
		require.ErrorIs(t, err, down, doing)
		require.ErrorContains(t, err, doing)
		require.NotErrorIs(t, err, ErrConflict, doing)
	}
}

// The fake client answers a write that names no resource version with a conflict too, so TestStoreConflicts
// does not see one. This does: what is sent names the Lease that was read, its version and its UID.
func TestStoreWritesNameWhatTheySaw(t *testing.T) {
	t.Parallel()
	heldLease := freeLease(1)
	heldLease.Spec.HolderIdentity = ptr.To("rpc-9")
	writes := map[string]struct {
		index int
		write func(context.Context, Store, Slot) error
	}{
		"take":     {0, func(ctx context.Context, s Store, slot Slot) error { return second(s.Take(ctx, slot, holder, 0)) }},
		"plan":     {1, func(ctx context.Context, s Store, slot Slot) error { return second(s.SetPlan(ctx, slot, "x", false)) }},
		"progress": {1, func(ctx context.Context, s Store, slot Slot) error { return second(s.SetPlan(ctx, slot, "x", true)) }},
		"free":     {1, func(ctx context.Context, s Store, slot Slot) error { return second(s.Free(ctx, slot)) }},
	}
	for name, c := range writes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var sent []client.Object
			w := newWorld(t, interceptor.Funcs{
				Update: func(ctx context.Context, api client.WithWatch, lease client.Object, options ...client.UpdateOption) error {
					sent = append(sent, lease.DeepCopyObject().(client.Object))
					return api.Update(ctx, lease, options...)
				},
			}, freeLease(0), heldLease.DeepCopy())
			seen := w.get(t, c.index)
			require.NoError(t, c.write(t.Context(), w.Store, seen))
			require.Len(t, sent, 1, "one write, and no other way to write")
			require.NotEmpty(t, seen.ResourceVersion)
			require.Equal(t, seen.ResourceVersion, sent[0].GetResourceVersion())
			require.Equal(t, seen.UID, sent[0].GetUID())
		})
	}
}

func TestStoreDeleteNamesWhatItSaw(t *testing.T) {
	t.Parallel()
	var got client.DeleteOptions
	w := newWorld(t, interceptor.Funcs{
		Delete: func(_ context.Context, _ client.WithWatch, _ client.Object, options ...client.DeleteOption) error {
			got.ApplyOptions(options)
			return apierrors.NewConflict(schema.GroupResource{Group: coordinationv1.GroupName, Resource: "leases"}, Name(0), errors.New("another UID"))
		},
	}, freeLease(0))
	slot := w.get(t, 0)
	require.ErrorIs(t, w.Delete(t.Context(), slot), ErrConflict)
	require.Equal(t, &metav1.Preconditions{UID: &slot.UID, ResourceVersion: &slot.ResourceVersion}, got.Preconditions)
}
