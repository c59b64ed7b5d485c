package node

import (
	"fmt"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/labels"
)

// Gate says how a paced change is kept from a node without a slot.
type Gate string

const (
	// GateNative lets the wish stand in the template and holds the pods by the partition field.
	GateNative Gate = "native"
	// GatePin pins the template's paced fields.
	GatePin Gate = "pin"
)

// Cell is what a namespace says of its pacing.
type Cell struct {
	// Enabled reports the label paceline.io/pacing=enabled.
	Enabled bool
	// Percent is the budget, 0 to 100. 0: nothing is held.
	Percent int
	// Frozen: nothing is granted.
	Frozen bool
	Pace   Pace
	Gate   Gate
	// Terminating: the namespace is being deleted; nothing can be created in it any more.
	Terminating bool
}

// Paces reports that changes in this cell are held at all.
func (c Cell) Paces() bool { return c.Enabled && c.Percent > 0 }

// ParseCell reads a namespace's labels and annotations over the configuration file's defaults. A bad
// value leaves the default in force and is named in the returned errors.
func ParseCell(labels, annotations map[string]string, defaults Cell) (Cell, []error) {
	cell := defaults
	cell.Enabled = labels[LabelPacing] == PacingEnabled
	var problems []error
	if value, ok := annotations[AnnotationBudget]; ok {
		if percent, err := ParsePercent(value); err != nil {
			problems = append(problems, fmt.Errorf("annotation %s: %w", AnnotationBudget, err))
		} else {
			cell.Percent = percent
		}
	}
	switch value := annotations[AnnotationFreeze]; value {
	case "true":
		cell.Frozen = true
	case "", "false":
	default:
		problems = append(problems, fmt.Errorf("annotation %s: %q: want true or false", AnnotationFreeze, value))
	}
	switch value := Pace(annotations[AnnotationPace]); value {
	case PaceImages, PaceTemplate:
		cell.Pace = value
	case "":
	default:
		problems = append(problems, fmt.Errorf("annotation %s: %q: want images or template", AnnotationPace, value))
	}
	switch value := Gate(annotations[AnnotationGate]); value {
	case GateNative, GatePin:
		cell.Gate = value
	case "":
	default:
		problems = append(problems, fmt.Errorf("annotation %s: %q: want native or pin", AnnotationGate, value))
	}
	return cell, problems
}

// ParsePercent reads an integer from 0 to 100 written in digits alone.
func ParsePercent(value string) (int, error) {
	percent, err := strconv.ParseUint(value, 10, 8)
	if err != nil || percent > 100 {
		return 0, fmt.Errorf("%q: want an integer from 0 to 100, digits only", value)
	}
	return int(percent), nil
}

// Scope is what the configuration file says of where Paceline acts.
type Scope struct {
	// Defaults holds for cells that say nothing of their own.
	Defaults Cell
	// Selector narrows the StatefulSets that are nodes; nil: all.
	Selector labels.Selector
	// Namespaces narrows the namespaces that can be cells; empty: all.
	Namespaces []string
}

// Cell reads a namespace within the scope. A namespace outside it is no cell.
func (s Scope) Cell(namespace string, nsLabels, annotations map[string]string) (Cell, []error) {
	cell, problems := ParseCell(nsLabels, annotations, s.Defaults)
	if len(s.Namespaces) > 0 && !slices.Contains(s.Namespaces, namespace) {
		cell.Enabled = false
	}
	return cell, problems
}

// Includes reports whether a StatefulSet with these labels, in a cell, is a node.
func (s Scope) Includes(setLabels map[string]string) bool {
	if setLabels[LabelPacing] == PacingDisabled {
		return false
	}
	return s.Selector == nil || s.Selector.Matches(labels.Set(setLabels))
}
