package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/paceline/paceline/test/checker"
	"github.com/paceline/paceline/test/e2e/harness"
)

// pinned is a frozen cell of three nodes of the pin gate whose wish for app:v2 is deferred.
func pinned(t *testing.T, strategy appsv1.StatefulSetUpdateStrategyType) *harness.Cell {
	t.Helper()
	cell := rig.NewCell(t, harness.CellOptions{
		Budget: "34", Nodes: 3, Strategy: strategy,
		Annotations: map[string]string{harness.AnnotationFreeze: "true", harness.AnnotationGate: "pin"},
	})
	cell.SetImage(t, "app:v2")
	cell.WaitDeferred(t)
	return cell
}

func templateImage(t *testing.T, cell *harness.Cell, name string) string {
	t.Helper()
	return cell.Node(t, name).Spec.Template.Spec.Containers[0].Image
}

// The images of the template stay as they are, the partition is left alone, and each node rolls in its turn.
func TestPinRollsInTurn(t *testing.T) {
	t.Parallel()
	strategies(t, func(t *testing.T, strategy appsv1.StatefulSetUpdateStrategyType) {
		cell := pinned(t, strategy)
		for _, name := range cell.Nodes {
			set := cell.Node(t, name)
			require.Equal(t, "app:v1", set.Spec.Template.Spec.Containers[0].Image)
			require.Empty(t, set.Annotations[harness.AnnotationHeld])
			if rolling := set.Spec.UpdateStrategy.RollingUpdate; rolling != nil {
				require.EqualValues(t, 0, *rolling.Partition)
			}
		}
		cell.WaitCondition(t, "rpc-01", "NodeUpdateInProgress", "UpdateDeferred", "place 2")
		thaw(t, cell)
		cell.WaitImage(t, "app:v2")
		cell.WaitUndeferred(t)
		report := cell.AssertMaxDown(t, 1)
		require.Equal(t, 3, report.TotalRestarts())
		require.Empty(t, report.WithoutSlot())
		require.Equal(t, cell.Nodes, report.Order())
	})
}

// Other fields of the template apply at once, and restart pods on the old image; the writer is told so.
func TestPinAppliesOtherFieldsAtOnce(t *testing.T) {
	t.Parallel()
	cell := rig.NewCell(t, harness.CellOptions{
		Budget: "50", Nodes: 2, Annotations: map[string]string{harness.AnnotationFreeze: "true", harness.AnnotationGate: "pin"},
	})
	output, err := rig.Kubectl(t.Context(), "", "patch", "-n", cell.Name, "statefulset/rpc-00", "-p",
		`{"spec":{"template":{"metadata":{"labels":{"version":"2"}},"spec":{"containers":[{"name":"app","image":"app:v2"}]}}}}`)
	require.NoError(t, err, output.Stderr)
	require.Contains(t, output.Stderr, "rpc-00 waits, the cell is frozen")
	require.Contains(t, output.Stderr, "other fields of the template apply now")
	cell.WaitRestarts(t, "rpc-00", 1)
	cell.WaitPodImage(t, "rpc-00-0", "app:v1", "")
	thaw(t, cell)
	cell.WaitImage(t, "app:v2", "rpc-00")
	report := cell.AssertMaxDown(t, 1)
	require.Equal(t, map[string]int{"rpc-00": 2}, report.Restarts)
}

// A pod that is lost while its node waits comes back as it was: the template itself says so.
func TestPinALostPodComesBackAsItWas(t *testing.T) {
	t.Parallel()
	strategies(t, func(t *testing.T, strategy appsv1.StatefulSetUpdateStrategyType) {
		cell := pinned(t, strategy)
		before := cell.UID(t, "rpc-00-0")
		cell.Evict(t, "rpc-00-0")
		cell.WaitPodImage(t, "rpc-00-0", "app:v1", before)
		cell.Finish(t, checker.Expect{MaxDown: 1, MinRestarts: 1})
	})
}

