package races

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/paceline/paceline/test/checker"
	"github.com/paceline/paceline/test/e2e/harness"
	"github.com/paceline/paceline/test/rig/proxy"
)

// newCell is a cell of quick nodes, every other one OnDelete, with nothing left in the way of the controller.
func newCell(t *testing.T, budget string, nodes int) *harness.Cell {
	t.Helper()
	rig.Proxy.Release()
	rig.Proxy.Count(nil)
	return rig.NewCell(t, harness.CellOptions{
		Budget: budget, Nodes: nodes, ReadyAfter: 100 * time.Millisecond,
		Change: func(i int, set *appsv1.StatefulSet) {
			if i%2 == 1 {
				set.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
			}
		},
	})
}

// pair is a cell with one slot and one node of each update strategy: a roll of it has every kind of write.
func pair(t *testing.T) *harness.Cell {
	t.Helper()
	return newCell(t, "50", 2)
}

// bump asks for an image on every node, again where the webhook is not there to be asked.
func bump(t *testing.T, cell *harness.Cell, image string) {
	t.Helper()
	for _, name := range cell.Nodes {
		cell.WaitFor(t, "the bump of "+name, func(ctx context.Context) error { return cell.TrySetImage(ctx, name, image) })
	}
}

// settle waits until all nodes run the image and say so: then the controller has nothing left to write. A
// kill between the release and the condition leaves NoDrift behind: nobody remembers that it was an update.
func settle(t *testing.T, cell *harness.Cell, image string) {
	t.Helper()
	cell.WaitImage(t, image)
	cell.WaitReason(t, "NodeUpdateInProgress", "UpdateComplete", "NoDrift")
}

// judge ends a cell of so many slots: never more nodes down, never more holders, no pod replaced without a slot.
func judge(t *testing.T, cell *harness.Cell, slots int) checker.Report {
	t.Helper()
	report := cell.AssertMaxDown(t, slots)
	require.Empty(t, report.WithoutSlot())
	require.LessOrEqual(t, report.MaxHolders, slots)
	return report
}

func kinds(writes []proxy.Write) map[string]int {
	counts := map[string]int{}
	for _, w := range writes {
		counts[w.Method+" "+w.Resource]++
	}
	return counts
}

// requireKinds makes sure that the sweep met a slot, a gate and a pod, not messages alone.
func requireKinds(t *testing.T, kills []proxy.Write) {
	t.Helper()
	for _, resource := range []string{"leases", "statefulsets", "pods"} {
		require.True(t, slices.ContainsFunc(kills, func(w proxy.Write) bool { return w.Resource == resource }), "no kill at a write of %s", resource)
	}
}
