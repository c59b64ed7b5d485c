package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
)

// SetImage asks for an image on the named nodes; without names, on all of them.
func (c *Cell) SetImage(t testing.TB, image string, nodes ...string) {
	t.Helper()
	for _, name := range c.orAll(nodes) {
		require.NoError(t, c.TrySetImage(t.Context(), name, image))
	}
}

// TrySetImage asks for an image on one node and returns how that was refused.
func (c *Cell) TrySetImage(ctx context.Context, node, image string) error {
	patch := fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":%q,"image":%q}]}}}}`, Container, image)
	return c.tryPatch(ctx, node, types.StrategicMergePatchType, patch)
}

// PatchNode patches one node as a writer named "writer".
func (c *Cell) PatchNode(t testing.TB, name string, kind types.PatchType, patch string) {
	t.Helper()
	require.NoError(t, c.tryPatch(t.Context(), name, kind, patch))
}

func (c *Cell) tryPatch(ctx context.Context, name string, kind types.PatchType, patch string) error {
	_, err := c.Client.AppsV1().StatefulSets(c.Name).Patch(ctx, name, kind, []byte(patch), metav1.PatchOptions{FieldManager: "writer"})
	return err
}

// UpdateNode changes one node by reading and writing it, again on a conflict.
func (c *Cell) UpdateNode(t testing.TB, name string, change func(*appsv1.StatefulSet)) {
	t.Helper()
	sets := c.Client.AppsV1().StatefulSets(c.Name)
	require.NoError(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		set, err := sets.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(set)
		_, err = sets.Update(t.Context(), set, metav1.UpdateOptions{FieldManager: "writer"})
		return err
	}))
}

// Apply applies node number i at an image with kubectl apply.
func (c *Cell) Apply(t testing.TB, i int, image string) {
	t.Helper()
	set := c.Set(i)
	set.TypeMeta = metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"}
	set.Spec.Template.Spec.Containers[0].Image = image
	manifest, err := json.Marshal(set)
	require.NoError(t, err)
	output, err := c.Rig.Kubectl(t.Context(), string(manifest), "apply", "-f", "-")
	require.NoError(t, err, output.Stderr)
}

// Scale changes a node's replicas through /scale.
func (c *Cell) Scale(t testing.TB, name string, replicas int32) {
	t.Helper()
	sets := c.Client.AppsV1().StatefulSets(c.Name)
	require.NoError(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		scale := &autoscalingv1.Scale{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: c.Name},
			Spec:       autoscalingv1.ScaleSpec{Replicas: replicas},
		}
		_, err := sets.UpdateScale(t.Context(), name, scale, metav1.UpdateOptions{})
		return err
	}))
}

// Annotate sets an annotation of a node; nil removes it.
func (c *Cell) Annotate(t testing.TB, node, key string, value *string) {
	t.Helper()
	c.PatchNode(t, node, types.MergePatchType, annotationPatch(t, key, value))
}

// AnnotateCell sets an annotation of the namespace; nil removes it.
func (c *Cell) AnnotateCell(t testing.TB, key string, value *string) {
	t.Helper()
	_, err := c.Client.CoreV1().Namespaces().Patch(t.Context(), c.Name, types.MergePatchType,
		[]byte(annotationPatch(t, key, value)), metav1.PatchOptions{FieldManager: "writer"})
	require.NoError(t, err)
}

// SetBudget changes the cell's percentage.
func (c *Cell) SetBudget(t testing.TB, percent string) {
	t.Helper()
	c.AnnotateCell(t, AnnotationBudget, &percent)
}

// DeleteNode deletes a node.
func (c *Cell) DeleteNode(t testing.TB, name string, options metav1.DeleteOptions) {
	t.Helper()
	require.NoError(t, c.Client.AppsV1().StatefulSets(c.Name).Delete(t.Context(), name, options))
}

// DeletePod deletes a pod, as a person or an eviction would.
func (c *Cell) DeletePod(t testing.TB, name string) {
	t.Helper()
	require.NoError(t, c.Client.CoreV1().Pods(c.Name).Delete(t.Context(), name, metav1.DeleteOptions{}))
}

func annotationPatch(t testing.TB, key string, value *string) string {
	t.Helper()
	raw, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: value}}})
	require.NoError(t, err)
	return string(raw)
}

func (c *Cell) orAll(nodes []string) []string {
	if len(nodes) == 0 {
		return c.Nodes
	}
	return nodes
}

// Evict evicts a pod, as a drain does.
func (c *Cell) Evict(t testing.TB, name string) {
	t.Helper()
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: c.Name}}
	require.NoError(t, c.Client.PolicyV1().Evictions(c.Name).Evict(t.Context(), eviction))
}
