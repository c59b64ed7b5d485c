package lease

import (
	"math"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/paceline/paceline/node"
)

// FromLease reads a slot Lease. Fields that are missing read as zero, so a Lease that somebody
// emptied is a free slot. It fails on a name that is no slot's.
func FromLease(lease *coordinationv1.Lease) (Slot, error) {
	index, err := indexOf(lease.Name)
	if err != nil {
		return Slot{}, err
	}
	slot := Slot{
		Namespace: lease.Namespace, Name: lease.Name, Index: index,
		ResourceVersion: lease.ResourceVersion, UID: lease.UID,
		Holder:      ptr.Deref(lease.Spec.HolderIdentity, ""),
		HolderUID:   types.UID(lease.Annotations[node.AnnotationHolderUID]),
		Transitions: ptr.Deref(lease.Spec.LeaseTransitions, 0),
		Deadline:    time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second,
		Plan:        lease.Annotations[node.AnnotationPlan],
		origin:      lease.DeepCopy(),
	}
	if lease.Spec.AcquireTime != nil {
		slot.Acquired = lease.Spec.AcquireTime.Time
	}
	if lease.Spec.RenewTime != nil {
		slot.Renewed = lease.Spec.RenewTime.Time
	}
	return slot, nil
}

// lease is the Lease that a conditional write of the slot sends: as it was read, but for what slot says.
func (s Slot) lease() *coordinationv1.Lease {
	lease := s.origin.DeepCopy()
	if lease == nil {
		lease = &coordinationv1.Lease{}
	}
	lease.ResourceVersion, lease.UID = s.ResourceVersion, s.UID
	write(s, lease)
	return lease
}

// write puts what slot says into lease and leaves everything else of it alone.
func write(slot Slot, lease *coordinationv1.Lease) {
	lease.Namespace, lease.Name = slot.Namespace, slot.Name
	if lease.Labels == nil {
		lease.Labels = map[string]string{}
	}
	lease.Labels[node.LabelSlot] = strconv.Itoa(slot.Index)
	lease.Labels[node.LabelManagedBy] = node.ManagedBy
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	setOrDelete(lease.Annotations, node.AnnotationHolderUID, string(slot.HolderUID))
	setOrDelete(lease.Annotations, node.AnnotationPlan, slot.Plan)
	lease.Spec.HolderIdentity = orNil(slot.Holder)
	lease.Spec.LeaseTransitions = ptr.To(slot.Transitions)
	lease.Spec.LeaseDurationSeconds = nil
	if seconds := int64(slot.Deadline / time.Second); seconds > 0 {
		lease.Spec.LeaseDurationSeconds = ptr.To(int32(min(seconds, math.MaxInt32)))
	}
	lease.Spec.AcquireTime = microTime(slot.Acquired)
	lease.Spec.RenewTime = microTime(slot.Renewed)
}

func setOrDelete(annotations map[string]string, key, value string) {
	if value == "" {
		delete(annotations, key)
		return
	}
	annotations[key] = value
}

func orNil(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func microTime(t time.Time) *metav1.MicroTime {
	if t.IsZero() {
		return nil
	}
	return &metav1.MicroTime{Time: t}
}
