package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/paceline/paceline/test/checker"
	"github.com/paceline/paceline/test/e2e/harness"
)

// frozen is a cell of three nodes whose wish for app:v2 waits.
func frozen(t *testing.T, strategy appsv1.StatefulSetUpdateStrategyType, replicas int32) *harness.Cell {
	t.Helper()
	cell := rig.NewCell(t, harness.CellOptions{
		Budget: "34", Nodes: 3, Replicas: replicas, Strategy: strategy, Annotations: map[string]string{harness.AnnotationFreeze: "true"},
	})
	cell.SetImage(t, "app:v2")
	cell.WaitHeld(t)
	return cell
}

func thaw(t *testing.T, cell *harness.Cell) {
	t.Helper()
	cell.AnnotateCell(t, harness.AnnotationFreeze, nil)
}

// The wish stands in the template, the pods run what they ran, and the writer is told so.
func TestWhileWaitingTheWishStandsInTheTemplate(t *testing.T) {
	t.Parallel()
	cell := rig.NewCell(t, harness.CellOptions{Budget: "34", Nodes: 2, Annotations: map[string]string{harness.AnnotationFreeze: "true"}})
	output, err := rig.Kubectl(t.Context(), "", "set", "image", "-n", cell.Name, "statefulset/rpc-01", "app=app:v2")
	require.NoError(t, err, output.Stderr)
	require.Contains(t, output.Stderr, "Warning: paceline: rpc-01 waits", "kubectl shows the warning")
	set := cell.Node(t, "rpc-01")
	require.Equal(t, "app:v2", set.Spec.Template.Spec.Containers[0].Image)
	require.Equal(t, harness.HeldPartition, *set.Spec.UpdateStrategy.RollingUpdate.Partition)
	cell.WaitCondition(t, "rpc-01", "NodeUpdateInProgress", "UpdateDeferred", "place 1")
	cell.WaitCondition(t, "rpc-01", "Reconciling", "Frozen", "the cell is frozen")
	cell.WaitEvent(t, "rpc-01", "UpdateDeferred", "")
	cell.Finish(t, checker.Expect{Quiet: true})
}

// Scaling out and in, a label, a finalizer apply at once; a pod that is added runs the old image.
func TestWhileWaitingEverythingElseApplies(t *testing.T) {
	t.Parallel()
	cell := frozen(t, rolling, 2)
	cell.Scale(t, "rpc-00", 4)
	cell.WaitPodImage(t, "rpc-00-3", "app:v1", "")
	cell.Scale(t, "rpc-00", 1)
	cell.WaitFleet(t, "rpc-00", 1)
	cell.PatchNode(t, "rpc-01", types.MergePatchType, `{"metadata":{"labels":{"team":"a"},"finalizers":["example.com/keep"]}}`)
	set := cell.Node(t, "rpc-01")
	require.Equal(t, "a", set.Labels["team"])
	require.Equal(t, []string{"example.com/keep"}, set.Finalizers)
	cell.PatchNode(t, "rpc-01", types.MergePatchType, `{"metadata":{"finalizers":null}}`)
	for _, name := range cell.Nodes {
		require.NotEmpty(t, cell.Node(t, name).Annotations[harness.AnnotationHeld], name)
	}
	thaw(t, cell)
	cell.WaitImage(t, "app:v2")
	report := cell.AssertMaxDown(t, 1)
	require.Empty(t, report.WithoutSlot())
}

// A node that waits can be deleted, with its pods first.
func TestWhileWaitingForegroundDelete(t *testing.T) {
	t.Parallel()
	cell := frozen(t, rolling, 1)
	foreground := metav1.DeletePropagationForeground
	cell.DeleteNode(t, "rpc-00", metav1.DeleteOptions{PropagationPolicy: &foreground})
	cell.WaitGone(t, "rpc-00")
	thaw(t, cell)
	cell.Nodes = cell.Nodes[1:]
	cell.WaitImage(t, "app:v2")
	cell.AssertMaxDown(t, 1)
}

// Paused and resumed while it waits: it starts on what the template says.
func TestWhileWaitingPauseAndResume(t *testing.T) {
	t.Parallel()
	strategies(t, func(t *testing.T, strategy appsv1.StatefulSetUpdateStrategyType) {
		cell := frozen(t, strategy, 1)
		cell.Scale(t, "rpc-00", 0)
		cell.WaitUnmarked(t, "rpc-00")
		cell.Scale(t, "rpc-00", 1)
		cell.WaitPodImage(t, "rpc-00-0", "app:v2", "")
		require.Equal(t, "app:v1", cell.Pods(t, "rpc-01")[0].Spec.Containers[0].Image, "the others wait on")
		thaw(t, cell)
		cell.WaitImage(t, "app:v2")
		cell.AssertMaxDown(t, 1)
	})
}

