package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// labelAway on a namespace keeps Paceline's webhooks from being called there, as if their configuration had
// been deleted; the reconcilers go on.
const labelAway = "rig.paceline.io/webhook-away"

const webhookConfiguration = "zz-paceline"

// excludeAway adds labelAway to the namespace selectors of the installed webhooks.
func (r *Rig) excludeAway(ctx context.Context) error {
	configurations := r.Client().AdmissionregistrationV1().MutatingWebhookConfigurations()
	configuration, err := configurations.Get(ctx, webhookConfiguration, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading the webhook configuration: %w", err)
	}
	for i := range configuration.Webhooks {
		selector := configuration.Webhooks[i].NamespaceSelector
		selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: labelAway, Operator: metav1.LabelSelectorOpDoesNotExist,
		})
	}
	body, err := json.Marshal(admissionv1.MutatingWebhookConfiguration{Webhooks: configuration.Webhooks})
	if err != nil {
		return fmt.Errorf("writing the webhook configuration: %w", err)
	}
	if _, err = configurations.Patch(ctx, webhookConfiguration, types.StrategicMergePatchType, body, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("writing the webhook configuration: %w", err)
	}
	return nil
}

// WebhookAway takes the webhooks away from the cell, or gives them back. It returns when the API server acts on it.
func (c *Cell) WebhookAway(t testing.TB, away bool) {
	t.Helper()
	value := "null"
	if away {
		value = `"true"`
	}
	c.labelNamespace(t, labelAway, value)
	// A namespace's labels reach admission through a cache: a dry run shows when they have.
	c.WaitFor(t, fmt.Sprintf("the webhooks to be away: %t", away), func(ctx context.Context) error {
		forged := `{"metadata":{"annotations":{"` + AnnotationSlot + `":"probe/1"}}}`
		set, err := c.Client.AppsV1().StatefulSets(c.Name).Patch(ctx, c.Nodes[0], types.MergePatchType, []byte(forged),
			metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return err
		}
		if passed := set.Annotations[AnnotationSlot] == "probe/1"; passed != away {
			return fmt.Errorf("they were asked: %t", !passed)
		}
		return nil
	})
}

// Pace makes the namespace a cell, or ends that.
func (c *Cell) Pace(t testing.TB, on bool) {
	t.Helper()
	value := "null"
	if on {
		value = `"enabled"`
	}
	c.labelNamespace(t, LabelPacing, value)
}

func (c *Cell) labelNamespace(t testing.TB, key, value string) {
	t.Helper()
	_, err := c.Client.CoreV1().Namespaces().Patch(t.Context(), c.Name, types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"`+key+`":`+value+`}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
}

// WaitOrphaned waits until a node is gone and its pods have no owner.
func (c *Cell) WaitOrphaned(t testing.TB, node string) {
	t.Helper()
	c.WaitFor(t, node+" to leave its pods behind", func(ctx context.Context) error {
		_, err := c.Client.AppsV1().StatefulSets(c.Name).Get(ctx, node, metav1.GetOptions{})
		if err == nil {
			return errors.New("it is there")
		}
		if !apierrors.IsNotFound(err) {
			return err
		}
		for _, pod := range c.Pods(t, node) {
			if metav1.GetControllerOf(&pod) != nil {
				return fmt.Errorf("%s has an owner", pod.Name)
			}
		}
		return nil
	})
}
