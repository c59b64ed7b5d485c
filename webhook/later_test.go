package webhook

import (
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/paceline/paceline/node"
)

func TestLater(t *testing.T) {
	t.Parallel()
	rule := func(group, resource string, operation admissionregistrationv1.OperationType) admissionregistrationv1.RuleWithOperations {
		return admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{operation},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{"v1"}, Resources: []string{resource}},
		}
	}
	statefulSets := rule("apps", "statefulsets", admissionregistrationv1.Update)
	elsewhere := &metav1.LabelSelector{MatchLabels: map[string]string{"team": "b"}}
	here := &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
	broken := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "x", Operator: "?"}}}
	for name, c := range map[string]struct {
		configuration string
		rule          admissionregistrationv1.RuleWithOperations
		selector      *metav1.LabelSelector
		want          []string
	}{
		"after":                         {"zzz-mirror", statefulSets, nil, []string{"zzz-mirror"}},
		"before":                        {"mirror", statefulSets, nil, nil},
		"itself":                        {"zz-paceline", statefulSets, nil, nil},
		"of everything":                 {"zzz-mirror", rule("*", "*/*", "*"), nil, []string{"zzz-mirror"}},
		"of pods":                       {"zzz-mirror", rule("", "pods", "*"), nil, nil},
		"of StatefulSets that are new":  {"zzz-mirror", rule("apps", "statefulsets", admissionregistrationv1.Create), nil, nil},
		"of /status":                    {"zzz-mirror", rule("apps", "statefulsets/status", "*"), nil, nil},
		"of this namespace":             {"zzz-mirror", statefulSets, here, []string{"zzz-mirror"}},
		"of another namespace":          {"zzz-mirror", statefulSets, elsewhere, nil},
		"with a selector of no meaning": {"zzz-mirror", statefulSets, broken, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := []admissionregistrationv1.MutatingWebhookConfiguration{{
				ObjectMeta: metav1.ObjectMeta{Name: c.configuration},
				Webhooks: []admissionregistrationv1.MutatingWebhook{{
					Rules: []admissionregistrationv1.RuleWithOperations{c.rule}, NamespaceSelector: c.selector,
				}},
			}}
			require.Equal(t, c.want, Later("zz-paceline", all, map[string]string{"team": "a"}))
		})
	}
}

// Who changes a template is told that another webhook has the last word on it; who changes something else is not.
func TestALaterWebhookIsSaid(t *testing.T) {
	t.Parallel()
	const want = "paceline: zzz-mirror is asked after Paceline: an image that it changes rolls without a slot; " +
		"a webhook configuration whose name sorts before zz-paceline is asked first"
	scaled := v("app:v1")
	scaled.replicas = 3
	for name, c := range map[string]struct {
		cell  node.Cell
		user  string
		asked stored
		says  bool
	}{
		"another image":         {pacing(25), "writer", v("app:v2"), true},
		"another argument":      {pacing(25), "writer", stored{image: "app:v1", replicas: 1, extra: `,"args":["x"]`}, true},
		"more replicas":         {pacing(25), "writer", scaled, false},
		"of a cell without one": {pacing(0), "writer", v("app:v2"), false},
		"by Paceline":           {pacing(25), account, v("app:v2"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := inCell()
			s.cell, s.live = c.cell, c.cell
			s.later = []string{"zzz-mirror"}
			r := s.admit(t, review1("UPDATE", c.user, c.asked.json(t), v("app:v1").json(t)))
			require.True(t, r.Allowed)
			if c.says {
				require.Contains(t, r.Warnings, want)
			} else {
				require.NotContains(t, r.Warnings, want)
			}
		})
	}
}
