package e2e

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/paceline/paceline/test/checker"
	"github.com/paceline/paceline/test/e2e/harness"
)

const slowly = 8 * time.Second

// A cell that is made of a namespace in mid-roll: what rolls takes slots, over the count if it must, and
// nothing else starts until there is room again.
func TestPacedInMidRoll(t *testing.T) {
	t.Parallel()
	cell := rig.NewCell(t, harness.CellOptions{Unpaced: true, Budget: "25", Nodes: 5, Replicas: 2, ReadyAfter: slowly})
	cell.SetImage(t, "app:v2", "rpc-01", "rpc-03")
	cell.WaitPodStarted(t, "rpc-03-1", "app:v2") // the lower ordinal runs the old image still
	cell.Pace(t, true)
	cell.WaitHolders(t, "rpc-01", "rpc-03")
	cell.SetImage(t, "app:v2", "rpc-00", "rpc-02", "rpc-04")
	cell.WaitImage(t, "app:v2")
	report := cell.AssertMaxDown(t, 2)
	require.Equal(t, 10, report.TotalRestarts())
	order := report.Order()
	require.Equal(t, []string{"rpc-00", "rpc-02", "rpc-04"}, order[2:], "the others after the adopted, in turn")
	for _, roll := range report.WithoutSlot() {
		require.Contains(t, []string{"rpc-01", "rpc-03"}, roll.Node)
	}
}

// Bumps while the webhook is away roll at once, as nothing can hold them; they are adopted, and those that come
// after it is back wait for room.
func TestBumpsWhileTheWebhookIsAway(t *testing.T) {
	t.Parallel()
	cell := rig.NewCell(t, harness.CellOptions{Budget: "25", Nodes: 4, ReadyAfter: slowly})
	cell.WebhookAway(t, true)
	cell.SetImage(t, "app:v2", "rpc-00", "rpc-02")
	cell.WaitHolders(t, "rpc-00", "rpc-02")
	cell.WebhookAway(t, false)
	cell.SetImage(t, "app:v2", "rpc-01", "rpc-03")
	cell.WaitImage(t, "app:v2")
	report := cell.AssertMaxDown(t, 2)
	require.Equal(t, []string{"rpc-01", "rpc-03"}, report.Order()[2:])
	require.Equal(t, 4, report.TotalRestarts())
}

// OnDelete drift that is older than Paceline, or came while its webhook was away: nobody began to roll it, so it
// waits like any other.
func TestOnDeleteDriftOfBefore(t *testing.T) {
	t.Parallel()
	t.Run("older than Paceline", func(t *testing.T) {
		t.Parallel()
		cell := rig.NewCell(t, harness.CellOptions{Unpaced: true, Budget: "25", Nodes: 4, Strategy: onDelete})
		cell.SetImage(t, "app:v2")
		cell.Pace(t, true)
		cell.WaitImage(t, "app:v2")
		report := cell.AssertMaxDown(t, 1)
		require.Equal(t, cell.Nodes, report.Order())
		require.Empty(t, report.WithoutSlot())
	})
	t.Run("while the webhook was away", func(t *testing.T) {
		t.Parallel()
		cell := rig.NewCell(t, harness.CellOptions{Budget: "25", Nodes: 4, Strategy: onDelete})
		cell.WebhookAway(t, true)
		cell.SetImage(t, "app:v2")
		cell.WebhookAway(t, false)
		cell.WaitImage(t, "app:v2")
		report := cell.AssertMaxDown(t, 1)
		require.Empty(t, report.WithoutSlot())
	})
}

