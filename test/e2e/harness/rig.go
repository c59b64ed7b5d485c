package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/paceline/paceline/test/rig/controlplane"
	"github.com/paceline/paceline/test/rig/product"
	"github.com/paceline/paceline/test/rig/proxy"
)

// Rig is a control plane, with Paceline on it unless told otherwise.
type Rig struct {
	*controlplane.ControlPlane
	// Controller, Addresses and Binary are set if Paceline runs.
	Controller *product.Controller
	Addresses  product.Addresses
	Binary     string
	// Proxy is between Controller and the API server, if asked for.
	Proxy *proxy.Proxy

	configure func(product.Config)
	chart     product.ChartOptions

	mu    sync.Mutex
	still *Still // started by the first scenario that wants it
}

// Options say what rig to start.
type Options struct {
	ControlPlane controlplane.Options
	// Paceline installs the chart and starts the controller.
	Paceline bool
	// Race builds Paceline with the race detector.
	Race bool
	// Configure changes the controller's configuration before it starts.
	Configure func(product.Config)
	// Proxied puts a proxy between the controller and the API server.
	Proxied bool
	// Chart says how the chart is installed.
	Chart product.ChartOptions
}

// Run starts a rig, runs a package's tests on it and returns the exit status for TestMain. With
// PACELINE_KEEP set, the folder with all logs stays.
func Run(m *testing.M, options Options, use func(*Rig)) int {
	dir, err := os.MkdirTemp("", "paceline-rig-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "making the rig's folder:", err)
		return 1
	}
	options.ControlPlane.Dir = dir
	if options.ControlPlane.Progress == nil {
		options.ControlPlane.Progress = os.Stderr
	}
	rig, err := Start(context.Background(), options)
	if err != nil {
		fmt.Fprintln(os.Stderr, "starting the rig:", err)
		return 1
	}
	use(rig)
	status := m.Run()
	if err := rig.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stopping the rig:", err)
		status = max(status, 1)
	}
	if os.Getenv("PACELINE_KEEP") != "" || status != 0 {
		fmt.Fprintln(os.Stderr, "logs are in", filepath.Join(dir, "logs"))
		return status
	}
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, "removing the rig's folder:", err)
	}
	return status
}

// Start starts a rig.
func Start(ctx context.Context, options Options) (*Rig, error) {
	rig := &Rig{}
	var err error
	if options.Paceline {
		// Before the control plane starts: a long build would starve it.
		if rig.Binary, err = product.Build(ctx, "paceline", filepath.Join(options.ControlPlane.Dir, "bin"), options.Race); err != nil {
			return nil, err
		}
	}
	if rig.ControlPlane, err = controlplane.Up(ctx, options.ControlPlane); err != nil {
		return nil, err
	}
	if options.Paceline {
		if err := rig.startPaceline(ctx, options); err != nil {
			return nil, errors.Join(err, rig.Stop())
		}
	}
	return rig, nil
}

func (r *Rig) startPaceline(ctx context.Context, options Options) (err error) {
	if r.Addresses, err = product.FreeAddresses(); err != nil {
		return err
	}
	r.configure, r.chart = options.Configure, options.Chart
	if err := product.InstallChart(ctx, r.ControlPlane, r.Addresses, options.Chart); err != nil {
		return err
	}
	if err := r.excludeAway(ctx); err != nil {
		return err
	}
	r.Controller, r.Proxy, err = r.startController(ctx, "paceline", r.Addresses, options)
	return err
}

