package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/paceline/paceline/test/rig/process"
)

// ControlPlane is a running control plane.
type ControlPlane struct {
	Dir     string
	Version string

	// Group starts processes that end with this control plane's owner, such as Paceline itself.
	Group *process.Group

	paths     map[string]string // program to binary
	processes []*process.Process
	admin     *rest.Config
	client    *kubernetes.Clientset

	stopReaper context.CancelFunc // nil where it is a process of its own
}

// Up starts a control plane and returns when its API server is ready. Whatever was started ends
// again if it fails.
func Up(ctx context.Context, options Options) (_ *ControlPlane, err error) {
	options, err = options.withDefaults()
	if err != nil {
		return nil, err
	}
	paths, err := programs(ctx, options)
	if err != nil {
		return nil, err
	}
	plan, err := prepare(options)
	if err != nil {
		return nil, err
	}
	cp := &ControlPlane{Dir: options.Dir, Version: options.Version, paths: paths, Group: process.NewGroup(options.Detach)}
	defer func() {
		if err != nil {
			err = errors.Join(err, cp.Down())
		}
	}()
	if err := cp.start(plan.etcd(), plan.apiserver()); err != nil {
		return nil, err
	}
	if err := cp.connect(); err != nil {
		return nil, err
	}
	if err := cp.waitReady(ctx); err != nil {
		return nil, err
	}
	if err := cp.furnish(ctx, options.ClusterNodes); err != nil {
		return nil, err
	}
	if !options.Still {
		if err := cp.animate(ctx, plan); err != nil {
			return nil, err
		}
	}
	return cp, cp.writeEnvironment()
}

// animate starts all that acts on what is stored, and sees it act.
func (cp *ControlPlane) animate(ctx context.Context, plan layout) error {
	if err := cp.start(plan.manager(), plan.schedulerProcess(), plan.kubelets()); err != nil {
		return err
	}
	if err := cp.startReaper(ctx, plan); err != nil {
		return err
	}
	return cp.probe(ctx)
}

// prepare writes every file that the components read. A folder of a run that still stands is refused.
func prepare(options Options) (layout, error) {
	l := layout{Options: options}
	if records, err := readRecords(options.Dir); err == nil {
		for _, record := range records {
			if record.Alive() {
				return l, fmt.Errorf("%s has a running control plane (%s is process %d): take it down first", options.Dir, record.Name, record.PID)
			}
		}
	}
	for _, name := range []string{"etcd", "conf", "logs", "audit.log"} {
		if err := os.RemoveAll(filepath.Join(options.Dir, name)); err != nil {
			return l, fmt.Errorf("clearing an earlier run: %w", err)
		}
	}
	for _, name := range []string{"conf/apiserver", "logs", "bin"} {
		if err := os.MkdirAll(filepath.Join(options.Dir, name), 0o755); err != nil {
			return l, fmt.Errorf("making the rig's folder: %w", err)
		}
	}
	ports, err := FreePorts(3)
	if err != nil {
		return l, err
	}
	l.etcdPort, l.peerPort, l.port = ports[0], ports[1], ports[2]
	if l.certificates, err = writeCertificates(l.conf("pki")); err != nil {
		return l, err
	}
	if l.tokenFile, err = writeIdentities(options.Dir, l.server(), l.ca); err != nil {
		return l, err
	}
	return writeConfig(l)
}

func (cp *ControlPlane) start(components ...component) error {
	for _, c := range components {
		p, err := cp.Group.Start(process.Spec{
			Name: c.name, Path: cp.paths[c.program], Args: c.args, Env: c.env, LogFile: cp.LogFile(c.name),
		})
		if err != nil {
			return err
		}
		cp.processes = append(cp.processes, p)
		if err := cp.writeRecords(); err != nil {
			return err
		}
	}
	return nil
}

func (cp *ControlPlane) connect() error {
	config, err := clientcmd.BuildConfigFromFlags("", cp.Kubeconfig("admin"))
	if err != nil {
		return fmt.Errorf("reading the admin's kubeconfig: %w", err)
	}
	config.QPS, config.Burst = -1, -1
	cp.admin = config
	if cp.client, err = kubernetes.NewForConfig(config); err != nil {
		return fmt.Errorf("making the admin's client: %w", err)
	}
	return nil
}

// waitReady polls /readyz until it is "ok"; a failing answer contains that word too.
func (cp *ControlPlane) waitReady(ctx context.Context) error {
	return cp.poll(ctx, "kube-apiserver to be ready", func() error {
		body, err := cp.client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		if err == nil && string(body) != "ok" {
			err = fmt.Errorf("it answers %q", body)
		}
		return err
	})
}

// poll repeats an attempt until it succeeds, two minutes have passed or a component has ended.
func (cp *ControlPlane) poll(ctx context.Context, what string, attempt func() error) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		if err := cp.Healthy(); err != nil {
			return err
		}
		err := attempt()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s (see %s): %w, last: %w", what, filepath.Join(cp.Dir, "logs"), ctx.Err(), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Healthy returns an error if a component has ended.
func (cp *ControlPlane) Healthy() error {
	for _, p := range cp.processes {
		if !p.Running() {
			return fmt.Errorf("%s ended: %w\n%s", p.Name, p.Wait(), tail(p.LogFile))
		}
	}
	return nil
}

// Down ends the control plane's processes in the reverse order of their start, so etcd last, and
// waits for each.
func (cp *ControlPlane) Down() error {
	var errs []error
	if cp.stopReaper != nil {
		cp.stopReaper()
	}
	for i := len(cp.processes) - 1; i >= 0; i-- {
		errs = append(errs, cp.processes[i].Stop(stopGrace))
	}
	cp.processes = nil
	return errors.Join(append(errs, removeRecords(cp.Dir))...)
}

// AdminConfig is a client configuration with every right and no client-side request limit.
func (cp *ControlPlane) AdminConfig() *rest.Config { return rest.CopyConfig(cp.admin) }

// Client is the admin's client.
func (cp *ControlPlane) Client() kubernetes.Interface { return cp.client }

// Kubeconfig is the path of the kubeconfig file of "admin", "viewer" or "controller".
func (cp *ControlPlane) Kubeconfig(who string) string {
	return filepath.Join(cp.Dir, who+".kubeconfig")
}

// LogFile is the path of a process's log.
func (cp *ControlPlane) LogFile(name string) string {
	return filepath.Join(cp.Dir, "logs", name+".log")
}
