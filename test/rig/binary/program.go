package binary

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
)

// Program is one binary that the rig can build.
type Program struct {
	Name    string
	Version string // with the leading v

	pkg     string // import path of the main package
	module  string // folder of the build module
	ldflags string
	about   string // how long a cold build takes on two cores
}

// Kubernetes returns a program of the Kubernetes release: kube-apiserver,
// kube-controller-manager, kube-scheduler or kubectl. Its build module is the one that pins that
// version.
func Kubernetes(name, version string) (Program, error) {
	version = "v" + strings.TrimPrefix(version, "v")
	module, err := moduleThatRequires("k8s.io/kubernetes", version)
	if err != nil {
		return Program{}, err
	}
	about := map[string]string{"kube-apiserver": "4 min", "kube-controller-manager": "70 s"}[name]
	if about == "" {
		about = "20 s"
	}
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	const x = "-X k8s.io/component-base/version."
	return Program{
		Name: name, Version: version, pkg: "k8s.io/kubernetes/cmd/" + name, module: module, about: about,
		ldflags: fmt.Sprintf("%sgitVersion=%s %sgitMajor=%s %sgitMinor=%s", x, version, x, parts[0], x, parts[1]),
	}, nil
}

// Etcd returns etcd's server.
func Etcd() (Program, error) {
	return pinned("etcd", "etcd", "go.etcd.io/etcd/server/v3", "", "", "20 s")
}

// Kwok returns the program that plays the kubelets.
func Kwok() (Program, error) {
	return pinned("kwok", "kwok", "sigs.k8s.io/kwok", "/cmd/kwok", "-X sigs.k8s.io/kwok/pkg/consts.Version=%s", "1 min")
}

// Helm returns Helm of a major version: "3" or "4".
func Helm(major string) (Program, error) {
	module := "helm.sh/helm/v" + major
	return pinned("helm"+major, "helm"+major, module, "/cmd/helm", "-X "+module+"/internal/version.version=%s", "90 s")
}

// pinned describes a program whose version its own build module decides.
func pinned(name, folder, module, pkg, ldflags, about string) (Program, error) {
	root, err := buildRoot()
	if err != nil {
		return Program{}, err
	}
	dir := filepath.Join(root, folder)
	version, err := requiredVersion(dir, module)
	if err != nil {
		return Program{}, err
	}
	if ldflags != "" {
		ldflags = fmt.Sprintf(ldflags, version)
	}
	return Program{Name: name, Version: version, pkg: module + pkg, module: dir, ldflags: ldflags, about: about}, nil
}

func moduleThatRequires(module, version string) (string, error) {
	root, err := buildRoot()
	if err != nil {
		return "", err
	}
	dirs, err := filepath.Glob(filepath.Join(root, "kubernetes*"))
	if err != nil {
		return "", fmt.Errorf("listing build modules: %w", err)
	}
	var have []string
	for _, dir := range dirs {
		got, err := requiredVersion(dir, module)
		if err != nil {
			return "", err
		}
		if got == version {
			return dir, nil
		}
		have = append(have, got)
	}
	return "", fmt.Errorf("no build module for %s %s: want one of %s", module, version, strings.Join(have, ", "))
}

func requiredVersion(dir, module string) (string, error) {
	raw, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return "", fmt.Errorf("reading a build module: %w", err)
	}
	match := regexp.MustCompile(`(?m)^(?:require)?\s*` + regexp.QuoteMeta(module) + ` (v\S+)`).FindSubmatch(raw)
	if match == nil {
		return "", fmt.Errorf("%s/go.mod does not require %s", dir, module)
	}
	return string(match[1]), nil
}

// SourceRoot is the root of the repository that this program was compiled from.
func SourceRoot() (string, error) {
	_, file, _, ok := runtime.Caller(0)
	root := filepath.Join(filepath.Dir(file), "..", "..", "..")
	if _, err := os.Stat(filepath.Join(root, "go.mod")); !ok || err != nil {
		return "", fmt.Errorf("finding the sources (the rig runs from a checkout, built without -trimpath): %w", err)
	}
	return root, nil
}

func buildRoot() (string, error) {
	root, err := SourceRoot()
	return filepath.Join(root, "test", "rig", "build"), err
}