// startController starts a controller of this name at these addresses, behind a proxy if one is asked for.
func (r *Rig) startController(ctx context.Context, name string, at product.Addresses, options Options) (*product.Controller, *proxy.Proxy, error) {
	config := product.NewConfig(at)
	if options.Configure != nil {
		options.Configure(config)
	}
	start := product.ControllerOptions{Name: name, Binary: r.Binary, Addresses: at, ConfigFile: r.configFile(name)}
	if err := config.Write(start.ConfigFile); err != nil {
		return nil, nil, err
	}
	var between *proxy.Proxy
	if options.Proxied {
		account, err := clientcmd.BuildConfigFromFlags("", r.Kubeconfig("controller"))
		if err != nil {
			return nil, nil, fmt.Errorf("reading the controller's kubeconfig: %w", err)
		}
		if between, err = proxy.Start(account); err != nil {
			return nil, nil, err
		}
		start.Kubeconfig = filepath.Join(r.Dir, "conf", name+"-proxied.kubeconfig")
		if err := controlplane.WriteKubeconfig(start.Kubeconfig, between.URL(), nil, name, ""); err != nil {
			return nil, nil, err
		}
	}
	controller, err := product.StartController(ctx, r.ControlPlane, start)
	return controller, between, err
}

func (r *Rig) configFile(name string) string { return filepath.Join(r.Dir, "conf", name+".yaml") }

// Reconfigure starts the controller again with another configuration, and with its own one when the test ends.
func (r *Rig) Reconfigure(t testing.TB, change func(product.Config)) {
	t.Helper()
	write := func(changes ...func(product.Config)) {
		config := product.NewConfig(r.Addresses)
		for _, change := range append([]func(product.Config){r.configure}, changes...) {
			if change != nil {
				change(config)
			}
		}
		require.NoError(t, config.Write(r.configFile("paceline")))
		require.NoError(t, r.Controller.Restart(context.WithoutCancel(t.Context())))
	}
	t.Cleanup(func() { write() })
	write(change)
}

// Uninstall stops the controller and removes the chart, Install brings both back.
func (r *Rig) Uninstall(t testing.TB) {
	t.Helper()
	require.NoError(t, r.Controller.Stop())
	require.NoError(t, product.UninstallChart(context.WithoutCancel(t.Context()), r.ControlPlane, "4"))
}

// Install is the reverse of Uninstall.
func (r *Rig) Install(t testing.TB) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	require.NoError(t, product.InstallChart(ctx, r.ControlPlane, r.Addresses, r.chart))
	require.NoError(t, r.excludeAway(ctx))
	require.NoError(t, r.Controller.Restart(ctx))
}

// Another starts a second controller beside the rig's, behind a proxy of its own, until the test ends. The
// API server asks the first one's webhook alone. Whether it waits for leadership is for configure to say.
func (r *Rig) Another(t testing.TB, name string, configure func(product.Config)) (*product.Controller, *proxy.Proxy) {
	t.Helper()
	at, err := product.FreeAddresses()
	require.NoError(t, err)
	controller, between, err := r.startController(t.Context(), name, at, Options{Proxied: true, Configure: configure})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, controller.Kill())
		require.NoError(t, between.Stop())
	})
	return controller, between
}

// Stop ends the still rig if there is one, the controller, then the control plane. A race that the detector found fails it.
func (r *Rig) Stop() error {
	var errs []error
	if r.still != nil {
		errs = append(errs, r.still.stop())
	}
	if r.Controller != nil {
		errs = append(errs, r.Controller.Stop())
	}
	if r.Proxy != nil {
		errs = append(errs, r.Proxy.Stop())
	}
	return errors.Join(append(errs, r.Down())...)
}

// patience is how long a scenario waits for a state. It is no measure of speed.
const patience = 4 * time.Minute

// WaitFor repeats an attempt until it returns nil, and fails the test with its last error when
// patience ends or a component has ended.
func (r *Rig) WaitFor(t testing.TB, what string, attempt func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		err := attempt(ctx)
		if err == nil {
			return
		}
		if died := r.Healthy(); died != nil {
			t.Fatalf("waiting for %s: %v", what, died)
		}
		select {
		case <-ctx.Done():
			t.Fatalf("waiting for %s: %v, last: %v", what, ctx.Err(), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
