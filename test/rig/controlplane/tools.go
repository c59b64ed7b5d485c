package controlplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/paceline/paceline/test/rig/binary"
)

// programs returns where the binaries are, building those that are missing.
func programs(ctx context.Context, options Options) (map[string]string, error) {
	cache, err := binary.Open(options.Progress)
	if err != nil {
		return nil, err
	}
	var wanted []binary.Program
	for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"} {
		program, err := binary.Kubernetes(name, options.Version)
		if err != nil {
			return nil, err
		}
		wanted = append(wanted, program)
	}
	etcd, err1 := binary.Etcd()
	kwok, err2 := binary.Kwok()
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	wanted = append(wanted, etcd, kwok)
	for _, major := range options.HelmVersions {
		program, err := binary.Helm(major)
		if err != nil {
			return nil, err
		}
		wanted = append(wanted, program)
	}
	paths := map[string]string{}
	for _, program := range wanted {
		if paths[program.Name], err = cache.Path(ctx, program); err != nil {
			return nil, err
		}
	}
	if len(options.HelmVersions) > 0 {
		paths["helm"] = paths["helm"+options.HelmVersions[0]]
	}
	return paths, nil
}

// Build makes sure that every binary of such a control plane is in the cache.
func Build(ctx context.Context, options Options) error {
	options.Dir = "unused"
	options, err := options.withDefaults()
	if err != nil {
		return err
	}
	_, err = programs(ctx, options)
	return err
}

// writeEnvironment writes the people's tools into bin and a file to source: KUBECONFIG and PATH.
func (cp *ControlPlane) writeEnvironment() error {
	bin := filepath.Join(cp.Dir, "bin")
	for name, path := range cp.paths {
		if name != "kubectl" && !strings.HasPrefix(name, "helm") {
			continue
		}
		link := filepath.Join(bin, name)
		if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("replacing %s: %w", link, err)
		}
		if err := os.Symlink(path, link); err != nil {
			return fmt.Errorf("linking %s: %w", name, err)
		}
	}
	text := fmt.Sprintf("export KUBECONFIG='%s'\nexport PATH='%s':\"$PATH\"\n", cp.Kubeconfig("admin"), bin)
	for _, line := range cp.helmEnvironment() {
		name, value, _ := strings.Cut(line, "=")
		text += fmt.Sprintf("export %s='%s'\n", name, value)
	}
	if err := os.WriteFile(filepath.Join(cp.Dir, "env"), []byte(text), 0o644); err != nil {
		return fmt.Errorf("writing the environment file: %w", err)
	}
	return nil
}

// helmEnvironment keeps Helm out of the user's own folders.
func (cp *ControlPlane) helmEnvironment() []string {
	dir := filepath.Join(cp.Dir, "helm")
	return []string{
		"HELM_CACHE_HOME=" + filepath.Join(dir, "cache"),
		"HELM_CONFIG_HOME=" + filepath.Join(dir, "config"),
		"HELM_DATA_HOME=" + filepath.Join(dir, "data"),
	}
}

// Output is what a tool printed.
type Output struct {
	Stdout, Stderr string
}

// Kubectl runs kubectl as the admin. An error carries what it printed on standard error.
func (cp *ControlPlane) Kubectl(ctx context.Context, stdin string, args ...string) (Output, error) {
	return cp.run(ctx, "kubectl", stdin, args)
}

// KubectlAs runs kubectl with the kubeconfig of "admin", "viewer" or "controller".
func (cp *ControlPlane) KubectlAs(ctx context.Context, who, stdin string, args ...string) (Output, error) {
	return cp.run(ctx, "kubectl", stdin, append([]string{"--kubeconfig", cp.Kubeconfig(who)}, args...))
}

// Helm runs Helm of a major version ("3" or "4", which Options.HelmVersions must name) as the admin.
func (cp *ControlPlane) Helm(ctx context.Context, major string, args ...string) (Output, error) {
	return cp.run(ctx, "helm"+major, "", args)
}

func (cp *ControlPlane) run(ctx context.Context, program, stdin string, args []string) (Output, error) {
	path, ok := cp.paths[program]
	if !ok {
		return Output{}, fmt.Errorf("this control plane was started without %s", program)
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(append(os.Environ(), "KUBECONFIG="+cp.Kubeconfig("admin")), cp.helmEnvironment()...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	err := cmd.Run()
	output := Output{stdout.String(), stderr.String()}
	if err != nil {
		return output, fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, strings.TrimSpace(output.Stderr))
	}
	return output, nil
}