// What is taken back, as each kind of writer does it, never rolls.
func TestPinWithdrawn(t *testing.T) {
	t.Parallel()
	manifest := func(cell *harness.Cell, image string) string {
		return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"rpc-00","namespace":%q},"spec":{"serviceName":"rpc","replicas":1,
			"selector":{"matchLabels":{"app":"rpc-00"}},"template":{"metadata":{"labels":{"app":"rpc-00"}},"spec":{"containers":[{"name":"app","image":%q}]}}}}`, cell.Name, image)
	}
	kubectl := func(args ...string) func(*testing.T, *harness.Cell, string) {
		return func(t *testing.T, cell *harness.Cell, image string) {
			t.Helper()
			output, err := rig.Kubectl(t.Context(), manifest(cell, image), append(args, "-f", "-")...)
			require.NoError(t, err, output.Stderr)
		}
	}
	for name, write := range map[string]func(*testing.T, *harness.Cell, string){
		"kubectl apply":             kubectl("apply"),
		"kubectl apply server-side": kubectl("apply", "--server-side", "--force-conflicts"),
		"an operator's whole render": func(t *testing.T, cell *harness.Cell, image string) {
			t.Helper()
			set := cell.Set(0)
			set.Spec.Template.Spec.Containers[0].Image = image
			_, err := cell.Client.AppsV1().StatefulSets(cell.Name).Update(t.Context(), set, metav1.UpdateOptions{FieldManager: "operator"})
			require.NoError(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cell := rig.NewCell(t, harness.CellOptions{
				Budget: "50", Nodes: 2, Annotations: map[string]string{harness.AnnotationFreeze: "true", harness.AnnotationGate: "pin"},
			})
			write(t, cell, "app:v1")
			write(t, cell, "app:v2")
			cell.WaitDeferred(t, "rpc-00")
			write(t, cell, "app:v1")
			cell.WaitUndeferred(t, "rpc-00")
			thaw(t, cell)
			cell.SetImage(t, "app:v3", "rpc-01")
			cell.WaitImage(t, "app:v3", "rpc-01")
			require.Equal(t, "app:v1", templateImage(t, cell, "rpc-00"))
			report := cell.AssertMaxDown(t, 1)
			require.Equal(t, map[string]int{"rpc-01": 1}, report.Restarts)
		})
	}
}

// Paused nodes are never pinned: at 0 replicas the wish is delivered, and the node starts on it.
func TestPinPauseAndResume(t *testing.T) {
	t.Parallel()
	cell := pinned(t, rolling)
	cell.Scale(t, "rpc-00", 0)
	cell.WaitUndeferred(t, "rpc-00")
	require.Equal(t, "app:v2", templateImage(t, cell, "rpc-00"))
	cell.Scale(t, "rpc-00", 1)
	cell.WaitPodImage(t, "rpc-00-0", "app:v2", "")
	thaw(t, cell)
	cell.WaitImage(t, "app:v2")
	cell.AssertMaxDown(t, 1)
}

// An operator that writes its whole render all the time: the wish waits, the generation moves with the roll alone.
func TestPinUnderAnOperator(t *testing.T) {
	t.Parallel()
	cell := rig.NewCell(t, harness.CellOptions{Budget: "34", Nodes: 3, Annotations: map[string]string{harness.AnnotationGate: "pin"}})
	ctx, stop := context.WithCancel(t.Context())
	writer := &reapply{cell: cell, image: "app:v2"}
	writer.start(ctx)
	cell.WaitImage(t, "app:v2")
	stop()
	writer.wg.Wait()
	require.NoError(t, writer.err)
	report := cell.AssertMaxDown(t, 1)
	require.Empty(t, report.WithoutSlot())
	require.Equal(t, 3, report.TotalRestarts())
	for _, name := range cell.Nodes {
		require.LessOrEqual(t, cell.Node(t, name).Generation, int64(2), "%s: created, opened", name)
	}
}

// The gate of a cell is changed while nodes wait, both ways: nobody starts for it, and every wish arrives.
func TestTheGateIsSwitchedWhileNodesWait(t *testing.T) {
	t.Parallel()
	native, pin := "native", "pin"
	strategies(t, func(t *testing.T, strategy appsv1.StatefulSetUpdateStrategyType) {
		t.Run("pin to native", func(t *testing.T) {
			t.Parallel()
			cell := pinned(t, strategy)
			cell.AnnotateCell(t, harness.AnnotationGate, &native)
			cell.WaitFor(t, "the webhook to know", func(context.Context) error { // its cache may lag: pinned is as good
				cell.SetImage(t, "app:v3", "rpc-01")
				if cell.Node(t, "rpc-01").Annotations[harness.AnnotationHeld] == "" {
					return errors.New("rpc-01 is pinned still")
				}
				return nil
			})
			require.Equal(t, "app:v3", templateImage(t, cell, "rpc-01"), "the wish stands in the template again")
			thaw(t, cell)
			cell.WaitImage(t, "app:v2", "rpc-00", "rpc-02")
			cell.WaitImage(t, "app:v3", "rpc-01")
			report := cell.AssertMaxDown(t, 1)
			require.Empty(t, report.WithoutSlot())
		})
		t.Run("native to pin", func(t *testing.T) {
			t.Parallel()
			cell := frozen(t, strategy, 1)
			cell.AnnotateCell(t, harness.AnnotationGate, &pin)
			cell.SetImage(t, "app:v3", "rpc-01")
			require.Equal(t, "app:v3", templateImage(t, cell, "rpc-01"), "what is held natively stays so")
			thaw(t, cell)
			cell.WaitImage(t, "app:v2", "rpc-00", "rpc-02")
			cell.WaitImage(t, "app:v3", "rpc-01")
			report := cell.AssertMaxDown(t, 1)
			require.Empty(t, report.WithoutSlot())
		})
	})
}

// The pace of a cell is changed while nodes wait.
func TestThePaceIsSwitchedWhileNodesWait(t *testing.T) {
	t.Parallel()
	for _, gate := range []string{"native", "pin"} {
		t.Run(gate, func(t *testing.T) {
			t.Parallel()
			cell := rig.NewCell(t, harness.CellOptions{
				Budget: "34", Nodes: 3, Annotations: map[string]string{harness.AnnotationFreeze: "true", harness.AnnotationGate: gate},
			})
			cell.SetImage(t, "app:v2")
			template, images := "template", "images"
			cell.AnnotateCell(t, harness.AnnotationPace, &template)
			for _, name := range cell.Nodes {
				cell.PatchNode(t, name, types.StrategicMergePatchType, `{"spec":{"template":{"metadata":{"labels":{"a":"b"}}}}}`)
			}
			cell.AnnotateCell(t, harness.AnnotationPace, &images)
			require.Equal(t, 0, cell.Report().TotalRestarts())
			thaw(t, cell)
			cell.WaitImage(t, "app:v2")
			report := cell.AssertMaxDown(t, 1)
			require.Empty(t, report.WithoutSlot())
			require.Equal(t, 3, report.TotalRestarts(), "one restart each")
			for _, name := range cell.Nodes {
				require.Equal(t, "b", cell.Node(t, name).Spec.Template.Labels["a"], "nothing is lost")
			}
		})
	}
}

// Nodes that wait while their cell, or they, leave pacing: delivered, as many at a time as there were slots.
func TestLeavingDeliversWhatWaits(t *testing.T) {
	t.Parallel()
	zero := "0"
	for _, gate := range []string{"native", "pin"} {
		for name, leave := range map[string]func(*testing.T, *harness.Cell){
			"the label is taken off": func(t *testing.T, cell *harness.Cell) {
				t.Helper()
				_, err := cell.Client.CoreV1().Namespaces().Patch(t.Context(), cell.Name, types.MergePatchType,
					[]byte(`{"metadata":{"labels":{"paceline.io/pacing":null}}}`), metav1.PatchOptions{})
				require.NoError(t, err)
			},
			"budget 0": func(t *testing.T, cell *harness.Cell) {
				t.Helper()
				cell.AnnotateCell(t, harness.AnnotationBudget, &zero)
			},
			"all opt out": func(t *testing.T, cell *harness.Cell) {
				t.Helper()
				for _, name := range cell.Nodes {
					cell.PatchNode(t, name, types.MergePatchType, `{"metadata":{"labels":{"paceline.io/pacing":"disabled"}}}`)
				}
			},
		} {
			t.Run(gate+", "+name, func(t *testing.T) {
				t.Parallel()
				cell := rig.NewCell(t, harness.CellOptions{
					Budget: "34", Nodes: 3, Annotations: map[string]string{harness.AnnotationFreeze: "true", harness.AnnotationGate: gate},
				})
				cell.SetImage(t, "app:v2")
				require.Equal(t, 0, cell.Report().TotalRestarts())
				leave(t, cell)
				cell.WaitImage(t, "app:v2")
				cell.WaitUnmarked(t)
				most := 1
				if name == "all opt out" {
					most = 3 // each is its owner's own decision
				}
				cell.AssertMaxDown(t, most)
			})
		}
	}
}

// A new container waits with the whole pod spec, and comes with the slot in one restart.
func TestPinDefersANewContainer(t *testing.T) {
	t.Parallel()
	cell := rig.NewCell(t, harness.CellOptions{
		Budget: "34", Nodes: 3, Annotations: map[string]string{harness.AnnotationFreeze: "true", harness.AnnotationGate: "pin"},
	})
	for _, name := range cell.Nodes {
		cell.UpdateNode(t, name, func(set *appsv1.StatefulSet) {
			set.Spec.Template.Spec.Containers = append(set.Spec.Template.Spec.Containers, corev1.Container{Name: "side", Image: "side:v1"})
		})
	}
	cell.WaitDeferred(t)
	require.Equal(t, 0, cell.Report().TotalRestarts())
	thaw(t, cell)
	cell.WaitRolled(t, "side:v1")
	report := cell.AssertMaxDown(t, 1)
	require.Equal(t, 3, report.TotalRestarts())
	require.Empty(t, report.WithoutSlot())
}