// A second bump replaces what waits: the first is never run.
func TestWhileWaitingASecondBump(t *testing.T) {
	t.Parallel()
	strategies(t, func(t *testing.T, strategy appsv1.StatefulSetUpdateStrategyType) {
		cell := frozen(t, strategy, 1)
		cell.SetImage(t, "app:v3")
		thaw(t, cell)
		cell.WaitImage(t, "app:v3")
		report := cell.AssertMaxDown(t, 1)
		requireNeverRan(t, report, "app:v2")
		require.Equal(t, 3, report.TotalRestarts())
	})
}

// What is withdrawn never rolls, and the hold ends with it.
func TestWhileWaitingARevert(t *testing.T) {
	t.Parallel()
	strategies(t, func(t *testing.T, strategy appsv1.StatefulSetUpdateStrategyType) {
		cell := frozen(t, strategy, 1)
		cell.SetImage(t, "app:v1")
		cell.WaitLifted(t)
		thaw(t, cell)
		cell.WaitCondition(t, "rpc-00", "NodeUpdateInProgress", "NoDrift", "")
		cell.Finish(t, checker.Expect{Quiet: true})
	})
}

// An evicted or hand-deleted pod comes back on the old image (RollingUpdate).
func TestWhileWaitingAnEvictedPodComesBackAsItWas(t *testing.T) {
	t.Parallel()
	cell := frozen(t, rolling, 3)
	before := cell.UID(t, "rpc-00-1")
	cell.DeletePod(t, "rpc-00-1")
	cell.WaitPodImage(t, "rpc-00-1", "app:v1", before)
	before = cell.UID(t, "rpc-00-2")
	cell.Evict(t, "rpc-00-2")
	cell.WaitPodImage(t, "rpc-00-2", "app:v1", before)
	thaw(t, cell)
	cell.WaitImage(t, "app:v2")
	cell.AssertMaxDown(t, 1)
}

// Image, template label and a new container in one bump: no restart before the slot, one with it.
func TestImageLabelAndContainerInOneBump(t *testing.T) {
	t.Parallel()
	strategies(t, func(t *testing.T, strategy appsv1.StatefulSetUpdateStrategyType) {
		cell := rig.NewCell(t, harness.CellOptions{
			Budget: "34", Nodes: 3, Strategy: strategy, Annotations: map[string]string{harness.AnnotationFreeze: "true"},
		})
		for _, name := range cell.Nodes {
			cell.UpdateNode(t, name, func(set *appsv1.StatefulSet) {
				set.Spec.Template.Labels["version"] = "v2"
				set.Spec.Template.Spec.Containers[0].Image = "app:v2"
				set.Spec.Template.Spec.Containers = append(set.Spec.Template.Spec.Containers, corev1.Container{Name: "side", Image: "side:v1"})
			})
		}
		cell.WaitHeld(t)
		require.Equal(t, 0, cell.Report().TotalRestarts())
		thaw(t, cell)
		cell.WaitRolled(t, "side:v1")
		report := cell.AssertMaxDown(t, 1)
		require.Equal(t, 3, report.TotalRestarts(), "one restart each")
		require.Empty(t, report.WithoutSlot())
	})
}

// A template change without a paced field never waits in pace images, and waits in pace template.
func TestPaceTemplate(t *testing.T) {
	t.Parallel()
	env := `{"spec":{"template":{"spec":{"containers":[{"name":"app","env":[{"name":"A","value":"1"}]}]}}}}`
	t.Run("images", func(t *testing.T) {
		t.Parallel()
		cell := rig.NewCell(t, harness.CellOptions{Budget: "34", Nodes: 3, Annotations: map[string]string{harness.AnnotationFreeze: "true"}})
		cell.PatchNode(t, "rpc-00", types.StrategicMergePatchType, env)
		cell.WaitRestarts(t, "rpc-00", 1)
		require.Empty(t, cell.Node(t, "rpc-00").Annotations[harness.AnnotationHeld])
		cell.AssertMaxDown(t, 1)
	})
	t.Run("template", func(t *testing.T) {
		t.Parallel()
		cell := rig.NewCell(t, harness.CellOptions{Budget: "34", Nodes: 3, Annotations: map[string]string{harness.AnnotationPace: "template"}})
		for _, name := range cell.Nodes {
			cell.PatchNode(t, name, types.StrategicMergePatchType, env)
		}
		for _, name := range cell.Nodes {
			cell.WaitRestarts(t, name, 1)
		}
		cell.WaitImage(t, "app:v1")
		report := cell.AssertMaxDown(t, 1)
		require.Empty(t, report.WithoutSlot())
	})
}

func requireNeverRan(t *testing.T, report checker.Report, image string) {
	t.Helper()
	for pod, changes := range report.Images {
		for _, change := range changes {
			require.NotContains(t, change.Images, image, "%s ran %s", pod, image)
		}
	}
}
