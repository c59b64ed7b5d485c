package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/paceline/paceline/test/rig/controlplane"
	"github.com/paceline/paceline/test/rig/product"
)

// Still is an API server with the chart on it, and nobody who acts: neither Kubernetes' controllers nor
// Paceline's. What stands in it is what a request wrote, so that a scenario can set a stage (a status
// too) and see what one request comes to. Webhook answers what the chart's configuration asks.
type Still struct {
	*controlplane.ControlPlane
	Webhook *Webhook
}

// Still is the rig's still API server; the first scenario that wants it starts it.
func (r *Rig) Still(t testing.TB) *Still {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.still == nil {
		still, err := startStill(context.WithoutCancel(t.Context()), controlplane.Options{
			Dir: filepath.Join(r.Dir, "still"), Version: r.Version, Still: true, Progress: os.Stderr,
		})
		require.NoError(t, err)
		r.still = still
		r.WaitFor(t, "the still API server to ask its webhook", still.asks)
	}
	return r.still
}

func startStill(ctx context.Context, options controlplane.Options) (_ *Still, err error) {
	s := &Still{Webhook: newWebhook()}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop())
		}
	}()
	if s.ControlPlane, err = controlplane.Up(ctx, options); err != nil {
		return nil, err
	}
	if err := product.InstallChart(ctx, s.ControlPlane, product.Addresses{WebhookPort: s.Webhook.port()}, product.ChartOptions{}); err != nil {
		return nil, err
	}
	if err := product.TrustWebhook(ctx, s.Client(), s.Webhook.server.Certificate()); err != nil {
		return nil, err
	}
	_, err = s.Client().CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: probe, Labels: map[string]string{LabelPacing: "enabled"},
	}}, metav1.CreateOptions{})
	return s, err
}

const probe = "probe"

// asks sees the API server ask the webhook about a cell: it reads the configuration when it likes.
func (s *Still) asks(ctx context.Context) error {
	before := s.Webhook.Asked(probe)
	set := (&Cell{Name: probe, Options: CellOptions{}.withDefaults()}).Set(0)
	_, err := s.Client().AppsV1().StatefulSets(probe).Create(ctx, set, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err == nil && s.Webhook.Asked(probe) == before {
		err = errors.New("it stores a StatefulSet unasked")
	}
	return err
}

// Namespace creates a namespace whose name begins with a scenario's.
func (s *Still) Namespace(t testing.TB, scenario string, labels, annotations map[string]string) string {
	t.Helper()
	namespace, err := s.Client().CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: scenario + "-", Labels: labels, Annotations: annotations,
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	return namespace.Name
}

// As is a client that acts as somebody else; warnings receives what the API server warns it of.
func (s *Still) As(t testing.TB, who rest.ImpersonationConfig, warnings rest.WarningHandler) kubernetes.Interface {
	t.Helper()
	config := s.AdminConfig()
	config.Impersonate, config.WarningHandler = who, warnings
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return client
}

func (s *Still) stop() error {
	var err error
	if s.ControlPlane != nil {
		err = s.Down()
	}
	s.Webhook.server.Close()
	if err != nil {
		return fmt.Errorf("stopping the still API server: %w", err)
	}
	return nil
}
