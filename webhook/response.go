package webhook

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/paceline/paceline/node"
)

// answer is an AdmissionReview's response in the API's own shape.
type answer struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Response   response `json:"response"`
}

type response struct {
	UID       types.UID `json:"uid"`
	Allowed   bool      `json:"allowed"`
	PatchType string    `json:"patchType,omitempty"`
	// Patch is a JSON patch; encoding/json writes it in base64, as the API wants it.
	Patch    []byte   `json:"patch,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	Status   *status  `json:"status,omitempty"`
}

type status struct {
	Code    int    `json:"code"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

func reply(r response) ([]byte, error) {
	return json.Marshal(answer{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview", Response: r})
}

func allow(uid types.UID, patch []byte, warnings ...string) response {
	r := response{UID: uid, Allowed: true, Warnings: warnings}
	if len(patch) > 0 {
		r.PatchType, r.Patch = "JSONPatch", patch
	}
	return r
}

// refuse is the one refusal: clients retry a 503, and the message says why.
func refuse(uid types.UID, message string) response {
	return response{UID: uid, Status: &status{Code: http.StatusServiceUnavailable, Reason: "ServiceUnavailable", Message: message}}
}

func invalid(uid types.UID, err error) response {
	return response{UID: uid, Status: &status{
		Code: http.StatusBadRequest, Reason: "BadRequest", Message: "paceline: " + err.Error(),
	}}
}

type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// patch writes the JSON patch that turns the request's object into what d wants, nil where it is
// that already.
func patch(o *object, d Decision) ([]byte, error) {
	operations := annotationOperations(o.Metadata.Annotations, d.Owned)
	if op, needed := partitionOperation(o.Spec.UpdateStrategy, d.Partition); needed {
		operations = append(operations, op)
	}
	if d.Template != nil {
		operations = append(operations, operation{Op: "replace", Path: "/spec/template", Value: json.RawMessage(d.Template)})
	}
	if len(operations) == 0 {
		return nil, nil
	}
	text, err := json.Marshal(operations)
	if err != nil {
		return nil, fmt.Errorf("writing patch: %w", err)
	}
	return text, nil
}

func annotationOperations(have, want map[string]string) []operation {
	if have == nil && len(want) > 0 {
		return []operation{{Op: "add", Path: "/metadata/annotations", Value: want}}
	}
	var operations []operation
	names := node.Owned()
	slices.Sort(names)
	for _, name := range names {
		path := "/metadata/annotations/" + strings.ReplaceAll(name, "/", "~1")
		old, there := have[name]
		value, wanted := want[name]
		switch {
		case wanted && (!there || old != value):
			operations = append(operations, operation{Op: "add", Path: path, Value: value})
		case !wanted && there:
			operations = append(operations, operation{Op: "remove", Path: path})
		}
	}
	return operations
}

func partitionOperation(strategy updateStrategy, want *int32) (operation, bool) {
	switch {
	case want == nil:
		return operation{}, false
	case strategy.RollingUpdate == nil:
		return operation{Op: "add", Path: "/spec/updateStrategy/rollingUpdate", Value: map[string]int32{"partition": *want}}, true
	case strategy.RollingUpdate.Partition == nil || *strategy.RollingUpdate.Partition != *want:
		return operation{Op: "add", Path: "/spec/updateStrategy/rollingUpdate/partition", Value: *want}, true
	}
	return operation{}, false
}
