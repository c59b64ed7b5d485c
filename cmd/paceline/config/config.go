package config

import (
	"time"

	"k8s.io/apimachinery/pkg/labels"
)

// APIVersion and Kind are what every configuration file states first.
const (
	APIVersion = "paceline.io/v1alpha1"
	Kind       = "Configuration"
)

// The values of rollout.pace, rollout.gate and certs.mode.
const (
	PaceImages   = "images"
	PaceTemplate = "template"

	GateNative = "native"
	GatePin    = "pin"

	CertsSelf        = "self"
	CertsCertManager = "cert-manager"
)

// Config is the whole configuration of the controller, with every default filled in.
type Config struct {
	Rollout        Rollout
	Nodes          Nodes
	Namespaces     []string // the cells to serve; empty: every labelled namespace
	Webhook        Webhook
	Metrics        Metrics
	Health         Health
	LeaderElection LeaderElection
	Certs          Certs
	Sidecar        Sidecar
	Planner        Planner
	Patch          Patch
}

// Rollout says how fast a cell rolls and what is paced. A cell's annotations override the first three.
type Rollout struct {
	DriftUpdateBudgetPercent int    // 0 to 100; 0 holds nothing
	Pace                     string // PaceImages or PaceTemplate
	Gate                     string // GateNative or GatePin
	ResyncInterval           time.Duration
	ProgressDeadline         time.Duration // a holder without progress for longer is stuck
}

// Nodes narrows which StatefulSets of a cell are nodes.
type Nodes struct {
	LabelSelector labels.Selector // never nil; matches everything by default
}

// Webhook says where the API server reaches the webhook server.
type Webhook struct {
	Port        int
	URL         string // set: the controller runs outside the cluster and is reached here
	ServiceName string // used when URL is empty
	Timeout     time.Duration
}

// Metrics says where metrics are served. BindAddress "0" turns them off.
type Metrics struct {
	BindAddress string
	Secure      bool
}

// Health says where /healthz and /readyz are served.
type Health struct {
	BindAddress string
}

// LeaderElection says whether replicas elect a leader. An empty Namespace is the controller's own.
type LeaderElection struct {
	Enabled   bool
	Namespace string
}

// Certs says where the webhook server's certificate comes from.
type Certs struct {
	Mode       string // CertsSelf or CertsCertManager
	SecretName string
	Validity   time.Duration // of the certificate; its authority lives longer
}

// Sidecar says how the sidecar of a pod is reached.
type Sidecar struct {
	URLTemplate   string // a text/template with .Namespace .Pod .PodIP .Port .Scheme
	CAFile        string
	TokenAudience string
	Timeout       time.Duration
}

// Planner sizes the reconcilers.
type Planner struct {
	Workers int
}

// Patch lists the file names that a plan may patch besides config.toml, app.toml and client.toml.
type Patch struct {
	Files []string
}

// Default returns the configuration of a file that states nothing.
func Default() Config {
	return Config{
		Rollout: Rollout{
			Pace:             PaceImages,
			Gate:             GateNative,
			ResyncInterval:   30 * time.Second,
			ProgressDeadline: 10 * time.Minute,
		},
		Nodes:          Nodes{LabelSelector: labels.Everything()},
		Webhook:        Webhook{Port: 9443, ServiceName: "paceline", Timeout: 3 * time.Second},
		Metrics:        Metrics{BindAddress: ":8443", Secure: true},
		Health:         Health{BindAddress: ":8081"},
		LeaderElection: LeaderElection{Enabled: true},
		Certs:          Certs{Mode: CertsSelf, SecretName: "paceline-certs", Validity: 90 * 24 * time.Hour},
		Sidecar: Sidecar{
			URLTemplate:   "http://{{.PodIP}}:{{.Port}}",
			TokenAudience: "paceline-sidecar",
			Timeout:       10 * time.Second,
		},
		Planner: Planner{Workers: 10},
	}
}

// keys lists every key of the file with what reads its value into c.
func (c *Config) keys() map[string]setter {
	const day = 24 * time.Hour
	return map[string]setter{
		"apiVersion": constant(APIVersion),
		"kind":       constant(Kind),

		"rollout.driftUpdateBudgetPercent": integer(&c.Rollout.DriftUpdateBudgetPercent, 0, 100),
		"rollout.pace":                     oneOf(&c.Rollout.Pace, PaceImages, PaceTemplate),
		"rollout.gate":                     oneOf(&c.Rollout.Gate, GateNative, GatePin),
		"rollout.resyncInterval":           duration(&c.Rollout.ResyncInterval, time.Second, day),
		"rollout.progressDeadline":         duration(&c.Rollout.ProgressDeadline, time.Second, 30*day),

		"nodes.labelSelector": selector(&c.Nodes.LabelSelector),
		"namespaces":          list(&c.Namespaces, "DNS labels (a-z, 0-9, -; at most 63)", isDNSLabel),

		"webhook.port":        integer(&c.Webhook.Port, 1, 65535),
		"webhook.url":         text(&c.Webhook.URL, "an https URL without query, or nothing", emptyOr(isWebhookURL)),
		"webhook.serviceName": text(&c.Webhook.ServiceName, "a DNS label (a-z, 0-9, -; at most 63)", isDNSLabel),
		// The API server waits at most 30 s for a webhook.
		"webhook.timeout": wholeSeconds(&c.Webhook.Timeout, time.Second, 30*time.Second),

		"metrics.bindAddress": text(&c.Metrics.BindAddress, `an address such as :8443, or "0" for none`, orZero(isAddress)),
		"metrics.secure":      boolean(&c.Metrics.Secure),
		"health.bindAddress":  text(&c.Health.BindAddress, "an address such as :8081", isAddress),

		"leaderElection.enabled":   boolean(&c.LeaderElection.Enabled),
		"leaderElection.namespace": text(&c.LeaderElection.Namespace, "a namespace, or nothing", emptyOr(isDNSLabel)),

		"certs.mode":       oneOf(&c.Certs.Mode, CertsSelf, CertsCertManager),
		"certs.secretName": text(&c.Certs.SecretName, "the name of a Secret", isDNSSubdomain),
		"certs.validity":   duration(&c.Certs.Validity, time.Minute, 3650*day),

		"sidecar.urlTemplate":   text(&c.Sidecar.URLTemplate, sidecarURLWant, isSidecarURL),
		"sidecar.caFile":        text(&c.Sidecar.CAFile, "a path, or nothing", anything),
		"sidecar.tokenAudience": text(&c.Sidecar.TokenAudience, "an audience", notEmpty),
		"sidecar.timeout":       duration(&c.Sidecar.Timeout, time.Millisecond, time.Hour),

		"planner.workers": integer(&c.Planner.Workers, 1, 1000),
		"patch.files":     list(&c.Patch.Files, "plain file names without a folder", isFileName),
	}
}
