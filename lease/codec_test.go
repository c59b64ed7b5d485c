package lease

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/paceline/paceline/node"
)

var moment = time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)

func fullSlot() Slot {
	return Slot{
		Namespace: "cell", Name: Name(3), Index: 3, Holder: "rpc-1", HolderUID: "u1", Transitions: 7,
		Acquired: moment, Renewed: moment.Add(time.Minute), Deadline: 10 * time.Minute, Plan: `{"v":1}`,
	}
}

// said is a slot without what the Lease beside it says.
func said(slot Slot) Slot {
	slot.origin = nil
	return slot
}

func TestCodecRoundTrip(t *testing.T) {
	t.Parallel()
	for name, slot := range map[string]Slot{
		"held": fullSlot(),
		"free": {Namespace: "cell", Name: Name(0), Transitions: 2, Deadline: time.Minute},
		"new":  {Namespace: "cell", Name: Name(12), Index: 12},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var lease coordinationv1.Lease
			write(slot, &lease)
			got, err := FromLease(&lease)
			require.NoError(t, err)
			require.Equal(t, slot, said(got))
		})
	}
}

// What people and caches see of a slot.
func TestCodecShape(t *testing.T) {
	t.Parallel()
	var lease coordinationv1.Lease
	write(fullSlot(), &lease)
	require.Equal(t, map[string]string{node.LabelSlot: "3", node.LabelManagedBy: node.ManagedBy}, lease.Labels)
	require.Equal(t, map[string]string{node.AnnotationHolderUID: "u1", node.AnnotationPlan: `{"v":1}`}, lease.Annotations)
	require.Equal(t, coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To("rpc-1"), LeaseDurationSeconds: ptr.To(int32(600)), LeaseTransitions: ptr.To(int32(7)),
		AcquireTime: &metav1.MicroTime{Time: moment}, RenewTime: &metav1.MicroTime{Time: moment.Add(time.Minute)},
	}, lease.Spec)

	write(Slot{Namespace: "cell", Name: Name(3), Index: 3, Transitions: 7}, &lease)
	require.Nil(t, lease.Spec.HolderIdentity, "a free slot has no holder to show")
	require.Empty(t, lease.Annotations)
}

func TestFromLease(t *testing.T) {
	t.Parallel()
	named := metav1.ObjectMeta{Namespace: "cell", Name: Name(4), UID: "l", ResourceVersion: "9"}
	bare := Slot{Namespace: "cell", Name: Name(4), Index: 4, UID: "l", ResourceVersion: "9"}
	cases := map[string]struct {
		lease coordinationv1.Lease
		want  Slot
	}{
		"an emptied Lease is a free slot": {coordinationv1.Lease{ObjectMeta: named}, bare},
		"an empty holder is none": {
			coordinationv1.Lease{ObjectMeta: named, Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("")}}, bare,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := FromLease(&c.lease)
			require.NoError(t, err)
			require.Equal(t, c.want, said(got))
			require.True(t, got.Free())
		})
	}
	_, err := FromLease(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "kube-scheduler"}})
	require.ErrorContains(t, err, "kube-scheduler: not a slot")
}

func TestFromListKeepsSlotsAlone(t *testing.T) {
	t.Parallel()
	var list coordinationv1.LeaseList
	for _, name := range []string{"kube-scheduler", Name(1), "paceline-leader", "paceline-slot-", Name(0)} {
		list.Items = append(list.Items, coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	slots := FromList(&list)
	require.Len(t, slots, 2)
	require.Equal(t, []string{Name(1), Name(0)}, []string{slots[0].Name, slots[1].Name})
}

// A slot is a value: what happens to the Lease that it was read from does not reach it.
func TestFromLeaseKeepsNothingOfTheObject(t *testing.T) {
	t.Parallel()
	lease := coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: Name(1), Labels: map[string]string{"team": "rpc"}}}
	slot, err := FromLease(&lease)
	require.NoError(t, err)
	lease.Labels["team"] = "other"
	require.Equal(t, "rpc", slot.lease().Labels["team"])
}
