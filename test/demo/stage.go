package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/paceline/paceline/test/rig/controlplane"
	"github.com/paceline/paceline/test/rig/product"
)

// stage is a control plane with Paceline on it, in a folder of its own.
type stage struct {
	*controlplane.ControlPlane
	controller *product.Controller
	dir        string
}

// openStage builds what is missing, starts the control plane, installs the chart and starts the
// controller under the chart's account. What was started ends again if it fails.
func openStage(ctx context.Context, opts options, log *log) (_ *stage, err error) {
	s := &stage{}
	if s.dir, err = os.MkdirTemp("", "paceline-demo-"); err != nil {
		return nil, fmt.Errorf("making the demo's folder: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close(opts.keep || ctx.Err() == nil, log.out))
		}
	}()
	log.say("building Paceline")
	// Before the control plane starts: a long build would starve it.
	binary, err := product.Build(ctx, "paceline", filepath.Join(s.dir, "bin"), false)
	if err != nil {
		return nil, err
	}
	log.say("starting etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok, which plays the kubelets")
	s.ControlPlane, err = controlplane.Up(ctx, controlplane.Options{Dir: s.dir, ReadyAfter: readyAfter, Progress: log})
	if err != nil {
		return nil, err
	}
	log.say("Kubernetes %s is up; installing the chart with Helm and starting the controller", s.Version)
	return s, s.install(ctx, binary, opts.verbose)
}

func (s *stage) install(ctx context.Context, binary string, verbose bool) error {
	addresses, err := product.FreeAddresses()
	if err != nil {
		return err
	}
	if err := product.InstallChart(ctx, s.ControlPlane, addresses, product.ChartOptions{}); err != nil {
		return err
	}
	file := filepath.Join(s.dir, "conf", "paceline.yaml")
	if err := product.NewConfig(addresses).Write(file); err != nil {
		return err
	}
	options := product.ControllerOptions{Binary: binary, ConfigFile: file, Addresses: addresses}
	if verbose {
		options.ExtraArgs = []string{"--verbose"}
	}
	s.controller, err = product.StartController(ctx, s.ControlPlane, options)
	return err
}

// healthy returns an error if a process of the stage has ended.
func (s *stage) healthy() error {
	if !s.controller.Process().Running() {
		return fmt.Errorf("the controller ended, see %s: %w", s.controller.LogFile(), s.controller.Wait())
	}
	return s.Healthy()
}

// close ends the controller and the control plane, and removes the folder unless it is to be kept.
func (s *stage) close(keep bool, out io.Writer) error {
	var errs []error
	if s.controller != nil {
		errs = append(errs, s.controller.Stop())
	}
	if s.ControlPlane != nil {
		errs = append(errs, s.Down())
	}
	if keep {
		fmt.Fprintln(out, "demo: the logs are in", filepath.Join(s.dir, "logs"))
	} else if err := os.RemoveAll(s.dir); err != nil {
		errs = append(errs, fmt.Errorf("removing the demo's folder: %w", err))
	}
	return errors.Join(errs...)
}
