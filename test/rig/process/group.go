package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Spec says what to run.
type Spec struct {
	Name string
	Path string
	Args []string
	// Env is added to the environment of the starting process.
	Env []string
	// LogFile receives standard output and standard error; it is appended to.
	LogFile string
}

// Group starts processes that share one fate. Unless it is detached, each of them dies with the
// process that started it, even when that one is killed.
type Group struct {
	detached bool
	starts   chan func()
}

// NewGroup returns a group. A detached group's processes outlive the caller.
func NewGroup(detached bool) *Group {
	g := &Group{detached: detached, starts: make(chan func())}
	go g.serve()
	return g
}

// serve runs every start on one thread that lives as long as the program: the kernel sends the
// parent-death signal when the starting thread ends, not when the starting process does.
func (g *Group) serve() {
	runtime.LockOSThread()
	for start := range g.starts {
		start()
	}
}

// Start runs a process.
func (g *Group) Start(spec Spec) (*Process, error) {
	logFile, err := os.OpenFile(spec.LogFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", spec.Name, err)
	}
	defer func() { _ = logFile.Close() }()

	cmd := exec.Command(spec.Path, spec.Args...)
	cmd.Env = append(os.Environ(), spec.Env...)
	cmd.Stdout, cmd.Stderr = logFile, logFile
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: g.detached, Setpgid: !g.detached}
	if !g.detached {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}

	started := make(chan error, 1)
	g.starts <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", spec.Name, err)
	}
	record, err := NewRecord(spec.Name, cmd.Process.Pid)
	if err != nil {
		_ = cmd.Process.Kill()
		return nil, errors.Join(err, cmd.Wait())
	}
	p := &Process{Record: record, LogFile: spec.LogFile, cmd: cmd, done: make(chan struct{})}
	go p.reap()
	return p, nil
}

// Process is a running or ended process of this program.
type Process struct {
	Record
	LogFile string

	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

func (p *Process) reap() {
	p.err = p.cmd.Wait()
	close(p.done)
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait blocks until the process has ended and returns how: nil, or an *exec.ExitError.
func (p *Process) Wait() error {
	<-p.done
	return p.err
}

// Running tells whether the process has not ended yet.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Kill ends the process with SIGKILL and waits until it has ended.
func (p *Process) Kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("killing %s: %w", p.Name, err)
	}
	<-p.done
	return nil
}

// Signal sends a signal, such as SIGSTOP.
func (p *Process) Signal(signal syscall.Signal) error {
	if err := p.cmd.Process.Signal(signal); err != nil {
		return fmt.Errorf("sending %s to %s: %w", signal, p.Name, err)
	}
	return nil
}

// Stop asks the process to end with SIGTERM, waits for grace, then kills it.
func (p *Process) Stop(grace time.Duration) error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping %s: %w", p.Name, err)
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(grace):
		return errors.Join(fmt.Errorf("%s outlived SIGTERM by %s", p.Name, grace), p.Kill())
	}
}
