package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"
)

const header = "apiVersion: paceline.io/v1alpha1\nkind: Configuration\n"

// load writes body under the header and returns what Load says, with the folder taken out of messages.
func load(t *testing.T, content string) (Config, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	config, err := Load(path)
	if err == nil {
		return config, ""
	}
	return config, strings.ReplaceAll(err.Error(), path, "FILE")
}

func TestWhatIsLeftOutHasItsDefault(t *testing.T) {
	config, problems := load(t, header)
	require.Empty(t, problems)
	require.Equal(t, Default(), config)

	config, problems = load(t, header+"rollout:\n  driftUpdateBudgetPercent:\nnodes: ~\n")
	require.Empty(t, problems)
	require.Equal(t, Default(), config)
}

func TestEveryKeyIsRead(t *testing.T) {
	config, problems := load(t, header+`
rollout: {driftUpdateBudgetPercent: 25, pace: template, gate: pin, resyncInterval: 1m, progressDeadline: 1h}
nodes: {labelSelector: "paceline.example/node,tier in (a,b)"}
namespaces: [cell-a, cell-b]
webhook: {port: 9444, url: "https://127.0.0.1:9444", serviceName: hook, timeout: 5s}
metrics: {bindAddress: "0", secure: false}
health: {bindAddress: "127.0.0.1:0"}
leaderElection: {enabled: false, namespace: paceline-system}
certs: {mode: cert-manager, secretName: hook.tls, validity: 30d}
sidecar: {urlTemplate: "http://127.0.0.1:9/{{.Namespace}}/{{.Pod}}", caFile: /ca.crt, tokenAudience: a, timeout: 1500ms}
planner: {workers: 3}
patch: {files: [priv.toml]}
`)
	require.Empty(t, problems)
	require.Equal(t, Config{
		Rollout: Rollout{DriftUpdateBudgetPercent: 25, Pace: PaceTemplate, Gate: GatePin,
			ResyncInterval: time.Minute, ProgressDeadline: time.Hour},
		Nodes:          Nodes{LabelSelector: mustSelector(t, "paceline.example/node,tier in (a,b)")},
		Namespaces:     []string{"cell-a", "cell-b"},
		Webhook:        Webhook{Port: 9444, URL: "https://127.0.0.1:9444", ServiceName: "hook", Timeout: 5 * time.Second},
		Metrics:        Metrics{BindAddress: "0"},
		Health:         Health{BindAddress: "127.0.0.1:0"},
		LeaderElection: LeaderElection{Namespace: "paceline-system"},
		Certs:          Certs{Mode: CertsCertManager, SecretName: "hook.tls", Validity: 30 * 24 * time.Hour},
		Sidecar: Sidecar{URLTemplate: "http://127.0.0.1:9/{{.Namespace}}/{{.Pod}}", CAFile: "/ca.crt",
			TokenAudience: "a", Timeout: 1500 * time.Millisecond},
		Planner: Planner{Workers: 3},
		Patch:   Patch{Files: []string{"priv.toml"}},
	}, config)
}

func mustSelector(t *testing.T, text string) labels.Selector {
	t.Helper()
	selector, err := labels.Parse(text)
	require.NoError(t, err)
	return selector
}

