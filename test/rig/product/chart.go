package product

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/paceline/paceline/test/rig/binary"
	"github.com/paceline/paceline/test/rig/controlplane"
)

// ChartOptions say how the chart is installed.
type ChartOptions struct {
	// HelmVersion is "3" or "4". Default "4".
	HelmVersion string
	// Chart is the chart's folder. Default charts/paceline of this checkout.
	Chart string
	// Values are laid over those that keep the controller out of the cluster, key by key at the top.
	Values map[string]any
}

// InstallChart installs or upgrades the chart as release "paceline", for a controller outside the
// cluster: no Pods, and the webhook at the given address.
func InstallChart(ctx context.Context, cp *controlplane.ControlPlane, a Addresses, options ChartOptions) error {
	if options.HelmVersion == "" {
		options.HelmVersion = "4"
	}
	if options.Chart == "" {
		root, err := binary.SourceRoot()
		if err != nil {
			return err
		}
		options.Chart = filepath.Join(root, "charts", "paceline")
	}
	values := Config{
		"controller": map[string]any{"enabled": false},
		"webhook":    map[string]any{"url": a.WebhookURL()},
	}
	maps.Copy(values, options.Values)
	file := filepath.Join(cp.Dir, "conf", "chart-values.yaml")
	if err := values.Write(file); err != nil {
		return err
	}
	_, err := cp.Helm(ctx, options.HelmVersion, "upgrade", "--install", "paceline", options.Chart,
		"--namespace", controlplane.Namespace, "--values", file)
	if err != nil {
		return fmt.Errorf("installing the chart: %w", err)
	}
	return nil
}

// webhookConfiguration is what the chart calls its webhook configuration.
const webhookConfiguration = "zz-paceline"

// TrustWebhook writes the certificate of a webhook into the chart's configuration, as the controller
// does with its own.
func TrustWebhook(ctx context.Context, api kubernetes.Interface, certificate *x509.Certificate) error {
	bundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw})
	configurations := api.AdmissionregistrationV1().MutatingWebhookConfigurations()
	c, err := configurations.Get(ctx, webhookConfiguration, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading the webhook configuration: %w", err)
	}
	for i := range c.Webhooks {
		c.Webhooks[i].ClientConfig.CABundle = bundle
	}
	if _, err := configurations.Update(ctx, c, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("writing the webhook configuration: %w", err)
	}
	return nil
}

// UninstallChart removes the release.
func UninstallChart(ctx context.Context, cp *controlplane.ControlPlane, helmVersion string) error {
	if _, err := cp.Helm(ctx, helmVersion, "uninstall", "paceline", "--namespace", controlplane.Namespace); err != nil {
		return fmt.Errorf("uninstalling the chart: %w", err)
	}
	return nil
}
