package races

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
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
