package node_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/paceline/paceline/"

// allowed says which of our packages each may depend on, directly or through others: imports flow one
// way. A package stands for those below it too; one that is not listed is a new noun: say here where
// it stands.
func allowed() map[string][]string {
	return map[string][]string{
		"node":                 {},
		"lease":                {"node"},
		"webhook":              {"lease", "node"},
		"webhook/webhooktest":  {"webhook", "lease", "node"},
		"planner":              {"lease", "node"},
		"certs":                {},
		"sidecar":              {},
		"tomlpatch":            {},
		"cmd/paceline/config":  {},
		"cmd/paceline":         {"cmd/paceline/config", "certs", "planner", "webhook", "lease", "node", "sidecar", "tomlpatch"},
		"cmd/kubectl-paceline": {"lease", "node"},
	}
}

func TestImportsFlowOneWay(t *testing.T) {
	t.Parallel()
	rules := allowed()
	names := make([]string, 0, len(rules))
	for name := range rules {
		names = append(names, name)
	}
	ruled := func(path string) string { // the longest rule that covers a package
		found := ""
		for _, name := range names {
			if (path == name || strings.HasPrefix(path, name+"/")) && len(name) > len(found) {
				found = name
			}
		}
		return found
	}
	packages := list(t)
	require.NotEmpty(t, packages)
	for _, p := range packages {
		own := strings.TrimPrefix(p.ImportPath, module)
		rule := ruled(own)
		require.NotEmpty(t, rule, "%s: no rule says where it stands", own)
		for _, dependency := range p.Deps {
			path, ours := strings.CutPrefix(dependency, module)
			if !ours || ruled(path) == rule {
				continue
			}
			require.Contains(t, rules[rule], ruled(path), "%s depends on %s: imports flow node <- lease <- {webhook, planner} <- cmd", own, path)
		}
	}
}

// What needs a real API server is a module of its own, so that those who import Paceline get none of it.
func TestModuleStaysSlim(t *testing.T) {
	t.Parallel()
	var mod struct {
		Replace []json.RawMessage
		Require []struct{ Path string }
	}
	text := run(t, "mod", "edit", "-json")
	_, err := os.ReadFile(filepath.Join("..", "go.mod"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &mod))
	require.Empty(t, mod.Replace, "go install of a module with replace lines fails")
	for _, required := range mod.Require {
		for _, banned := range []string{"k8s.io/kubernetes", "helm.sh/helm", "sigs.k8s.io/kwok", "go.etcd.io/etcd"} {
			require.False(t, required.Path == banned || strings.HasPrefix(required.Path, banned+"/"), "go.mod requires %s", required.Path)
		}
	}
	_, err = os.Stat(filepath.Join("..", "go.work"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// Test helpers are for tests.
func TestNoProductImportsTestHelpers(t *testing.T) {
	t.Parallel()
	for _, p := range list(t) {
		for _, helper := range []string{module + "webhook/webhooktest", module + "node/nodetest", "testing", "net/http/httptest", "github.com/stretchr/testify/require"} {
			require.False(t, slices.Contains(p.Imports, helper), "%s imports %s", p.ImportPath, helper)
		}
	}
}

type goPackage struct {
	ImportPath, Dir string
	Imports, Deps   []string
}

// list asks go list. Each folder is read as well, so that a cached result of these tests is not taken
// for that of other sources.
func list(t *testing.T) []goPackage {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(string(run(t, "list", "-json=ImportPath,Dir,Imports,Deps", "./..."))))
	packages := []goPackage{}
	see(t, "..")
	for {
		var p goPackage
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages
		}
		require.NoError(t, err)
		see(t, p.Dir)
		packages = append(packages, p)
	}
}

func see(t *testing.T, dir string) {
	t.Helper()
	_, err := os.ReadDir(dir)
	require.NoError(t, err)
}

func run(t *testing.T, args ...string) []byte {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", args...)
	command.Dir = ".."
	command.Env = append(os.Environ(), "GOWORK=off")
	out, err := command.Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		require.NoError(t, err, "%s", failed.Stderr)
	}
	require.NoError(t, err)
	return out
}