func TestAWrongValueIsRefused(t *testing.T) {
	const percent = "config FILE: rollout.driftUpdateBudgetPercent: "
	for name, test := range map[string]struct{ body, want string }{
		"a percentage over 100":                   {"rollout: {driftUpdateBudgetPercent: 250}", percent + "250: want an integer from 0 to 100"},
		"a negative percentage":                   {"rollout: {driftUpdateBudgetPercent: -1}", percent + "-1: want an integer from 0 to 100"},
		"a percentage as a string":                {`rollout: {driftUpdateBudgetPercent: "25"}`, percent + `"25": want an integer from 0 to 100`},
		"a percentage as a float":                 {"rollout: {driftUpdateBudgetPercent: 25.0}", percent + "25.0: want an integer from 0 to 100"},
		"a percentage with a sign":                {`rollout: {driftUpdateBudgetPercent: "25%"}`, percent + `"25%": want an integer from 0 to 100`},
		"a percentage with a bare sign":           {`rollout: {driftUpdateBudgetPercent: 25%}`, percent + `25%: want an integer from 0 to 100`},
		"a percentage in octal":                   {`rollout: {driftUpdateBudgetPercent: 031}`, percent + `031: want an integer from 0 to 100`},
		"a percentage beyond 64 bits":             {"rollout: {driftUpdateBudgetPercent: 99999999999999999999}", percent + "99999999999999999999: want an integer from 0 to 100"},
		"a percentage as a list":                  {"rollout: {driftUpdateBudgetPercent: [25]}", percent + "a list: want an integer from 0 to 100"},
		"an unknown pace":                         {"rollout: {pace: all}", "config FILE: rollout.pace: all: want images or template"},
		"an unknown gate":                         {"rollout: {gate: open}", "config FILE: rollout.gate: open: want native or pin"},
		"a duration without a unit":               {"rollout: {resyncInterval: 30}", "config FILE: rollout.resyncInterval: 30: want a duration such as 30s, 10m or 90d, from 1s to 1d"},
		"a negative duration":                     {"sidecar: {timeout: -1s}", "config FILE: sidecar.timeout: -1s: want a duration such as 30s, 10m or 90d, from 1ms to 1h"},
		"a webhook timeout over 30 s":             {"webhook: {timeout: 31s}", "config FILE: webhook.timeout: 31s: want whole seconds such as 3s, from 1s to 30s"},
		"a webhook timeout of half a second more": {"webhook: {timeout: 3500ms}", "config FILE: webhook.timeout: 3500ms: want whole seconds such as 3s, from 1s to 30s"},
		"a selector that does not parse":          {"nodes: {labelSelector: 'a in b'}", `config FILE: nodes.labelSelector: "a in b": want a label selector such as app=node,tier in (a,b) (unable to parse requirement: found 'b' expected: '(')`},
		"a namespace that is no label":            {"namespaces: [ok, Not_OK]", "config FILE: namespaces: a list: want a list of DNS labels (a-z, 0-9, -; at most 63), not Not_OK"},
		"namespaces as a string":                  {"namespaces: a", "config FILE: namespaces: a: want a list of DNS labels (a-z, 0-9, -; at most 63)"},
		"port 0":                                  {"webhook: {port: 0}", "config FILE: webhook.port: 0: want an integer from 1 to 65535"},
		"a webhook without TLS":                   {"webhook: {url: 'http://a'}", `config FILE: webhook.url: "http://a": want an https URL without query, or nothing`},
		"an empty service name":                   {`webhook: {serviceName: ""}`, `config FILE: webhook.serviceName: "": want a DNS label (a-z, 0-9, -; at most 63)`},
		"an address without a port":               {"health: {bindAddress: localhost}", "config FILE: health.bindAddress: localhost: want an address such as :8081"},
		"a boolean as a word":                     {"metrics: {secure: yes}", "config FILE: metrics.secure: yes: want true or false"},
		"an unknown certificate mode":             {"certs: {mode: file}", "config FILE: certs.mode: file: want self or cert-manager"},
		"a URL template of unknown field":         {"sidecar: {urlTemplate: 'http://{{.Host}}'}", `config FILE: sidecar.urlTemplate: "http://{{.Host}}": want a template of an http or https URL with .Namespace .Pod .PodIP .Port .Scheme`},
		"a patch file with a path":                {"patch: {files: [../x]}", "config FILE: patch.files: a list: want a list of plain file names without a folder, not ../x"},
		"no worker":                               {"planner: {workers: 0}", "config FILE: planner.workers: 0: want an integer from 1 to 1000"},
		"an unknown key":                          {"planner: {worker: 1}", "config FILE: planner.worker: unknown key: want one of workers"},
		"an unknown section":                      {"rollouts: {}", "config FILE: rollouts: unknown key: want one of apiVersion, certs, health, kind, leaderElection, metrics, namespaces, nodes, patch, planner, rollout, sidecar, webhook"},
		"a dotted key":                            {"planner.workers: 1", "config FILE: planner.workers: unknown key: want one of apiVersion, certs, health, kind, leaderElection, metrics, namespaces, nodes, patch, planner, rollout, sidecar, webhook"},
		"a key stated twice":                      {"planner:\n  workers: 1\n  workers: 2", "config FILE: planner.workers: stated on lines 4 and 5: want each key once"},
		"a section that is no mapping":            {"planner: 3", "config FILE: planner: 3: want a mapping"},
		"a second document":                       {"---\nkind: Configuration", "config FILE: more than one YAML document: want one"},
		"no YAML":                                 {"a: [", "config FILE: yaml: line 3: did not find expected node content"},
	} {
		t.Run(name, func(t *testing.T) {
			_, problems := load(t, header+test.body)
			require.Equal(t, test.want, problems)
		})
	}
}

func TestTheHeaderIsRequired(t *testing.T) {
	_, problems := load(t, "")
	require.Equal(t, "config FILE: apiVersion: nothing: want paceline.io/v1alpha1\nconfig FILE: kind: nothing: want Configuration", problems)
	_, problems = load(t, "apiVersion: v1\nkind: Configuration")
	require.Equal(t, "config FILE: apiVersion: v1: want paceline.io/v1alpha1", problems)
	_, problems = load(t, "[]")
	require.Contains(t, problems, "config FILE: the file: a list: want a mapping")
}

func TestAllWrongValuesAreReportedAtOnceInTheOrderOfTheFile(t *testing.T) {
	_, problems := load(t, header+"rollout: {pace: x, driftUpdateBudgetPercent: 101}\nplanner: {workers: many}\n")
	require.Equal(t, []string{
		"config FILE: rollout.pace: x: want images or template",
		"config FILE: rollout.driftUpdateBudgetPercent: 101: want an integer from 0 to 100",
		"config FILE: planner.workers: many: want an integer from 1 to 1000",
	}, strings.Split(problems, "\n"))
}

func TestAFileThatIsMissingIsNamed(t *testing.T) {
	_, err := Load(filepath.Join(t.TempDir(), "none.yaml"))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "none.yaml: reading the file")
}
