package e2e

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/paceline/paceline/test/checker"
	"github.com/paceline/paceline/test/e2e/harness"
)

const (
	rolling  = appsv1.RollingUpdateStatefulSetStrategyType
	onDelete = appsv1.OnDeleteStatefulSetStrategyType
)

func strategies(t *testing.T, scenario func(t *testing.T, strategy appsv1.StatefulSetUpdateStrategyType)) {
	t.Helper()
	for _, strategy := range []appsv1.StatefulSetUpdateStrategyType{rolling, onDelete} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			scenario(t, strategy)
		})
	}
}

// Eight nodes at 25 %: two slots, never more than two down, in the order of their names, no restart
// without a slot, all end at the new image.
func TestEightNodesRollTwoAtATime(t *testing.T) {
	t.Parallel()
	for _, replicas := range []int32{1, 3} {
		t.Run(fmt.Sprintf("%d-replicas", replicas), func(t *testing.T) {
			t.Parallel()
			strategies(t, func(t *testing.T, strategy appsv1.StatefulSetUpdateStrategyType) {
				cell := rig.NewCell(t, harness.CellOptions{Budget: "25", Nodes: 8, Replicas: replicas, Strategy: strategy})
				cell.SetImage(t, "app:v2")
				cell.WaitImage(t, "app:v2")
				report := cell.AssertMaxDown(t, 2)
				require.Equal(t, 2, report.MaxDown, "the budget is used")
				require.Empty(t, report.WithoutSlot())
				require.Equal(t, 8*int(replicas), report.TotalRestarts(), "each pod is replaced once")
				requireByName(t, report, 2)
			})
		})
	}
}

// requireByName: a node takes a slot only when all before it by name have one or had one. Nodes that
// were bumped one after the other may be overtaken by one already bumped, within the slots.
func requireByName(t *testing.T, report checker.Report, slots int) {
	t.Helper()
	for i, name := range report.Order() {
		for _, later := range report.Order()[min(i+slots, len(report.Order())):] {
			require.Less(t, name, later, "order %v", report.Order())
		}
	}
}

// The origin's acceptance case: one sidecar image for a whole cell at 25 %.
func TestSidecarBumpOfAWholeCell(t *testing.T) {
	t.Parallel()
	cell := rig.NewCell(t, harness.CellOptions{Budget: "25", Nodes: 8, Change: func(_ int, set *appsv1.StatefulSet) {
		set.Spec.Template.Spec.Containers = append(set.Spec.Template.Spec.Containers, corev1.Container{Name: "sidecar", Image: "sidecar:v1"})
	}})
	for _, name := range cell.Nodes {
		cell.PatchNode(t, name, types.StrategicMergePatchType,
			`{"spec":{"template":{"spec":{"containers":[{"name":"sidecar","image":"sidecar:v2"}]}}}}`)
	}
	cell.WaitRolled(t, "sidecar:v2")
	report := cell.AssertMaxDown(t, 2)
	require.Empty(t, report.WithoutSlot())
	require.Equal(t, 8, report.TotalRestarts())
}
