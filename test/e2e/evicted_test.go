package e2e

import (
	"context"
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

// bumped is a cell of OnDelete nodes that wait for a change of image, arguments, environment, ports, a label and a
// container at once.
func bumped(t *testing.T, nodes int, replicas int32, change func(*appsv1.StatefulSet)) *harness.Cell {
	t.Helper()
	cell := rig.NewCell(t, harness.CellOptions{
		Budget: "34", Nodes: nodes, Replicas: replicas, Strategy: onDelete, Annotations: map[string]string{harness.AnnotationFreeze: "true"},
		Change: func(_ int, set *appsv1.StatefulSet) {
			pod := &set.Spec.Template
			pod.Labels = map[string]string{"app": set.Name, "release": "1"} // the selector shares the other map
			pod.Spec.Containers[0].Args = []string{"--old"}
			pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "FORMAT", Value: "1"}}
			pod.Spec.Containers[0].Ports = []corev1.ContainerPort{
				{Name: "p2p", ContainerPort: 30303, Protocol: corev1.ProtocolTCP}, {Name: "p2p-udp", ContainerPort: 30303, Protocol: corev1.ProtocolUDP},
			}
			pod.Spec.PriorityClassName = "system-cluster-critical"
			if change != nil {
				change(set)
			}
		},
	})
	for _, name := range cell.Nodes {
		cell.UpdateNode(t, name, func(set *appsv1.StatefulSet) {
			pod := &set.Spec.Template
			pod.Labels["release"] = "2"
			pod.Spec.Containers[0].Image = "app:v2"
			pod.Spec.Containers[0].Args = []string{"--new"}
			pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "FORMAT", Value: "2"}, {Name: "MORE", Value: "x"}}
			pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "p2p", ContainerPort: 30304, Protocol: corev1.ProtocolTCP}}
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "exporter", Image: "exporter:v1"})
			pod.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
			pod.Spec.PriorityClassName = "system-node-critical"
		})
	}
	cell.WaitHeld(t)
	return cell
}

// asMade is what a pod was made of: the rest differs from one pod to the next.
func asMade(pod corev1.Pod) map[string]any {
	var tokens []string
	containers := make([]corev1.Container, 0, len(pod.Spec.Containers))
	for _, container := range pod.Spec.Containers {
		for _, mount := range container.VolumeMounts {
			tokens = append(tokens, mount.MountPath)
		}
		container.VolumeMounts = nil // of the token, whose volume has another name each time
		containers = append(containers, container)
	}
	return map[string]any{
		"labels": pod.Labels, "containers": containers, "volumes": len(pod.Spec.Volumes), "mounts": tokens,
		"priority": *pod.Spec.Priority, "tolerations": pod.Spec.Tolerations,
	}
}

// A pod of an OnDelete node that waits comes back whole: image, arguments, environment, ports, containers, labels. The
// StatefulSet controller leaves it, and it rolls once, with the slot.
func TestEvictedPodOfOnDeleteIsWhole(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		replicas int32
		pod      string
		change   func(*appsv1.StatefulSet)
	}{
		"the only replica":    {1, "rpc-00-0", nil},
		"one of three":        {3, "rpc-00-1", nil},
		"ordinals.start":      {2, "rpc-00-5", func(set *appsv1.StatefulSet) { set.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 5} }},
		"no revision is kept": {2, "rpc-00-0", func(set *appsv1.StatefulSet) { set.Spec.RevisionHistoryLimit = new(int32) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cell := bumped(t, 1, c.replicas, c.change)
			before := cell.Pod(t, c.pod)
			for range 2 { // the second one was made by the webhook
				uid := cell.UID(t, c.pod)
				cell.Evict(t, c.pod)
				cell.WaitPodImage(t, c.pod, "app:v1", uid)
				require.Equal(t, asMade(before), asMade(cell.Pod(t, c.pod)))
			}
			thaw(t, cell)
			cell.WaitRolled(t, "app:v2")
			for _, pod := range cell.Pods(t, "rpc-00") {
				require.Len(t, pod.Spec.Containers, 2)
				require.Equal(t, "2", pod.Labels["release"])
			}
			report := cell.AssertMaxDown(t, 1)
			require.Equal(t, int(c.replicas)+2, report.TotalRestarts(), "each pod once, and the two evictions")
			require.Len(t, report.WithoutSlot(), 2, "the evictions alone")
		})
	}
}

