package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/paceline/paceline/lease"
	"github.com/paceline/paceline/test/e2e/harness"
)

// newStore is a Store of its own over a real API server, as Paceline's account.
func newStore(t *testing.T, still *harness.Still) lease.Store {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", still.Kubeconfig("controller"))
	require.NoError(t, err)
	config.QPS = -1
	api, err := client.New(config, client.Options{})
	require.NoError(t, err)
	return lease.Store{Reader: api, Writer: api, Clock: clock.RealClock{}}
}

// Eight Stores have read the same free slot, and all take it: the API server lets one.
func TestOneOfManyTakesASlot(t *testing.T) {
	t.Parallel()
	still := rig.Still(t)
	namespace := still.Namespace(t, "one-of-many", nil, nil)
	require.NoError(t, newStore(t, still).Create(t.Context(), namespace, 0, time.Minute))
	const many = 8
	var stores [many]lease.Store
	var seen [many]lease.Slot
	for i := range many {
		stores[i] = newStore(t, still)
		var err error
		seen[i], err = stores[i].Get(t.Context(), namespace, lease.Name(0))
		require.NoError(t, err)
		require.True(t, seen[i].Free())
	}
	var wg sync.WaitGroup
	var took [many]lease.Slot
	var errs [many]error
	for i := range many {
		wg.Go(func() {
			took[i], errs[i] = stores[i].Take(t.Context(), seen[i], holderNumber(i), time.Minute)
		})
	}
	wg.Wait()
	stored, err := stores[0].Get(t.Context(), namespace, lease.Name(0))
	require.NoError(t, err)
	winners := 0
	for i := range many {
		if errs[i] != nil {
			require.ErrorIs(t, errs[i], lease.ErrConflict)
			continue
		}
		winners++
		require.Equal(t, took[i], stored)
		require.True(t, stored.HeldBy(holderNumber(i).Name, holderNumber(i).UID))
	}
	require.Equal(t, 1, winners)
	require.Equal(t, int32(1), stored.Transitions)
}

func holderNumber(i int) lease.Holder {
	return lease.Holder{Name: fmt.Sprintf("rpc-%d", i), UID: types.UID(fmt.Sprintf("uid-%d", i)), Plan: `{"v":1}`}
}

// staleWrite is a write of a slot, on an old read of it.
type staleWrite struct {
	held  bool // the slot is held when it is read
	write func(context.Context, lease.Store, lease.Slot) error
}

func staleWrites() map[string]staleWrite {
	return map[string]staleWrite{
		"take": {false, func(ctx context.Context, s lease.Store, slot lease.Slot) error {
			_, err := s.Take(ctx, slot, holderNumber(1), time.Minute)
			return err
		}},
		"plan": {true, func(ctx context.Context, s lease.Store, slot lease.Slot) error {
			_, err := s.SetPlan(ctx, slot, "mine", true)
			return err
		}},
		"free": {true, func(ctx context.Context, s lease.Store, slot lease.Slot) error {
			_, err := s.Free(ctx, slot)
			return err
		}},
		"delete": {false, func(ctx context.Context, s lease.Store, slot lease.Slot) error { return s.Delete(ctx, slot) }},
	}
}

// Whoever writes a slot on an old read of it writes nothing, whatever became of its Lease meanwhile;
// also where a Lease stands in its place that says the same.
func TestAStaleSlotWriteIsRefused(t *testing.T) {
	t.Parallel()
	still := rig.Still(t)
	for meanwhile, happen := range map[string]func(*testing.T, lease.Store, lease.Slot){
		"changed": changeSlot, "deleted": deleteSlot, "recreated": recreateSlot,
	} {
		for doing, c := range staleWrites() {
			t.Run(doing+" of a slot that was "+meanwhile, func(t *testing.T) {
				t.Parallel()
				mine, other := newStore(t, still), newStore(t, still)
				namespace := still.Namespace(t, "stale", nil, nil)
				createSlot(t, other, namespace, c.held)
				seen, err := mine.Get(t.Context(), namespace, lease.Name(0))
				require.NoError(t, err)
				happen(t, other, seen)
				before, err := other.List(t.Context(), namespace)
				require.NoError(t, err)
				require.ErrorIs(t, c.write(t.Context(), mine, seen), lease.ErrConflict)
				after, err := other.List(t.Context(), namespace)
				require.NoError(t, err)
				require.Equal(t, before, after, "nothing was written")
			})
		}
	}
}

func createSlot(t *testing.T, s lease.Store, namespace string, held bool) {
	t.Helper()
	if held {
		_, err := s.CreateHeld(t.Context(), namespace, 0, time.Minute, holderNumber(0))
		require.NoError(t, err)
		return
	}
	require.NoError(t, s.Create(t.Context(), namespace, 0, time.Minute))
}

func changeSlot(t *testing.T, s lease.Store, slot lease.Slot) {
	t.Helper()
	var err error
	if slot.Free() {
		_, err = s.Take(t.Context(), slot, holderNumber(2), time.Minute)
	} else {
		_, err = s.SetPlan(t.Context(), slot, "theirs", true)
	}
	require.NoError(t, err)
}

func deleteSlot(t *testing.T, s lease.Store, slot lease.Slot) {
	t.Helper()
	if !slot.Free() {
		var err error
		slot, err = s.Free(t.Context(), slot)
		require.NoError(t, err)
	}
	require.NoError(t, s.Delete(t.Context(), slot))
}

func recreateSlot(t *testing.T, s lease.Store, slot lease.Slot) {
	t.Helper()
	deleteSlot(t, s, slot)
	createSlot(t, s, slot.Namespace, !slot.Free())
}
