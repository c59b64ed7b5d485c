package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/paceline/paceline/test/e2e/harness"
)

// stuck is a cell of four nodes at 25 % whose first holds the only slot with an image that never
// becomes ready.
func stuck(t *testing.T, strategy appsv1.StatefulSetUpdateStrategyType) *harness.Cell {
	t.Helper()
	cell := rig.NewCell(t, harness.CellOptions{Budget: "25", Nodes: 4, Strategy: strategy})
	cell.SetImage(t, "app:bad", "rpc-00")
	cell.WaitHolders(t, "rpc-00")
	cell.WaitPodStarted(t, "rpc-00-0", "app:bad")
	cell.SetImage(t, "app:v2", "rpc-01", "rpc-02", "rpc-03")
	return cell
}

// An image that never becomes ready keeps its slot and the others name it; a good image then unblocks
// the cell without a human.
func TestABadImageStopsAtItsSlotAndAGoodOneUnblocks(t *testing.T) {
	t.Parallel()
	strategies(t, func(t *testing.T, strategy appsv1.StatefulSetUpdateStrategyType) {
		cell := stuck(t, strategy)
		cell.WaitHeld(t, "rpc-01", "rpc-02", "rpc-03")
		cell.WaitCondition(t, "rpc-01", "NodeUpdateInProgress", "UpdateDeferred", "rpc-00")
		cell.WaitCondition(t, "rpc-03", "NodeUpdateInProgress", "UpdateDeferred", "held by rpc-00")
		cell.WaitCondition(t, "rpc-00", "NodeUpdateInProgress", "UpdateStarted", "waiting for pod rpc-00-0 to be ready")
		cell.WaitCondition(t, "rpc-00", "Stalled", "ProgressDeadlineExceeded", "paceline-slot-0")
		cell.WaitEvent(t, "rpc-00", "UpdateStuck", "")
		cell.WaitHolders(t, "rpc-00") // stuck, and the slot is its own still
		cell.SetImage(t, "app:v2")
		cell.WaitImage(t, "app:v2")
		report := cell.AssertMaxDown(t, 1)
		require.Empty(t, report.WithoutSlot())
		cell.WaitCondition(t, "rpc-00", "NodeUpdateInProgress", "UpdateComplete", "")
	})
}

// A to B to A in mid-roll: it comes back under the same slot.
func TestInMidRollBackToTheOldImage(t *testing.T) {
	t.Parallel()
	strategies(t, func(t *testing.T, strategy appsv1.StatefulSetUpdateStrategyType) {
		cell := stuck(t, strategy)
		cell.SetImage(t, "app:v1", "rpc-00")
		cell.WaitImage(t, "app:v1", "rpc-00")
		cell.WaitImage(t, "app:v2", "rpc-01", "rpc-02", "rpc-03")
		report := cell.AssertMaxDown(t, 1)
		require.Equal(t, 2, report.Restarts["rpc-00"])
		require.Empty(t, report.WithoutSlot())
	})
}

// A new bump in mid-roll rolls under the same slot: nobody overtakes, the slot is taken once.
func TestInMidRollANewBump(t *testing.T) {
	t.Parallel()
	strategies(t, func(t *testing.T, strategy appsv1.StatefulSetUpdateStrategyType) {
		cell := rig.NewCell(t, harness.CellOptions{Budget: "34", Nodes: 3, Replicas: 3, Strategy: strategy})
		cell.SetImage(t, "app:v2")
		cell.WaitPodStarted(t, "rpc-00-2", "app:v2")
		cell.SetImage(t, "app:v3")
		cell.WaitImage(t, "app:v3")
		report := cell.AssertMaxDown(t, 1)
		require.Empty(t, report.WithoutSlot())
		require.Equal(t, []string{"rpc-00", "rpc-01", "rpc-02"}, takers(report))
	})
}

// Deleted in mid-roll: its slot goes to the next; recreated under the same name it holds nothing.
func TestInMidRollDeletion(t *testing.T) {
	t.Parallel()
	strategies(t, func(t *testing.T, strategy appsv1.StatefulSetUpdateStrategyType) {
		cell := stuck(t, strategy)
		cell.DeleteNode(t, "rpc-00", metav1.DeleteOptions{})
		cell.WaitGone(t, "rpc-00")
		cell.WaitImage(t, "app:v2", "rpc-01", "rpc-02", "rpc-03")
		set := cell.Set(0)
		_, err := cell.Client.AppsV1().StatefulSets(cell.Name).Create(t.Context(), set, metav1.CreateOptions{})
		require.NoError(t, err)
		cell.WaitImage(t, "app:v1", "rpc-00")
		cell.AssertMaxDown(t, 1)
	})
}

// Paused in mid-roll: nothing is left to wait for, the slot goes on.
func TestInMidRollPause(t *testing.T) {
	t.Parallel()
	strategies(t, func(t *testing.T, strategy appsv1.StatefulSetUpdateStrategyType) {
		cell := stuck(t, strategy)
		cell.Scale(t, "rpc-00", 0)
		cell.WaitImage(t, "app:v2", "rpc-01", "rpc-02", "rpc-03")
		cell.AssertMaxDown(t, 1)
	})
}

// takers are the nodes in the order in which they took a slot, each time they took one.
func takers(report checkerReport) []string {
	var names []string
	for _, change := range report.Holders {
		if change.Holder != "" {
			names = append(names, change.Holder)
		}
	}
	return names
}
