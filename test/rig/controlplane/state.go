package controlplane

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/paceline/paceline/test/rig/process"
)

const stopGrace = 20 * time.Second

func recordsFile(dir string) string { return filepath.Join(dir, "processes.json") }

// writeRecords notes the processes for a later Down by folder.
func (cp *ControlPlane) writeRecords() error {
	var records []process.Record
	for _, p := range cp.processes {
		records = append(records, p.Record)
	}
	raw, err := json.MarshalIndent(records, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the process list: %w", err)
	}
	if err := os.WriteFile(recordsFile(cp.Dir), append(raw, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing the process list: %w", err)
	}
	return nil
}

func readRecords(dir string) ([]process.Record, error) {
	raw, err := os.ReadFile(recordsFile(dir))
	if err != nil {
		return nil, fmt.Errorf("reading the process list: %w", err)
	}
	var records []process.Record
	if err := json.Unmarshal(raw, &records); err != nil {
		return nil, fmt.Errorf("decoding %s: %w", recordsFile(dir), err)
	}
	return records, nil
}

func removeRecords(dir string) error {
	if err := os.Remove(recordsFile(dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the process list: %w", err)
	}
	return nil
}

// Down ends the detached control plane in a folder: exactly the processes that Up noted there.
func Down(dir string) error {
	records, err := readRecords(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("no control plane in %s", dir)
	}
	if err != nil {
		return err
	}
	var errs []error
	for i := len(records) - 1; i >= 0; i-- {
		errs = append(errs, records[i].Stop(stopGrace))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return removeRecords(dir)
}

// tail is the end of a log, for an error message.
func tail(path string) string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	const most = 2000
	if len(raw) > most {
		raw = raw[len(raw)-most:]
	}
	return string(raw)
}
