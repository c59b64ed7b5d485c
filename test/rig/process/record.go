package process

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Record identifies a process beyond the life of the one that started it. The start time (clock
// ticks since boot) tells it from a later process that was given the same id.
type Record struct {
	Name      string `json:"name"`
	PID       int    `json:"pid"`
	StartedAt string `json:"startedAt"`
}

// NewRecord describes a running process.
func NewRecord(name string, pid int) (Record, error) {
	_, startedAt, err := stat(pid)
	if err != nil {
		return Record{}, fmt.Errorf("describing %s: %w", name, err)
	}
	return Record{Name: name, PID: pid, StartedAt: startedAt}, nil
}

// Alive tells whether the recorded process still runs.
func (r Record) Alive() bool {
	state, startedAt, err := stat(r.PID)
	return err == nil && startedAt == r.StartedAt && state != "Z" && state != "X"
}

// Stop ends the recorded process with SIGTERM, after grace with SIGKILL, and waits until it is gone.
func (r Record) Stop(grace time.Duration) error {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if !r.Alive() {
			return nil
		}
		if err := syscall.Kill(r.PID, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("signalling %s (%d): %w", r.Name, r.PID, err)
		}
		for deadline := time.Now().Add(grace); r.Alive() && time.Now().Before(deadline); {
			time.Sleep(20 * time.Millisecond)
		}
	}
	if r.Alive() {
		return fmt.Errorf("%s (%d) does not end", r.Name, r.PID)
	}
	return nil
}

// stat reads state and start time from /proc. The command's name may hold spaces and brackets, so
// the fields are counted from its closing one.
func stat(pid int) (state, startedAt string, err error) {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", "", err
	}
	text := string(raw)
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 20 {
		return "", "", fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	return fields[0], fields[19], nil
}