// OnDelete with drift switched to RollingUpdate rolls by Kubernetes' hand: it waits where it is held, and is adopted
// where nothing held it.
func TestOnDeleteSwitchedToRollingUpdate(t *testing.T) {
	t.Parallel()
	toRolling := `{"spec":{"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"partition":0}}}}`
	toManual := `{"spec":{"updateStrategy":{"$retainKeys":["type"],"type":"OnDelete"}}}`
	t.Run("while held", func(t *testing.T) {
		t.Parallel()
		cell := frozen(t, onDelete, 1)
		for _, name := range cell.Nodes {
			cell.PatchNode(t, name, types.StrategicMergePatchType, toRolling)
			require.Equal(t, harness.HeldPartition, *cell.Node(t, name).Spec.UpdateStrategy.RollingUpdate.Partition)
		}
		cell.PatchNode(t, "rpc-01", types.StrategicMergePatchType, toManual)
		require.NotEmpty(t, cell.Node(t, "rpc-01").Annotations[harness.AnnotationHeld], "and back")
		require.Equal(t, 0, cell.Report().TotalRestarts())
		thaw(t, cell)
		cell.WaitImage(t, "app:v2")
		report := cell.AssertMaxDown(t, 1)
		require.Empty(t, report.WithoutSlot())
	})
	t.Run("with drift that nothing holds", func(t *testing.T) {
		t.Parallel()
		cell := rig.NewCell(t, harness.CellOptions{Unpaced: true, Budget: "34", Nodes: 3, Strategy: onDelete, ReadyAfter: slowly})
		cell.SetImage(t, "app:v2", "rpc-00")
		cell.PatchNode(t, "rpc-00", types.StrategicMergePatchType, toRolling)
		cell.Pace(t, true)
		cell.WaitHolders(t, "rpc-00")
		cell.SetImage(t, "app:v2", "rpc-01", "rpc-02")
		cell.WaitImage(t, "app:v2")
		cell.AssertMaxDown(t, 1)
	})
}

// A writer's own partition is kept while its node waits, and given back with the slot.
func TestAnOwnPartitionIsGivenBack(t *testing.T) {
	t.Parallel()
	cell := rig.NewCell(t, harness.CellOptions{
		Budget: "50", Nodes: 2, Replicas: 3, Annotations: map[string]string{harness.AnnotationFreeze: "true"},
		Change: func(_ int, set *appsv1.StatefulSet) { stateOwn(2)(set) },
	})
	cell.SetImage(t, "app:v2", "rpc-00")
	cell.WaitHeld(t, "rpc-00")
	thaw(t, cell)
	cell.WaitPodImage(t, "rpc-00-2", "app:v2", "")
	cell.WaitHolders(t)
	require.EqualValues(t, 2, *cell.Node(t, "rpc-00").Spec.UpdateStrategy.RollingUpdate.Partition)
	report := cell.AssertMaxDown(t, 1)
	require.Equal(t, map[string]int{"rpc-00": 1}, report.Restarts, "the canary alone")
}

func stateOwn(p int32) func(*appsv1.StatefulSet) {
	return func(set *appsv1.StatefulSet) {
		set.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{
			Type: rolling, RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: &p},
		}
	}
}