// The revision that the node runs is gone: the pod comes at the newest, as nothing else is known; none is blocked.
func TestEvictedPodWhoseRevisionIsGone(t *testing.T) {
	t.Parallel()
	cell := frozen(t, onDelete, 1)
	running := cell.Pod(t, "rpc-00-0").Labels["controller-revision-hash"]
	require.NoError(t, cell.Client.AppsV1().ControllerRevisions(cell.Name).Delete(t.Context(), running, metav1.DeleteOptions{}))
	uid := cell.UID(t, "rpc-00-0")
	cell.DeletePod(t, "rpc-00-0")
	cell.WaitPodImage(t, "rpc-00-0", "app:v2", uid)
}

// Pods were replaced by hand while Paceline was away: what cleared says is out of date, and no pod goes back to it.
func TestEvictedPodIsNotDowngraded(t *testing.T) {
	t.Parallel()
	cell := frozen(t, onDelete, 3)
	cell.WebhookAway(t, true)
	for _, pod := range []string{"rpc-00-0", "rpc-00-1"} {
		uid := cell.UID(t, pod)
		cell.DeletePod(t, pod)
		cell.WaitPodImage(t, pod, "app:v2", uid)
	}
	cell.WebhookAway(t, false)
	uid := cell.UID(t, "rpc-00-1")
	cell.DeletePod(t, "rpc-00-1")
	cell.WaitPodImage(t, "rpc-00-1", "app:v2", uid)
}

// Three revisions at once: a pod that is evicted comes at the one that the node ran when it last stood still.
func TestEvictedPodAmongThreeRevisions(t *testing.T) {
	t.Parallel()
	cell := frozen(t, onDelete, 3)
	cell.WebhookAway(t, true)
	uid := cell.UID(t, "rpc-00-2")
	cell.DeletePod(t, "rpc-00-2")
	cell.WaitPodImage(t, "rpc-00-2", "app:v2", uid)
	cell.WebhookAway(t, false)
	cell.SetImage(t, "app:v3", "rpc-00")
	uid = cell.UID(t, "rpc-00-0")
	cell.DeletePod(t, "rpc-00-0")
	cell.WaitPodImage(t, "rpc-00-0", "app:v1", uid)
	thaw(t, cell)
	cell.WaitImage(t, "app:v3", "rpc-00")
	cell.WaitImage(t, "app:v2", "rpc-01", "rpc-02")
}

// A change of the environment alone never waits where images are paced, and is kept from a pod where templates are.
func TestEvictedPodAndTheEnvironment(t *testing.T) {
	t.Parallel()
	change := `{"spec":{"template":{"spec":{"containers":[{"name":"app","env":[{"name":"FORMAT","value":"2"}]}]}}}}`
	for pace, want := range map[string]int{"images": 1, "template": 0} {
		t.Run(pace, func(t *testing.T) {
			t.Parallel()
			cell := rig.NewCell(t, harness.CellOptions{
				Budget: "34", Nodes: 1, Strategy: onDelete,
				Annotations: map[string]string{harness.AnnotationFreeze: "true", harness.AnnotationPace: pace},
			})
			cell.PatchNode(t, "rpc-00", types.StrategicMergePatchType, change)
			uid := cell.UID(t, "rpc-00-0")
			cell.Evict(t, "rpc-00-0")
			cell.WaitPodImage(t, "rpc-00-0", "app:v1", uid)
			require.Len(t, cell.Pod(t, "rpc-00-0").Spec.Containers[0].Env, want)
			thaw(t, cell)
			cell.WaitFor(t, "the environment of rpc-00-0", func(ctx context.Context) error {
				pod, err := cell.Client.CoreV1().Pods(cell.Name).Get(ctx, "rpc-00-0", metav1.GetOptions{})
				if err == nil && len(pod.Spec.Containers[0].Env) != 1 {
					err = fmt.Errorf("%d variables", len(pod.Spec.Containers[0].Env))
				}
				return err
			})
			cell.Finish(t, checker.Expect{MaxDown: 1})
		})
	}
}
