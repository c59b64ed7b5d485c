package controlplane

import (
	"bytes"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"text/template"
)

//go:embed config/*.yaml
var configFiles embed.FS

// writeConfig renders the components' configuration files into the rig's folder.
func writeConfig(l layout) (layout, error) {
	l.stages, l.scheduler, l.policy = l.conf("stages.yaml"), l.conf("scheduler.yaml"), l.conf("audit-policy.yaml")
	values := map[string]any{
		"ReadyAfterMilliseconds": l.ReadyAfter.Milliseconds(),
		"SchedulerKubeconfig":    l.conf("kube-scheduler.kubeconfig"),
	}
	for _, path := range []string{l.stages, l.scheduler, l.policy} {
		raw, err := configFiles.ReadFile("config/" + filepath.Base(path))
		if err != nil {
			return l, fmt.Errorf("reading a configuration template: %w", err)
		}
		// kwok's own templates are full of {{ }}.
		text, err := template.New(path).Delims("<<", ">>").Option("missingkey=error").Parse(string(raw))
		if err != nil {
			return l, fmt.Errorf("parsing a configuration template: %w", err)
		}
		var out bytes.Buffer
		if err := text.Execute(&out, values); err != nil {
			return l, fmt.Errorf("rendering a configuration: %w", err)
		}
		if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
			return l, fmt.Errorf("writing a configuration: %w", err)
		}
	}
	return l, nil
}
