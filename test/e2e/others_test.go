package e2e

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/paceline/paceline/test/e2e/harness"
)

// containersOf are the containers of a pod's or a StatefulSet's object.
func containersOf(object map[string]any) []any {
	spec, _ := object["spec"].(map[string]any)
	if template, ok := spec["template"].(map[string]any); ok {
		spec, _ = template["spec"].(map[string]any)
	}
	containers, _ := spec["containers"].([]any)
	return containers
}

func rewriteImages(change func(string) string) func(map[string]any) {
	return func(object map[string]any) {
		for _, each := range containersOf(object) {
			if container, ok := each.(map[string]any); ok {
				image, _ := container["image"].(string)
				container["image"] = change(image)
			}
		}
	}
}

func mirrored(image string) string {
	return "mirror.example/" + strings.TrimPrefix(image, "mirror.example/")
}

func digested(image string) string {
	name, _, _ := strings.Cut(image, "@")
	return fmt.Sprintf("%s@sha256:%x", name, sha256.Sum256([]byte(name)))
}

// addSidecar adds a container that is not there yet to a pod or a template.
func addSidecar(object map[string]any) {
	spec, _ := object["spec"].(map[string]any)
	if template, ok := spec["template"].(map[string]any); ok {
		spec, _ = template["spec"].(map[string]any)
	}
	containers, _ := spec["containers"].([]any)
	for _, each := range containers {
		if container, ok := each.(map[string]any); ok && container["name"] == "proxy" {
			return
		}
	}
	spec["containers"] = append(containers, map[string]any{"name": "proxy", "image": "proxy:v1"})
}

// gates runs a scenario under both gates.
func gates(t *testing.T, run func(t *testing.T, gate string)) {
	t.Helper()
	for _, gate := range []string{"native", "pin"} {
		t.Run(gate, func(t *testing.T) {
			t.Parallel()
			run(t, gate)
		})
	}
}

// Another webhook, asked before Paceline, changes what the writers ask for, on a fleet that runs already: the
// change rolls in turn, then nothing drifts, and no wish is lost or delivered unasked.
func TestAnotherWebhookChangesTemplates(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(map[string]any)
		image  func(string) string
	}{
		"images to a mirror": {rewriteImages(mirrored), mirrored},
		"images to digests":  {rewriteImages(digested), digested},
		"a sidecar":          {addSidecar, func(image string) string { return image }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gates(t, func(t *testing.T, gate string) {
				cell := rig.NewCell(t, harness.CellOptions{
					Budget: "34", Nodes: 3, Annotations: map[string]string{harness.AnnotationGate: gate},
					Change: func(i int, set *appsv1.StatefulSet) {
						if i == 1 {
							set.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
						}
					},
				})
				cell.Mutate(t, harness.Mutator{Name: "mesh", Group: "apps", Resource: "statefulsets", Change: c.change})
				apply := func(image string) {
					for i := range cell.Nodes {
						cell.Apply(t, i, image)
					}
				}
				apply("app:v1")
				cell.WaitImage(t, c.image("app:v1"))
				cell.WaitHolders(t)
				cell.WaitReason(t, "NodeUpdateInProgress", "UpdateComplete", "NoDrift")
				generation := cell.Node(t, "rpc-00").Generation
				for range 5 {
					apply("app:v1")
				}
				require.Equal(t, generation, cell.Node(t, "rpc-00").Generation, "what is applied again changes nothing")
				require.False(t, cell.Rolling(t.Context()))

				freeze := "true"
				cell.AnnotateCell(t, harness.AnnotationFreeze, &freeze)
				apply("app:v2")
				cell.WaitReason(t, "NodeUpdateInProgress", "UpdateDeferred")
				uid := cell.UID(t, "rpc-01-0")
				cell.Evict(t, "rpc-01-0")
				cell.WaitPodImage(t, "rpc-01-0", c.image("app:v1"), uid)
				apply("app:v1")
				cell.WaitReason(t, "NodeUpdateInProgress", "NoDrift")
				apply("app:v3")
				thaw(t, cell)
				cell.WaitImage(t, c.image("app:v3"))
				report := cell.AssertMaxDown(t, 1)
				require.Equal(t, 7, report.TotalRestarts(), "two rolls, and the eviction")
				require.Len(t, report.WithoutSlot(), 1, "the eviction alone")
			})
		})
	}
}

