package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"github.com/paceline/paceline/test/e2e/harness"
)

const (
	annotationHolderUID = "paceline.io/holder-uid"
	annotationPlan      = "paceline.io/plan"
)

// tampering is what somebody with every right does to the Lease of a node that holds it in mid-roll.
type tampering struct {
	do func(*testing.T, *harness.Cell)
	// down is how many nodes may be down at once: whom a person gives a slot, rolls on it.
	down int
}

func tamperings() map[string]tampering {
	change := func(change func(*testing.T, *harness.Cell, *coordinationv1.Lease)) func(*testing.T, *harness.Cell) {
		return func(t *testing.T, cell *harness.Cell) {
			t.Helper()
			changeLease(t, cell, func(l *coordinationv1.Lease) { change(t, cell, l) })
		}
	}
	return map[string]tampering{
		"deleted": {removeLease, 1},
		"emptied": {change(func(_ *testing.T, _ *harness.Cell, l *coordinationv1.Lease) {
			l.Annotations, l.Labels, l.Spec = nil, nil, coordinationv1.LeaseSpec{}
		}), 1},
		"without a holder": {change(func(_ *testing.T, _ *harness.Cell, l *coordinationv1.Lease) { l.Spec.HolderIdentity = nil }), 1},
		"given to another by name": {change(func(_ *testing.T, _ *harness.Cell, l *coordinationv1.Lease) {
			*l.Spec.HolderIdentity = "rpc-02"
		}), 1},
		"given to another altogether": {change(func(t *testing.T, cell *harness.Cell, l *coordinationv1.Lease) {
			t.Helper()
			*l.Spec.HolderIdentity, l.Annotations[annotationHolderUID] = "rpc-02", string(cell.Node(t, "rpc-02").UID)
		}), 2},
		"given to nobody there is": {change(func(_ *testing.T, _ *harness.Cell, l *coordinationv1.Lease) {
			*l.Spec.HolderIdentity, l.Annotations[annotationHolderUID] = "rpc-99", "none"
		}), 1},
		"renamed": {func(t *testing.T, cell *harness.Cell) {
			t.Helper()
			copyLease(t, cell, "paceline-slot-7")
			removeLease(t, cell)
		}, 1},
		"duplicated": {func(t *testing.T, cell *harness.Cell) {
			t.Helper()
			copyLease(t, cell, "paceline-slot-7")
		}, 1},
		"duplicated under another spelling of its name": {func(t *testing.T, cell *harness.Cell) {
			t.Helper()
			copyLease(t, cell, "paceline-slot-00")
		}, 1},
		"taken back by its transitions": {change(func(_ *testing.T, _ *harness.Cell, l *coordinationv1.Lease) {
			*l.Spec.LeaseTransitions = 0
		}), 1},
		"with a truncated plan": {change(func(_ *testing.T, _ *harness.Cell, l *coordinationv1.Lease) {
			l.Annotations[annotationPlan] = l.Annotations[annotationPlan][:40]
		}), 1},
		"without a plan": {change(func(_ *testing.T, _ *harness.Cell, l *coordinationv1.Lease) {
			delete(l.Annotations, annotationPlan)
		}), 1},
		"with the plan of another node": {change(func(t *testing.T, cell *harness.Cell, l *coordinationv1.Lease) {
			t.Helper()
			l.Annotations[annotationPlan] = strings.ReplaceAll(l.Annotations[annotationPlan], string(cell.Node(t, "rpc-00").UID), "other")
		}), 1},
	}
}

func changeLease(t *testing.T, cell *harness.Cell, change func(*coordinationv1.Lease)) {
	t.Helper()
	leases := cell.Client.CoordinationV1().Leases(cell.Name)
	require.NoError(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		l, err := leases.Get(t.Context(), "paceline-slot-0", metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(l)
		_, err = leases.Update(t.Context(), l, metav1.UpdateOptions{})
		return err
	}))
}

func copyLease(t *testing.T, cell *harness.Cell, name string) {
	t.Helper()
	leases := cell.Client.CoordinationV1().Leases(cell.Name)
	l, err := leases.Get(t.Context(), "paceline-slot-0", metav1.GetOptions{})
	require.NoError(t, err)
	l.ObjectMeta = metav1.ObjectMeta{Name: name, Labels: l.Labels, Annotations: l.Annotations}
	_, err = leases.Create(t.Context(), l, metav1.CreateOptions{})
	require.NoError(t, err)
}

