package product

import (
	"fmt"
	"os"

	"sigs.k8s.io/yaml"

	"github.com/paceline/paceline/test/rig/controlplane"
)

// Addresses are where one controller listens.
type Addresses struct {
	WebhookPort, HealthPort, MetricsPort int
}

// FreeAddresses chooses ports that nobody uses.
func FreeAddresses() (Addresses, error) {
	ports, err := controlplane.FreePorts(3)
	if err != nil {
		return Addresses{}, err
	}
	return Addresses{ports[0], ports[1], ports[2]}, nil
}

// WebhookURL is where the API server reaches the webhook: the chart's webhook.url.
func (a Addresses) WebhookURL() string { return fmt.Sprintf("https://127.0.0.1:%d", a.WebhookPort) }

// HealthURL is a path of the health server.
func (a Addresses) HealthURL(path string) string {
	return fmt.Sprintf("http://127.0.0.1:%d%s", a.HealthPort, path)
}

// MetricsURL is where metrics are served.
func (a Addresses) MetricsURL() string {
	return fmt.Sprintf("http://127.0.0.1:%d/metrics", a.MetricsPort)
}

// Config is a configuration file as nested maps, so that a test can state wrong values too.
type Config map[string]any

// NewConfig is the configuration of a controller beside a rig.
func NewConfig(a Addresses) Config {
	return Config{
		"apiVersion":     "paceline.io/v1alpha1",
		"kind":           "Configuration",
		"webhook":        map[string]any{"port": a.WebhookPort, "url": a.WebhookURL()},
		"health":         map[string]any{"bindAddress": fmt.Sprintf("127.0.0.1:%d", a.HealthPort)},
		"metrics":        map[string]any{"bindAddress": fmt.Sprintf("127.0.0.1:%d", a.MetricsPort), "secure": false},
		"leaderElection": map[string]any{"enabled": true, "namespace": controlplane.Namespace},
	}
}

// Set states one value, such as ("rollout", "resyncInterval", "5s"), and returns the configuration.
func (c Config) Set(section, key string, value any) Config {
	values, ok := c[section].(map[string]any)
	if !ok {
		values = map[string]any{}
		c[section] = values
	}
	values[key] = value
	return c
}

// Write writes the file.
func (c Config) Write(path string) error {
	raw, err := yaml.Marshal(map[string]any(c))
	if err != nil {
		return fmt.Errorf("encoding the configuration: %w", err)
	}
	if err := os.WriteFile(path, raw, 0o644); err != nil {
		return fmt.Errorf("writing the configuration: %w", err)
	}
	return nil
}
