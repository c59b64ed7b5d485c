// Command mutants breaks the code in known ways, one small patch at a time, and checks that a test
// notices each. A patch starts with the lines
//
//	# invariant: what is broken
//	# module: . or test
//	# test: PACKAGE NAME
//
// and is applied to a copy of the tracked files. It prints a line a mutant and fails if one survives.
// Names as arguments run those alone: go run ./mutants holds-nothing
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, names []string) error {
	root, err := output(ctx, ".", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	root = strings.TrimSpace(root)
	patches, err := filepath.Glob(filepath.Join(root, "test/mutants/patches", "*.patch"))
	if err != nil || len(patches) == 0 {
		return fmt.Errorf("finding patches: %d found, %w", len(patches), err)
	}
	var survived []error
	for _, path := range patches {
		m, err := read(path)
		if err != nil {
			return err
		}
		if len(names) > 0 && !contains(names, m.name) {
			continue
		}
		if err := m.kill(ctx, root); err != nil {
			survived = append(survived, err)
			fmt.Printf("SURVIVED  %-36s %s: %v\n", m.name, m.invariant, err)
			continue
		}
		fmt.Printf("killed    %-36s by %s %s (%s)\n", m.name, m.pkg, m.test, m.invariant)
	}
	return errors.Join(survived...)
}

func contains(names []string, name string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return false
}

// mutant is one patch.
type mutant struct {
	path, name, invariant, module, pkg, test string
}

func read(path string) (mutant, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return mutant{}, fmt.Errorf("reading patch: %w", err)
	}
	m := mutant{path: path, name: strings.TrimSuffix(filepath.Base(path), ".patch")}
	for line := range strings.Lines(string(text)) {
		key, value, found := strings.Cut(strings.TrimSpace(strings.TrimPrefix(line, "# ")), ": ")
		if !strings.HasPrefix(line, "# ") || !found {
			break
		}
		switch key {
		case "invariant":
			m.invariant = value
		case "module":
			m.module = value
		case "test":
			m.pkg, m.test, _ = strings.Cut(value, " ")
		}
	}
	if m.invariant == "" || m.module == "" || m.pkg == "" || m.test == "" {
		return mutant{}, fmt.Errorf("patch %s: want the lines # invariant, # module and # test first", m.name)
	}
	return m, nil
}

// kill applies the mutant to a copy and returns nil if its test fails there.
func (m mutant) kill(ctx context.Context, root string) error {
	dir, err := os.MkdirTemp("", "mutant-")
	if err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // a folder left in the system's own place harms nobody
	if _, err := output(ctx, root, "sh", "-c", "git ls-files -z | tar --null -T - -cf - | tar -xf - -C "+dir); err != nil {
		return err
	}
	if _, err := output(ctx, dir, "git", "apply", "--unidiff-zero", m.path); err != nil {
		return fmt.Errorf("the patch does not apply any more: %w", err)
	}
	text, err := output(ctx, filepath.Join(dir, m.module), "go", "test", "-count=1", "-run", "^"+m.test+"$", m.pkg)
	switch {
	case err == nil:
		return fmt.Errorf("%s %s passes", m.pkg, m.test)
	case !strings.Contains(text, "--- FAIL: "):
		return fmt.Errorf("%s %s does not run: %w", m.pkg, m.test, err)
	}
	return nil
}

func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, tail(out.String()), tail(errs.String()))
	}
	return out.String(), nil
}

func tail(text string) string {
	const most = 2000
	return text[max(0, len(text)-most):]
}