func removeLease(t *testing.T, cell *harness.Cell) {
	t.Helper()
	require.NoError(t, cell.Client.CoordinationV1().Leases(cell.Name).Delete(t.Context(), "paceline-slot-0", metav1.DeleteOptions{}))
}

// slow is a cell with one slot, held by a node whose new pod takes a while until it is ready; the others wait.
func slow(t *testing.T, strategy appsv1.StatefulSetUpdateStrategyType) *harness.Cell {
	t.Helper()
	cell := rig.NewCell(t, harness.CellOptions{Budget: "25", Nodes: 4, Strategy: strategy})
	cell.PatchNode(t, "rpc-00", types.StrategicMergePatchType, `{"spec":{"template":{"metadata":{"annotations":{"`+
		harness.AnnotationReadyAfter+`":"6s"}},"spec":{"containers":[{"name":"app","image":"app:v2"}]}}}}`)
	cell.WaitPodStarted(t, "rpc-00-0", "app:v2")
	cell.SetImage(t, "app:v2", cell.Nodes[1:]...)
	cell.WaitHolders(t, "rpc-00")
	cell.WaitHeld(t, cell.Nodes[1:]...)
	return cell
}

// The slot of a node in mid-roll is tampered with. Nobody else rolls for it, no pod goes without a slot,
// and in the end all is rolled, once, and there are as many free slots as there should be.
func TestALeaseIsTamperedWith(t *testing.T) {
	t.Parallel()
	for name, c := range tamperings() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			strategies(t, func(t *testing.T, strategy appsv1.StatefulSetUpdateStrategyType) {
				cell := slow(t, strategy)
				c.do(t, cell)
				cell.WaitImage(t, "app:v2")
				cell.WaitHolders(t)
				cell.WaitSlots(t, 1)
				report := cell.AssertMaxDown(t, c.down)
				for _, name := range cell.Nodes {
					require.Equal(t, 1, report.Restarts[name], name)
				}
				require.Empty(t, report.WithoutSlot())
			})
		})
	}
}

// A plan that another version of Paceline wrote is left alone: nothing of it runs, the node says so, and goes on
// when a person takes the plan away.
func TestAnUnknownPlanRunsNothing(t *testing.T) {
	t.Parallel()
	for name, plan := range map[string]string{
		"of another version": `{"v":99,"type":"update","steps":["restart"]}`,
		"of another type":    `{"v":1,"type":"downgrade","tasks":[]}`,
		"with another task":  `{"v":1,"type":"update","tasks":[{"type":"format-disk","state":"Pending"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			strategies(t, func(t *testing.T, strategy appsv1.StatefulSetUpdateStrategyType) {
				cell := rig.NewCell(t, harness.CellOptions{Budget: "50", Nodes: 2, Strategy: strategy})
				cell.SetImage(t, "app:bad", "rpc-00")
				cell.WaitPodStarted(t, "rpc-00-0", "app:bad")
				changeLease(t, cell, func(l *coordinationv1.Lease) { l.Annotations[annotationPlan] = plan })
				cell.WaitCondition(t, "rpc-00", "NodeUpdateInProgress", "UpdateFailed", "remove the annotation from the Lease")
				cell.WaitEvent(t, "rpc-00", "TaskFailed", "")
				cell.SetImage(t, "app:v2", "rpc-01")
				cell.WaitCondition(t, "rpc-01", "NodeUpdateInProgress", "UpdateDeferred", "held by rpc-00")
				l, err := cell.Client.CoordinationV1().Leases(cell.Name).Get(t.Context(), "paceline-slot-0", metav1.GetOptions{})
				require.NoError(t, err)
				require.Equal(t, plan, l.Annotations[annotationPlan], "it stands as it was")
				changeLease(t, cell, func(l *coordinationv1.Lease) { delete(l.Annotations, annotationPlan) })
				cell.SetImage(t, "app:v2")
				cell.WaitImage(t, "app:v2")
				report := cell.AssertMaxDown(t, 1)
				require.Empty(t, report.WithoutSlot())
			})
		})
	}
}
