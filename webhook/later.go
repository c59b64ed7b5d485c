package webhook

import (
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Later names the configurations whose webhooks the API server asks about the StatefulSets of a namespace with
// these labels after those of the configuration own: what they change no gate has seen. It goes by the names of the
// configurations (kube-apiserver's mutating_webhook_manager.go). A selector of objects and conditions are taken to fit.
func Later(own string, all []admissionregistrationv1.MutatingWebhookConfiguration, namespace map[string]string) []string {
	var names []string
	for _, configuration := range all {
		asked := func(w admissionregistrationv1.MutatingWebhook) bool {
			return slices.ContainsFunc(w.Rules, changesStatefulSets) && selects(w.NamespaceSelector, namespace)
		}
		if configuration.Name > own && slices.ContainsFunc(configuration.Webhooks, asked) {
			names = append(names, configuration.Name)
		}
	}
	slices.Sort(names)
	return names
}

func changesStatefulSets(rule admissionregistrationv1.RuleWithOperations) bool {
	resource := func(r string) bool { return r == "statefulsets" || r == "*" || r == "*/*" }
	operation := func(o admissionregistrationv1.OperationType) bool {
		return o == admissionregistrationv1.Update || o == admissionregistrationv1.OperationAll
	}
	return names(rule.APIGroups, "apps") && names(rule.APIVersions, "v1") &&
		slices.ContainsFunc(rule.Resources, resource) && slices.ContainsFunc(rule.Operations, operation)
}

func names(list []string, name string) bool {
	return slices.Contains(list, name) || slices.Contains(list, "*")
}

func selects(selector *metav1.LabelSelector, namespace map[string]string) bool {
	if selector == nil {
		return true
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && parsed.Matches(labels.Set(namespace))
}

// overwrites is the warning that others have the last word on a template.
func overwrites(own string, later []string) string {
	return fit("paceline: " + strings.Join(later, ", ") + " is asked after Paceline: an image that it changes rolls without a slot; " +
		"a webhook configuration whose name sorts before " + own + " is asked first")
}