// A canary inside the set: its ordinals roll on a slot; lowering the partition is a wish of its own that waits with
// each part at what it runs; an evicted canary comes back as it was.
func TestACanaryInsideASet(t *testing.T) {
	t.Parallel()
	yes := "true"
	cell := rig.NewCell(t, harness.CellOptions{
		Budget: "50", Nodes: 2, Replicas: 3, Change: func(_ int, set *appsv1.StatefulSet) { stateOwn(2)(set) },
	})
	cell.SetImage(t, "app:v2", "rpc-00")
	cell.WaitPodImage(t, "rpc-00-2", "app:v2", "")
	cell.WaitHolders(t)
	cell.AnnotateCell(t, harness.AnnotationFreeze, &yes)
	cell.UpdateNode(t, "rpc-00", stateOwn(1))
	cell.WaitHeld(t, "rpc-00")
	require.EqualValues(t, 2, *cell.Node(t, "rpc-00").Spec.UpdateStrategy.RollingUpdate.Partition, "held where it was")
	before := cell.UID(t, "rpc-00-2")
	cell.Evict(t, "rpc-00-2")
	cell.WaitPodImage(t, "rpc-00-2", "app:v2", before)
	before = cell.UID(t, "rpc-00-1")
	cell.Evict(t, "rpc-00-1")
	cell.WaitPodImage(t, "rpc-00-1", "app:v1", before)
	cell.WaitCondition(t, "rpc-00", "NodeUpdateInProgress", "UpdateDeferred", "frozen")
	thaw(t, cell)
	cell.WaitPodImage(t, "rpc-00-1", "app:v2", "")
	cell.WaitHolders(t)
	require.Equal(t, "app:v1", cell.Pods(t, "rpc-00")[0].Spec.Containers[0].Image)
	cell.UpdateNode(t, "rpc-00", stateOwn(0))
	cell.WaitImage(t, "app:v2", "rpc-00")
	report := cell.AssertMaxDown(t, 1)
	require.Equal(t, map[string]int{"rpc-00": 5}, report.Restarts, "three rolled, two evicted")
	for _, roll := range report.WithoutSlot() {
		require.Equal(t, roll.FromImage, roll.ToImage, "without a slot only what was evicted, as it was")
	}
}

// A held set that is copied or restored elsewhere does not carry the hold: 2147483647 is never anyone's own.
func TestACopyOfAHeldNode(t *testing.T) {
	t.Parallel()
	cell := frozen(t, rolling, 1)
	copied := cell.Node(t, "rpc-00")
	for name, unpaced := range map[string]bool{"into a cell": false, "outside": true} {
		t.Run(name, func(t *testing.T) {
			other := rig.NewCell(t, harness.CellOptions{Budget: "50", Nodes: 1, Unpaced: unpaced})
			set := other.Set(7)
			set.Annotations = copied.Annotations
			set.Spec.UpdateStrategy = copied.Spec.UpdateStrategy
			set.Spec.Template.Spec = copied.Spec.Template.Spec
			other.CreateNode(t, set)
			other.WaitImage(t, "app:v2", set.Name)
			require.EqualValues(t, 0, *other.Node(t, set.Name).Spec.UpdateStrategy.RollingUpdate.Partition)
			other.SetImage(t, "app:v3", set.Name)
			other.WaitImage(t, "app:v3", set.Name)
		})
	}
	cell.Finish(t, checker.Expect{Quiet: true})
}

// A set that is deleted with its pods left behind and created anew with another image adopts them and would roll
// them: it is held like an update, and rolls in its turn.
func TestRecreatedOverOrphanedPods(t *testing.T) {
	t.Parallel()
	strategies(t, func(t *testing.T, strategy appsv1.StatefulSetUpdateStrategyType) {
		cell := rig.NewCell(t, harness.CellOptions{
			Budget: "34", Nodes: 3, Strategy: strategy, Annotations: map[string]string{harness.AnnotationFreeze: "true"},
		})
		names := cell.Nodes
		cell.Nodes = nil
		orphan := metav1.DeletePropagationOrphan
		for i, name := range names {
			cell.DeleteNode(t, name, metav1.DeleteOptions{PropagationPolicy: &orphan})
			cell.WaitOrphaned(t, name)
			set := cell.Set(i)
			set.Spec.Template.Spec.Containers[0].Image = "app:v2"
			cell.CreateNode(t, set)
		}
		cell.WaitHeld(t)
		cell.WaitCondition(t, "rpc-01", "NodeUpdateInProgress", "UpdateDeferred", "frozen")
		require.Equal(t, 0, cell.Report().TotalRestarts())
		thaw(t, cell)
		cell.WaitImage(t, "app:v2")
		report := cell.AssertMaxDown(t, 1)
		require.Equal(t, 3, report.TotalRestarts())
		require.Empty(t, report.WithoutSlot())
	})
}
