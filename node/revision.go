package node

import (
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
)

// PacedOfRevision reads the paced fields of a StatefulSet's ControllerRevision. A pod's paced fields
// are always those of the ControllerRevision that its controller-revision-hash label names, never
// those of pod.spec: injected sidecars, tolerations and image mirrors make that differ for every pod.
func PacedOfRevision(revision *appsv1.ControllerRevision) (Paced, error) {
	var data struct {
		Spec struct {
			Template json.RawMessage `json:"template"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(revision.Data.Raw, &data); err != nil {
		return Paced{}, fmt.Errorf("reading ControllerRevision %s: %w", revision.Name, err)
	}
	if len(data.Spec.Template) == 0 {
		return Paced{}, fmt.Errorf("reading ControllerRevision %s: it has no spec.template", revision.Name)
	}
	return PacedOfTemplate(data.Spec.Template)
}

// Revisions maps a ControllerRevision's name to its paced fields.
type Revisions map[string]Paced

// Of returns the paced fields of the named revision: from r, else from cleared where it has that
// name, else unknown (false): no drift, no pin.
func (r Revisions) Of(name string, cleared *Cleared) (Paced, bool) {
	if paced, ok := r[name]; ok {
		return paced, true
	}
	if cleared != nil && cleared.Revision == name {
		return cleared.Canary, true
	}
	return Paced{}, false
}
