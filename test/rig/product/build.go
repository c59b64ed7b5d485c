package product

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/paceline/paceline/test/rig/binary"
)

// Build compiles a command of this repository (such as "paceline") into a folder and returns the
// binary's path. With race it has the race detector, which needs a C compiler. Builds take turns: two
// at once would compile the same packages twice.
func Build(ctx context.Context, command, dir string, race bool) (string, error) {
	root, err := binary.SourceRoot()
	if err != nil {
		return "", err
	}
	path, err := filepath.Abs(filepath.Join(dir, command))
	if err != nil {
		return "", fmt.Errorf("building %s: %w", command, err)
	}
	cache, err := binary.Open(os.Stderr)
	if err != nil {
		return "", err
	}
	unlock, err := cache.Lock("build-" + command)
	if err != nil {
		return "", err
	}
	defer unlock()
	args := []string{"build", "-buildvcs=false", "-o", path}
	env := append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	if race {
		args = append(args, "-race")
		env = append(env, "CGO_ENABLED=1")
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "./cmd/"+command)...)
	cmd.Dir, cmd.Env = root, env
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", command, err, output)
	}
	return path, nil
}
