package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/paceline/paceline/test/checker"
	"github.com/paceline/paceline/test/e2e/harness"
)

// One percent of three nodes is one slot.
func TestOnePercentIsOneSlot(t *testing.T) {
	t.Parallel()
	cell := rig.NewCell(t, harness.CellOptions{Budget: "1", Nodes: 3})
	cell.WaitSlots(t, 1)
	cell.SetImage(t, "app:v2")
	cell.WaitImage(t, "app:v2")
	report := cell.AssertMaxDown(t, 1)
	require.Equal(t, []string{"rpc-00", "rpc-01", "rpc-02"}, report.Order())
	require.Empty(t, report.WithoutSlot())
}

// Paused, opted-out, never-ready and deleted nodes do not count: 50 % of eight nodes less four is two.
func TestWhoCounts(t *testing.T) {
	t.Parallel()
	cell := rig.NewCell(t, harness.CellOptions{Budget: "50", Nodes: 8})
	cell.WaitSlots(t, 4)
	cell.Scale(t, "rpc-00", 0)
	cell.WaitSlots(t, 3) // 7 count
	cell.PatchNode(t, "rpc-01", types.MergePatchType, `{"metadata":{"labels":{"paceline.io/pacing":"disabled"}}}`)
	cell.DeleteNode(t, "rpc-02", metav1.DeleteOptions{})
	cell.Nodes = cell.Nodes[3:]
	cell.WaitSlots(t, 2) // 5 count
	yes := "true"
	cell.Annotate(t, "rpc-07", harness.AnnotationPaused, &yes)
	cell.Options.Change = func(_ int, set *appsv1.StatefulSet) {
		set.Spec.Template.Labels[harness.LabelNeverReady] = "true"
	}
	cell.AddNode(t, 8)
	cell.SetImage(t, "app:v2", "rpc-03", "rpc-04", "rpc-05", "rpc-06")
	cell.WaitImage(t, "app:v2", "rpc-03", "rpc-04", "rpc-05", "rpc-06")
	cell.AssertMaxDown(t, 2)
}

// The percentage is changed live, up and down, in mid-roll: nobody loses a slot, the room follows.
func TestPercentageChangedInMidRoll(t *testing.T) {
	t.Parallel()
	cell := rig.NewCell(t, harness.CellOptions{Budget: "25", Nodes: 8})
	cell.SetImage(t, "app:bad")
	cell.WaitHolders(t, "rpc-00", "rpc-01")
	cell.SetBudget(t, "50")
	cell.WaitHolders(t, "rpc-00", "rpc-01", "rpc-02", "rpc-03")
	cell.SetBudget(t, "13")
	cell.SetImage(t, "app:v2", "rpc-00", "rpc-01", "rpc-02")
	cell.WaitHolders(t, "rpc-03") // the others are done; 13 % of 8 is one slot, which rpc-03 keeps
	cell.WaitSlots(t, 1)
	cell.SetImage(t, "app:v2")
	cell.WaitImage(t, "app:v2")
	report := cell.AssertMaxDown(t, 4)
	require.Empty(t, report.WithoutSlot())
}

// Budget 0 holds nothing: what waits is delivered.
func TestBudgetZeroDeliversWhatWaits(t *testing.T) {
	t.Parallel()
	cell := rig.NewCell(t, harness.CellOptions{Budget: "25", Nodes: 4})
	yes := "true"
	cell.AnnotateCell(t, harness.AnnotationFreeze, &yes)
	cell.SetImage(t, "app:v2")
	cell.WaitHeld(t)
	cell.SetBudget(t, "0")
	cell.WaitImage(t, "app:v2")
	cell.WaitUnmarked(t)
	report := cell.Finish(t, checker.Expect{MaxDown: 1, MinRestarts: 4})
	require.Equal(t, 1, report.MaxDown, "as many at once as there were slots")

	cell = rig.NewCell(t, harness.CellOptions{Budget: "0", Nodes: 4})
	cell.SetImage(t, "app:v2")
	cell.WaitImage(t, "app:v2")
	cell.Finish(t, checker.Expect{MaxDown: 4, MinRestarts: 4})
}

// A frozen cell grants nothing; thawed, it goes on.
func TestFreeze(t *testing.T) {
	t.Parallel()
	cell := rig.NewCell(t, harness.CellOptions{Budget: "50", Nodes: 4})
	yes := "true"
	cell.AnnotateCell(t, harness.AnnotationFreeze, &yes)
	cell.SetImage(t, "app:v2")
	cell.WaitHeld(t)
	cell.WaitCondition(t, "rpc-00", "NodeUpdateInProgress", "UpdateDeferred", "frozen")
	require.Equal(t, 0, cell.Report().TotalRestarts())
	cell.AnnotateCell(t, harness.AnnotationFreeze, nil)
	cell.WaitImage(t, "app:v2")
	cell.AssertMaxDown(t, 2)
}

// A value that slipped past the policy leaves the file's in force, and an Event says so. Here the
// policy itself is seen to refuse one.
func TestBadBudgetIsRefused(t *testing.T) {
	t.Parallel()
	cell := rig.NewCell(t, harness.CellOptions{Budget: "25", Nodes: 1})
	for _, bad := range []string{"101", "25%", "-1", "2.5", "many"} {
		output, err := rig.Kubectl(t.Context(), "", "annotate", "namespace", cell.Name, "--overwrite", harness.AnnotationBudget+"="+bad)
		require.Error(t, err, bad)
		require.Contains(t, output.Stderr, "0 to 100", bad)
	}
	cell.Finish(t, checker.Expect{Quiet: true})
}
