package races

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/paceline/paceline/test/e2e/harness"
)

// What one watch brings comes last, whatever the others say meanwhile: each kind in turn, in the middle of
// a roll. A stale cache may delay the roll, it adds no outage.
func TestWatchesOutOfOrder(t *testing.T) {
	cell := newCell(t, "25", 8)
	kinds := []string{"leases", "statefulsets", "pods", "controllerrevisions", "namespaces"}
	for i, kind := range kinds {
		image := fmt.Sprintf("app:late-%d", i)
		rig.Proxy.HoldBack(kind)
		bump(t, cell, image)
		// The roll stands still where that kind is needed; a while is given to what would go wrong.
		tries := 0
		cell.WaitFor(t, "what happens without "+kind, func(ctx context.Context) error {
			if tries++; tries > 30 || cell.Rolled(ctx, image) == nil {
				return nil
			}
			return errors.New("it goes on")
		})
		rig.Proxy.Release(kind)
		cell.WaitImage(t, image)
	}
	report := judge(t, cell, 2)
	require.Equal(t, 8*len(kinds), report.TotalRestarts())
}

// The percentage fell, and the controller's cache does not know: a grant reads it live.
func TestAGrantAfterThePercentageFell(t *testing.T) {
	cell := newCell(t, "50", 8)
	cell.WaitSlots(t, 4)
	rig.Proxy.HoldBack("namespaces")
	cell.SetBudget(t, "12")
	bump(t, cell, "app:v2")
	cell.WaitRestarts(t, cell.Nodes[7], 1)
	rig.Proxy.Release("namespaces")
	cell.WaitImage(t, "app:v2")
	report := judge(t, cell, 1)
	require.Equal(t, 1, report.MaxHolders)
}

// The pace became template, and the webhook's cache does not know: a change beside the images waits all the same.
func TestAPaceThatTheCacheHasNotSeen(t *testing.T) {
	for _, gate := range []string{"native", "pin"} {
		t.Run(gate, func(t *testing.T) {
			cell := newCell(t, "50", 2)
			freeze, template := "true", "template"
			cell.AnnotateCell(t, harness.AnnotationFreeze, &freeze)
			cell.AnnotateCell(t, harness.AnnotationGate, &gate)
			cell.SetImage(t, "app:v2", cell.Nodes[0])
			cell.WaitCondition(t, cell.Nodes[0], "NodeUpdateInProgress", "UpdateDeferred", "frozen")
			rig.Proxy.HoldBack("namespaces")
			cell.AnnotateCell(t, harness.AnnotationPace, &template)
			for _, name := range cell.Nodes { // one that waits, and one at rest
				cell.PatchNode(t, name, types.StrategicMergePatchType, `{"spec":{"template":{"metadata":{"labels":{"a":"b"}}}}}`)
			}
			rig.Proxy.Release()
			cell.AnnotateCell(t, harness.AnnotationFreeze, nil)
			cell.WaitImage(t, "app:v2", cell.Nodes[0])
			cell.WaitRestarts(t, cell.Nodes[1], 1)
			cell.WaitImage(t, "app:v1", cell.Nodes[1])
			report := judge(t, cell, 1)
			require.Equal(t, 2, report.TotalRestarts(), "one restart each")
		})
	}
}
