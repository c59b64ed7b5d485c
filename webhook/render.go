package webhook

import (
	"errors"
	"fmt"
	"reflect"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/paceline/paceline/node"
)

// render turns a pod that was made of one revision into one of another: the difference of the two templates is
// applied to it, so what was added to the pod since (claims, injected containers and tokens, labels of the
// StatefulSet controller) stays. Not the images alone: an old binary does not run with new arguments.
func render(pod []byte, made, ran *appsv1.ControllerRevision) (map[string]any, error) {
	from, err := recordedTemplate(made)
	if err != nil {
		return nil, err
	}
	to, err := recordedTemplate(ran)
	if err != nil {
		return nil, err
	}
	var object map[string]any
	if err := json.Unmarshal(pod, &object); err != nil {
		return nil, fmt.Errorf("reading pod: %w", err)
	}
	forgetComputed(object, from, to)
	restoreLists(object, from, to)
	fillLists(from, to)
	change, err := strategicpatch.CreateTwoWayMergeMapPatch(from, to, corev1.PodTemplateSpec{})
	if err != nil {
		return nil, fmt.Errorf("comparing revisions %s and %s: %w", made.Name, ran.Name, err)
	}
	rendered, err := strategicpatch.StrategicMergeMapPatch(object, change, corev1.Pod{})
	if err != nil {
		return nil, fmt.Errorf("rendering revision %s: %w", ran.Name, err)
	}
	if err := unstructured.SetNestedField(rendered, ran.Name, "metadata", "labels", node.LabelRevision); err != nil {
		return nil, fmt.Errorf("labelling the pod: %w", err)
	}
	return rendered, nil
}

var errNoTemplate = errors.New("it has no spec.template")

// recordedTemplate returns the pod template of a ControllerRevision, without the directive that it carries.
func recordedTemplate(revision *appsv1.ControllerRevision) (map[string]any, error) {
	var data struct {
		Spec struct {
			Template map[string]any `json:"template"`
		} `json:"spec"`
	}
	err := json.Unmarshal(revision.Data.Raw, &data)
	if err == nil && len(data.Spec.Template) == 0 {
		err = errNoTemplate
	}
	if err != nil {
		return nil, fmt.Errorf("reading ControllerRevision %s: %w", revision.Name, err)
	}
	delete(data.Spec.Template, "$patch")
	return data.Spec.Template, nil
}

// forgetComputed takes off the pod what the API server worked out from a field that is about to change, and would
// refuse if it differed: it then works it out anew.
func forgetComputed(pod, from, to map[string]any) {
	spec, before, after := child(pod, "spec"), child(from, "spec"), child(to, "spec")
	for source, fields := range map[string][]string{
		"priorityClassName": {"priority", "preemptionPolicy"},
		"runtimeClassName":  {"overhead"},
	} {
		for _, field := range fields {
			if !reflect.DeepEqual(before[source], after[source]) {
				delete(spec, field)
			}
		}
	}
}

// restoreLists does what a strategic merge cannot: it replaces some lists whole, and knows the entries of others by a
// key that two of them may share (a port of both TCP and UDP). Such a list becomes what ran, followed by what was
// added to the pod's since.
func restoreLists(pod, from, to map[string]any) {
	spec, before, after := child(pod, "spec"), child(from, "spec"), child(to, "spec")
	restoreList(spec, before, after, "tolerations", []string{"key", "operator", "value", "effect", "tolerationSeconds"})
	restoreList(spec, before, after, "topologySpreadConstraints", []string{"topologyKey", "whenUnsatisfiable"})
	for _, kind := range []string{"containers", "initContainers"} {
		made, ran := byName(before[kind]), byName(after[kind])
		for name, container := range byName(spec[kind]) {
			if made[name] != nil && ran[name] != nil {
				restoreList(container, made[name], ran[name], "ports", []string{"containerPort", "protocol"}, []string{"name"})
			}
		}
	}
}

// restoreList restores one list. Entries are the same where they agree in all fields of one of the keys.
func restoreList(pod, from, to map[string]any, field string, keys ...[]string) {
	made, _ := from[field].([]any)
	ran, _ := to[field].([]any)
	delete(from, field)
	delete(to, field)
	if reflect.DeepEqual(made, ran) {
		return
	}
	has, _ := pod[field].([]any)
	list := append([]any{}, ran...)
	for _, entry := range has {
		if !holds(made, entry, keys) && !holds(ran, entry, keys) {
			list = append(list, entry)
		}
	}
	pod[field] = list
}

func holds(list []any, entry any, keys [][]string) bool {
	fields, _ := entry.(map[string]any)
	for _, other := range list {
		others, _ := other.(map[string]any)
		for _, key := range keys {
			if agree(fields, others, key) {
				return true
			}
		}
	}
	return false
}

// agree reports entries that state at least one of the fields, and the same in all of them.
func agree(a, b map[string]any, fields []string) bool {
	stated := false
	for _, field := range fields {
		if !reflect.DeepEqual(a[field], b[field]) {
			return false
		}
		stated = stated || a[field] != nil
	}
	return stated
}

// fillLists writes the lists and maps that only one of the templates has into the other, empty: a merge then takes
// off each entry of them, not the whole with all that was added to the pod since (claims, tokens, variables).
func fillLists(from, to map[string]any) {
	fill(child(from, "metadata"), child(to, "metadata"), "annotations", map[string]any{})
	before, after := child(from, "spec"), child(to, "spec")
	fill(before, after, "nodeSelector", map[string]any{})
	for _, list := range []string{"volumes", "initContainers", "imagePullSecrets", "hostAliases"} {
		fill(before, after, list, []any{})
	}
	for _, kind := range []string{"containers", "initContainers"} {
		ran := byName(after[kind])
		for name, container := range byName(before[kind]) {
			for _, list := range []string{"env", "volumeMounts", "volumeDevices"} {
				fill(container, ran[name], list, []any{})
			}
		}
	}
}

func fill(from, to map[string]any, field string, empty any) {
	if from != nil && to != nil && from[field] != nil && to[field] == nil {
		to[field] = empty
	}
}

func child(object map[string]any, field string) map[string]any {
	value, _ := object[field].(map[string]any)
	return value
}

func byName(list any) map[string]map[string]any {
	named := map[string]map[string]any{}
	entries, _ := list.([]any)
	for _, entry := range entries {
		if object, ok := entry.(map[string]any); ok {
			if name, ok := object["name"].(string); ok {
				named[name] = object
			}
		}
	}
	return named
}
