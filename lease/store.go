package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Errors that callers branch on.
var (
	// ErrConflict: the Lease was changed, deleted or created by somebody else since it was read.
	// Nothing was written; read again.
	ErrConflict = errors.New("slot lease changed meanwhile")
	// ErrNotFree: somebody holds the slot.
	ErrNotFree = errors.New("slot is not free")
	// ErrNotHeld: the slot is not held by whom the caller thinks.
	ErrNotHeld = errors.New("slot is not held")
)

// Store reads slots live and writes them conditionally.
type Store struct {
	// Reader goes to the API server, past any cache.
	Reader client.Reader
	// Writer writes Leases.
	Writer client.Writer
	// Clock stamps acquireTime and renewTime.
	Clock clock.PassiveClock
}

// List reads all slots of a cell live.
func (s Store) List(ctx context.Context, namespace string) ([]Slot, error) {
	var list coordinationv1.LeaseList
	if err := s.Reader.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing slot leases: %w", err)
	}
	return FromList(&list), nil
}

// FromList keeps the slots of a list of Leases.
func FromList(list *coordinationv1.LeaseList) []Slot {
	var slots []Slot
	for i := range list.Items {
		if slot, err := FromLease(&list.Items[i]); err == nil {
			slots = append(slots, slot)
		}
	}
	return slots
}

// Get reads one slot live.
func (s Store) Get(ctx context.Context, namespace, name string) (Slot, error) {
	lease, err := s.read(ctx, namespace, name)
	if err != nil {
		return Slot{}, err
	}
	return FromLease(lease)
}

func (s Store) read(ctx context.Context, namespace, name string) (*coordinationv1.Lease, error) {
	var lease coordinationv1.Lease
	if err := s.Reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &lease); err != nil {
		return nil, fmt.Errorf("reading slot lease: %w", err)
	}
	return &lease, nil
}

// Create makes a free slot. ErrConflict: it is there already.
func (s Store) Create(ctx context.Context, namespace string, index int, deadline time.Duration) error {
	_, err := s.create(ctx, Slot{Namespace: namespace, Index: index, Name: Name(index), Deadline: deadline})
	return err
}

// CreateHeld makes a slot that is held from the start, for a node that rolls already.
func (s Store) CreateHeld(ctx context.Context, namespace string, index int, deadline time.Duration, holder Holder) (Slot, error) {
	slot := Slot{Namespace: namespace, Index: index, Name: Name(index), Deadline: deadline}
	return s.create(ctx, taken(slot, holder, s.Clock.Now()))
}

func (s Store) create(ctx context.Context, slot Slot) (Slot, error) {
	lease := slot.lease()
	if err := s.Writer.Create(ctx, lease); err != nil {
		return Slot{}, conflict("creating slot lease", err)
	}
	return FromLease(lease)
}

// Holder is who takes a slot, and the plan it starts with.
type Holder struct {
	Name string
	UID  types.UID
	Plan string
}

func taken(slot Slot, holder Holder, now time.Time) Slot {
	slot.Holder, slot.HolderUID, slot.Plan = holder.Name, holder.UID, holder.Plan
	slot.Transitions++
	slot.Acquired, slot.Renewed = now, now
	return slot
}

// Take gives a free slot to holder in one conditional write. ErrNotFree, ErrConflict.
func (s Store) Take(ctx context.Context, slot Slot, holder Holder, deadline time.Duration) (Slot, error) {
	if !slot.Free() {
		return Slot{}, fmt.Errorf("taking %s for %s: %w: %s holds it", slot.Name, holder.Name, ErrNotFree, slot.Holder)
	}
	slot.Deadline = deadline
	return s.update(ctx, "taking slot lease", taken(slot, holder, s.Clock.Now()))
}

// SetPlan writes the plan. Progress renews the slot: its holder is not stuck. ErrConflict.
func (s Store) SetPlan(ctx context.Context, slot Slot, plan string, progress bool) (Slot, error) {
	slot.Plan = plan
	if progress {
		slot.Renewed = s.Clock.Now()
	}
	return s.update(ctx, "writing plan", slot)
}

// Free gives a slot back. ErrConflict; ErrNotHeld where it is free already.
func (s Store) Free(ctx context.Context, slot Slot) (Slot, error) {
	if slot.Free() {
		return Slot{}, fmt.Errorf("freeing %s: %w", slot.Name, ErrNotHeld)
	}
	slot.Holder, slot.HolderUID, slot.Plan = "", "", ""
	slot.Acquired, slot.Renewed = time.Time{}, time.Time{}
	return s.update(ctx, "freeing slot lease", slot)
}

// Delete removes a free slot. ErrConflict; ErrNotFree.
func (s Store) Delete(ctx context.Context, slot Slot) error {
	if !slot.Free() {
		return fmt.Errorf("deleting %s: %w: %s holds it", slot.Name, ErrNotFree, slot.Holder)
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: slot.Namespace, Name: slot.Name}}
	err := s.Writer.Delete(ctx, lease, client.Preconditions{UID: &slot.UID, ResourceVersion: &slot.ResourceVersion})
	return conflict("deleting slot lease", err)
}

// update writes slot over the Lease that it was read from. The write names the resource version it
// was read at, so a Lease that changed meanwhile stays as it is.
func (s Store) update(ctx context.Context, doing string, slot Slot) (Slot, error) {
	lease := slot.lease()
	if err := s.Writer.Update(ctx, lease); err != nil {
		return Slot{}, conflict(doing, err)
	}
	return FromLease(lease)
}

func conflict(doing string, err error) error {
	if err == nil {
		return nil
	}
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("%s: %w: %w", doing, ErrConflict, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}