// Another webhook changes pods: images, containers, labels. What a node runs is told by its revisions, so nothing
// drifts for that, and a pod that comes back has what was added once.
func TestAnotherWebhookChangesPods(t *testing.T) {
	t.Parallel()
	gates(t, func(t *testing.T, gate string) {
		cell := rig.NewCell(t, harness.CellOptions{
			Budget: "50", Nodes: 2, Annotations: map[string]string{harness.AnnotationGate: gate},
			Change: func(i int, set *appsv1.StatefulSet) {
				if i == 1 {
					set.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
				}
			},
		})
		cell.Mutate(t, harness.Mutator{Name: "mesh", Resource: "pods", Again: true, Change: func(pod map[string]any) {
			addSidecar(pod)
			rewriteImages(mirrored)(pod)
			if metadata, ok := pod["metadata"].(map[string]any); ok {
				if labels, ok := metadata["labels"].(map[string]any); ok {
					labels["mesh"] = "on"
				}
			}
		}})
		cell.SetImage(t, "app:v2")
		cell.WaitImage(t, "mirror.example/app:v2")
		cell.WaitReason(t, "NodeUpdateInProgress", "UpdateComplete")
		cell.SetImage(t, "app:v2")
		require.False(t, cell.Rolling(t.Context()))

		freeze := "true"
		cell.AnnotateCell(t, harness.AnnotationFreeze, &freeze)
		cell.SetImage(t, "app:v3")
		cell.WaitReason(t, "NodeUpdateInProgress", "UpdateDeferred")
		for _, pod := range []string{"rpc-00-0", "rpc-01-0"} {
			uid := cell.UID(t, pod)
			cell.Evict(t, pod)
			cell.WaitPodImage(t, pod, "mirror.example/app:v2", uid)
			got := cell.Pod(t, pod)
			require.Len(t, got.Spec.Containers, 2)
			require.Equal(t, "mirror.example/proxy:v1", got.Spec.Containers[1].Image)
			require.Equal(t, "on", got.Labels["mesh"])
		}
		thaw(t, cell)
		cell.WaitImage(t, "mirror.example/app:v3")
		report := cell.AssertMaxDown(t, 1)
		require.Equal(t, 6, report.TotalRestarts(), "two rolls, and two evictions")
		require.Len(t, report.WithoutSlot(), 2, "the evictions alone")
	})
}

// Another webhook changes images after Paceline: the node rolls without a slot. Who writes is told, the roll is adopted
// and uses up the budget, and an Event names the webhook.
func TestAnotherWebhookHasTheLastWord(t *testing.T) {
	t.Parallel()
	cell := rig.NewCell(t, harness.CellOptions{Budget: "34", Nodes: 3})
	cell.Mutate(t, harness.Mutator{Name: "zzz-late", Group: "apps", Resource: "statefulsets", Change: rewriteImages(mirrored)})
	name := "zzz-late-" + cell.Name
	cell.WaitFor(t, "a warning that names it", func(ctx context.Context) error {
		output, err := rig.Kubectl(ctx, "", "set", "image", "statefulset/rpc-00", "app=app:v9", "--dry-run=server", "-n", cell.Name)
		if err == nil && !strings.Contains(output.Stderr, name+" is asked after Paceline") {
			err = fmt.Errorf("it says %q", output.Stderr)
		}
		return err
	})
	cell.PatchNode(t, "rpc-00", types.MergePatchType, `{"metadata":{"labels":{"touched":"true"}}}`)
	cell.WaitImage(t, mirrored("app:v1"), "rpc-00")
	cell.WaitEvent(t, "rpc-00", "UpdateAdopted", "after Paceline looked, by "+name)
	cell.WaitHolders(t)
	cell.SetImage(t, "app:v2")
	cell.WaitImage(t, mirrored("app:v2"))
	report := cell.AssertMaxDown(t, 1)
	require.Equal(t, 4, report.TotalRestarts())
	for _, roll := range report.WithoutSlot() {
		require.Equal(t, mirrored("app:v1"), roll.ToImage, "what the other webhook made of it, nothing else")
	}
}
