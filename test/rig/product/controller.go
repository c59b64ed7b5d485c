package product

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/paceline/paceline/test/rig/controlplane"
	"github.com/paceline/paceline/test/rig/process"
)

// ControllerOptions say how a controller is started.
type ControllerOptions struct {
	// Name tells two controllers' logs apart. Default "paceline".
	Name string
	// Binary is what Build returned. Required.
	Binary string
	// ConfigFile is what Config.Write wrote. Required.
	ConfigFile string
	// Addresses are those in ConfigFile.
	Addresses Addresses
	// Kubeconfig leads to the API server. Default: the rig's, with the chart's account.
	Kubeconfig string
	ExtraArgs  []string
	ExtraEnv   []string
	// NoWait returns from StartController before the controller is ready.
	NoWait bool
}

// Controller is a running Paceline, which can be killed and started again.
type Controller struct {
	options ControllerOptions
	cp      *controlplane.ControlPlane
	spec    process.Spec

	mu      sync.Mutex
	process *process.Process
}

// StartController runs `paceline controller` with the chart's account and waits until it is ready.
func StartController(ctx context.Context, cp *controlplane.ControlPlane, options ControllerOptions) (*Controller, error) {
	if options.Name == "" {
		options.Name = "paceline"
	}
	if options.Kubeconfig == "" {
		options.Kubeconfig = cp.Kubeconfig("controller")
	}
	args := []string{
		"controller", "--config", options.ConfigFile,
		"--kubeconfig", options.Kubeconfig, "--namespace", controlplane.Namespace,
	}
	c := &Controller{options: options, cp: cp, spec: process.Spec{
		Name: options.Name, Path: options.Binary, Args: append(args, options.ExtraArgs...),
		Env: options.ExtraEnv, LogFile: cp.LogFile(options.Name),
	}}
	if err := c.start(); err != nil {
		return nil, err
	}
	if options.NoWait {
		return c, nil
	}
	if err := c.WaitReady(ctx); err != nil {
		return nil, errors.Join(err, c.Kill())
	}
	return c, nil
}

func (c *Controller) start() error {
	p, err := c.cp.Group.Start(c.spec)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.process = p
	return nil
}

// Process is the present process.
func (c *Controller) Process() *process.Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.process
}

// Addresses are where it listens.
func (c *Controller) Addresses() Addresses { return c.options.Addresses }

// LogFile is where it logs; starting again appends.
func (c *Controller) LogFile() string { return c.spec.LogFile }

// WaitReady waits until /readyz answers 200; it fails if the process ends or a minute has passed.
func (c *Controller) WaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		err := c.ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-c.Process().Done():
			return fmt.Errorf("%s ended before it was ready: %w\n%s", c.options.Name, c.Process().Wait(), c.logTail())
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s to be ready: %w\n%s", c.options.Name, err, c.logTail())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (c *Controller) ready(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.options.Addresses.HealthURL("/readyz"), nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("/readyz answers %s: %s", response.Status, body)
	}
	return nil
}

// Kill ends it with SIGKILL.
func (c *Controller) Kill() error { return c.Process().Kill() }

// Stop ends it with SIGTERM and waits.
func (c *Controller) Stop() error { return c.Process().Stop(30 * time.Second) }

// Wait returns how it ended.
func (c *Controller) Wait() error { return c.Process().Wait() }

// Restart starts it again after Kill or Stop (killing it if it still runs) and waits until it is ready.
func (c *Controller) Restart(ctx context.Context) error {
	if err := c.Kill(); err != nil {
		return err
	}
	if err := c.start(); err != nil {
		return err
	}
	return c.WaitReady(ctx)
}

func (c *Controller) logTail() string {
	raw, err := os.ReadFile(c.LogFile())
	if err != nil {
		return err.Error()
	}
	const most = 4000
	return string(raw[max(0, len(raw)-most):])
}
