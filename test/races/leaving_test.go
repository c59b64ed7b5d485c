package races

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/paceline/paceline/test/checker"
	"github.com/paceline/paceline/test/e2e/harness"
	"github.com/paceline/paceline/test/rig/product"
)

// waitingCell is a frozen cell of six nodes and two slots, each of which waits.
func waitingCell(t *testing.T, gate string) *harness.Cell {
	t.Helper()
	cell := newCell(t, "34", 6)
	yes := "true"
	cell.AnnotateCell(t, harness.AnnotationGate, &gate)
	cell.AnnotateCell(t, harness.AnnotationFreeze, &yes)
	bump(t, cell, "app:v2")
	cell.WaitReason(t, "NodeUpdateInProgress", "UpdateDeferred")
	return cell
}

// The configuration's selector leaves out some of the nodes that wait: to those their wish is delivered, as many at
// a time as there are slots, and the others wait on.
func TestTheSelectorIsNarrowed(t *testing.T) {
	for _, gate := range []string{"native", "pin"} {
		t.Run(gate, func(t *testing.T) {
			cell := waitingCell(t, gate)
			for _, name := range cell.Nodes[:3] {
				cell.PatchNode(t, name, types.MergePatchType, `{"metadata":{"labels":{"tier":"data"}}}`)
			}
			rig.Reconfigure(t, func(c product.Config) {
				c.Set("nodes", "labelSelector", "tier=data")
			})
			// The pods of an OnDelete node that is not paced stay until somebody deletes them.
			cell.WaitImage(t, "app:v2", cell.Nodes[4])
			cell.WaitUnmarked(t, cell.Nodes[3:]...)
			report := cell.Report()
			for _, name := range cell.Nodes[:3] {
				require.Zero(t, report.Restarts[name], name)
			}
			cell.AnnotateCell(t, harness.AnnotationFreeze, nil)
			cell.WaitImage(t, "app:v2", cell.Nodes[:3]...)
			cell.AssertMaxDown(t, 2)
		})
	}
}

// Paceline is taken away as a whole while nodes wait, and installed again: nothing restarts meanwhile, a lost pod comes back
// as it was, and each wish is delivered in its turn.
func TestUninstalledAndInstalledAgain(t *testing.T) {
	for _, gate := range []string{"native", "pin"} {
		t.Run(gate, func(t *testing.T) {
			cell := waitingCell(t, gate)
			rig.Uninstall(t)
			installed := false
			t.Cleanup(func() {
				if !installed {
					rig.Install(t)
				}
			})
			uid := cell.UID(t, "rpc-00-0")
			cell.DeletePod(t, "rpc-00-0")
			cell.WaitPodImage(t, "rpc-00-0", "app:v1", uid)
			cell.Scale(t, "rpc-02", 2)
			cell.WaitFleet(t, "rpc-02", 2)
			require.Equal(t, 1, cell.Report().TotalRestarts(), "the pod that was deleted")
			rig.Install(t)
			installed = true
			cell.AnnotateCell(t, harness.AnnotationFreeze, nil)
			cell.WaitImage(t, "app:v2")
			report := cell.Finish(t, checker.Expect{MaxDown: 2})
			require.Len(t, report.WithoutSlot(), 1, "the pod that was deleted")
		})
	}
}
