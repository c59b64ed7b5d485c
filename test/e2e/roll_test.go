package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/paceline/paceline/test/checker"
	"github.com/paceline/paceline/test/e2e/harness"
)

// A whole cell is bumped at once: never more nodes down than slots, in the order of their names, and
// all end at the new image.
func TestFleetRollsWithinItsBudget(t *testing.T) {
	for name, options := range map[string]harness.CellOptions{
		"one replica, RollingUpdate":    {Nodes: 8, Replicas: 1, Strategy: appsv1.RollingUpdateStatefulSetStrategyType},
		"one replica, OnDelete":         {Nodes: 8, Replicas: 1, Strategy: appsv1.OnDeleteStatefulSetStrategyType},
		"three replicas, RollingUpdate": {Nodes: 8, Replicas: 3, Strategy: appsv1.RollingUpdateStatefulSetStrategyType},
		"three replicas, OnDelete":      {Nodes: 8, Replicas: 3, Strategy: appsv1.OnDeleteStatefulSetStrategyType},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options.Budget = "25"
			cell := rig.NewCell(t, options)
			cell.SetImage(t, "app:v2")
			cell.WaitImage(t, "app:v2")
			report := cell.Finish(t, checker.Expect{MaxDown: 2, MinRestarts: 8 * int(options.Replicas)})
			require.Equal(t, 2, report.MaxDown, "the budget is used")
			require.Equal(t, 2, report.MaxHolders)
			require.Empty(t, report.WithoutSlot())
			require.Equal(t, 8*int(options.Replicas), report.TotalRestarts())
			requireOrder(t, report.Order(), 2)
		})
	}
}

// requireOrder: granted by name; among the nodes that roll together any may go down first.
func requireOrder(t *testing.T, got []string, slots int) {
	t.Helper()
	for i, name := range got {
		for _, later := range got[min(len(got), i+slots):] {
			require.Less(t, name, later, "the order was %v", got)
		}
	}
}
