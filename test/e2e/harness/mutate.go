package harness

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Mutator is a mutating webhook of somebody else.
type Mutator struct {
	// Name is how its configuration's name begins: the order in which webhooks are asked goes by that.
	Name string
	// Group and Resource are what it changes when it is created or updated.
	Group, Resource string
	// Again: it is asked once more where a later webhook changed something (reinvocationPolicy IfNeeded).
	Again bool
	// Change changes an object in place. It is called by several requests at once.
	Change func(object map[string]any)
}

// Mutate puts the webhook of somebody else into the cell, until the test ends.
func (c *Cell) Mutate(t testing.TB, m Mutator) {
	t.Helper()
	var asked atomic.Int64
	server := serveReviews(func(_ context.Context, request *Request) []byte {
		asked.Add(1)
		return m.patch(request.Object.Raw)
	})
	none, fail, policy := admissionv1.SideEffectClassNone, admissionv1.Fail, admissionv1.NeverReinvocationPolicy
	if m.Again {
		policy = admissionv1.IfNeededReinvocationPolicy
	}
	configurations := c.Client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	configuration := &admissionv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: m.Name + "-" + c.Name},
		Webhooks: []admissionv1.MutatingWebhook{{
			Name: "other.rig.paceline.io", AdmissionReviewVersions: []string{"v1"}, SideEffects: &none, FailurePolicy: &fail,
			ReinvocationPolicy: &policy, NamespaceSelector: c.selector(), ClientConfig: at(server),
			Rules: []admissionv1.RuleWithOperations{rule(m.Group, m.Resource, admissionv1.Create, admissionv1.Update)},
		}},
	}
	_, err := configurations.Create(t.Context(), configuration, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := configurations.Delete(context.WithoutCancel(t.Context()), configuration.Name, metav1.DeleteOptions{}); err != nil {
			t.Errorf("deleting the webhook %s: %v", configuration.Name, err)
		}
		server.Close()
	})
	c.WaitFor(t, "the webhook "+configuration.Name+" to be asked", func(ctx context.Context) error {
		before := asked.Load()
		err := c.dryRun(ctx, m.Resource)
		if err == nil && asked.Load() == before {
			err = errors.New("a dry run passed unseen")
		}
		return err
	})
}

// dryRun makes the API server ask the webhooks of StatefulSets or pods.
func (c *Cell) dryRun(ctx context.Context, resource string) error {
	all := []string{metav1.DryRunAll}
	if resource == "pods" {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "probe"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: Container, Image: "probe"}}},
		}
		_, err := c.Client.CoreV1().Pods(c.Name).Create(ctx, pod, metav1.CreateOptions{DryRun: all})
		return err
	}
	_, err := c.Client.AppsV1().StatefulSets(c.Name).Patch(ctx, c.Nodes[0], types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"probe":"true"}}}`), metav1.PatchOptions{DryRun: all})
	return err
}

func (m Mutator) patch(raw []byte) []byte {
	var object map[string]any
	if json.Unmarshal(raw, &object) != nil {
		return nil
	}
	m.Change(object)
	changed, err := json.Marshal(object)
	if err != nil {
		return nil
	}
	operations, err := jsonpatch.CreatePatch(raw, changed)
	if err != nil || len(operations) == 0 {
		return nil
	}
	patch, err := json.Marshal(operations)
	if err != nil {
		return nil
	}
	return patch
}
