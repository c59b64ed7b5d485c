package binary

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Cache holds built programs.
type Cache struct {
	Dir string
	// Progress receives one line for each build; nil keeps quiet.
	Progress io.Writer
}

// DefaultDir is ${PACELINE_CACHE}, else paceline in the user's cache folder.
func DefaultDir() (string, error) {
	if dir := os.Getenv("PACELINE_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the cache folder (set PACELINE_CACHE): %w", err)
	}
	return filepath.Join(dir, "paceline"), nil
}

// Open returns the cache in DefaultDir.
func Open(progress io.Writer) (*Cache, error) {
	dir, err := DefaultDir()
	if err != nil {
		return nil, err
	}
	return &Cache{Dir: dir, Progress: progress}, nil
}

// Path returns where the program is, building it first if need be. Two processes that want the
// same program build it once.
func (c *Cache) Path(ctx context.Context, p Program) (string, error) {
	key, err := p.key()
	if err != nil {
		return "", err
	}
	path := filepath.Join(c.Dir, "bin", p.Name+"-"+p.Version+"-"+key)
	if exists(path) {
		return path, nil
	}
	unlock, err := c.Lock(filepath.Base(path))
	if err != nil {
		return "", err
	}
	defer unlock()
	if exists(path) {
		return path, nil
	}
	return path, c.build(ctx, p, path)
}

func (c *Cache) build(ctx context.Context, p Program, path string) error {
	c.say("building %s %s (about %s the first time)", p.Name, p.Version, p.about)
	started := time.Now()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("making the cache folder: %w", err)
	}
	half := fmt.Sprintf("%s.%d.tmp", path, os.Getpid())
	defer func() { _ = os.Remove(half) }()
	cmd := exec.CommandContext(ctx, "go", append(p.flags(), "-o", half, p.pkg)...)
	cmd.Dir = p.module
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("building %s %s: %w\n%s", p.Name, p.Version, err, output.Bytes())
	}
	if err := os.Rename(half, path); err != nil {
		return fmt.Errorf("storing %s: %w", p.Name, err)
	}
	c.say("built %s %s in %s", p.Name, p.Version, time.Since(started).Round(time.Second))
	return nil
}

// Lock holds a named file lock until unlock is called. The kernel drops it when the holder dies.
func (c *Cache) Lock(name string) (unlock func(), err error) {
	dir := filepath.Join(c.Dir, "lock")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("making the lock folder: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening a build lock: %w", err)
	}
	if err := flock(file, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		c.say("waiting for another build of %s", name)
		if err := flock(file, syscall.LOCK_EX); err != nil {
			return nil, errors.Join(fmt.Errorf("taking a build lock: %w", err), file.Close())
		}
	}
	return func() { _ = file.Close() }, nil
}

func flock(file *os.File, how int) error {
	for {
		err := syscall.Flock(int(file.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

func (c *Cache) say(format string, args ...any) {
	if c.Progress != nil {
		_, _ = fmt.Fprintf(c.Progress, format+"\n", args...)
	}
}

func (p Program) flags() []string {
	return []string{"build", "-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags", strings.TrimSpace("-s -w " + p.ldflags)}
}

// key changes with everything that changes the program.
func (p Program) key() (string, error) {
	sum := sha256.New()
	for _, name := range []string{"go.mod", "go.sum"} {
		raw, err := os.ReadFile(filepath.Join(p.module, name))
		if err != nil {
			return "", fmt.Errorf("reading a build module: %w", err)
		}
		sum.Write(raw)
	}
	_, _ = fmt.Fprint(sum, p.pkg, p.flags(), runtime.GOOS, runtime.GOARCH)
	return hex.EncodeToString(sum.Sum(nil))[:12], nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
