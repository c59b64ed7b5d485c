package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/types"

	"github.com/paceline/paceline/node"
)

// review is an admission.k8s.io/v1 AdmissionReview of a StatefulSet: only what decisions need, read
// in one pass. Templates stay raw until something has to look into them.
type review struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Request    *request `json:"request"`
}

type request struct {
	UID  types.UID `json:"uid"`
	Kind struct {
		Group string `json:"group"`
		Kind  string `json:"kind"`
	} `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Operation string `json:"operation"`
	UserInfo  struct {
		Username string `json:"username"`
	} `json:"userInfo"`
	Object    *object `json:"object"`
	OldObject *object `json:"oldObject"`

	// body is the whole review: some parts are read only where something is deferred.
	body []byte
}

type object struct {
	Metadata struct {
		Name              string            `json:"name"`
		UID               types.UID         `json:"uid"`
		Generation        int64             `json:"generation"`
		DeletionTimestamp *string           `json:"deletionTimestamp"`
		Labels            map[string]string `json:"labels"`
		Annotations       map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		Replicas       *int32          `json:"replicas"`
		Template       json.RawMessage `json:"template"`
		UpdateStrategy updateStrategy  `json:"updateStrategy"`
	} `json:"spec"`
	Status struct {
		ObservedGeneration int64  `json:"observedGeneration"`
		ReadyReplicas      int32  `json:"readyReplicas"`
		CurrentRevision    string `json:"currentRevision"`
		UpdateRevision     string `json:"updateRevision"`
	} `json:"status"`
}

type updateStrategy struct {
	Type          node.Strategy `json:"type"`
	RollingUpdate *struct {
		Partition *int32 `json:"partition"`
	} `json:"rollingUpdate"`
}

var errNotReview = errors.New("want an admission.k8s.io/v1 AdmissionReview with a request")

// decode reads a review. The error says what is wrong with the bytes; a request is returned with it
// where there is one, so that the answer can name its uid.
func decode(body []byte) (*request, error) {
	var r review
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, fmt.Errorf("%w: %w", errNotReview, err)
	}
	if r.Kind != "AdmissionReview" || r.APIVersion != "admission.k8s.io/v1" || r.Request == nil {
		return nil, fmt.Errorf("%w: got kind %q, apiVersion %q", errNotReview, r.Kind, r.APIVersion)
	}
	r.Request.body = body
	return r.Request, r.Request.check()
}

func (r *request) check() error {
	if r.Kind.Group != "apps" || r.Kind.Kind != "StatefulSet" {
		return fmt.Errorf("want a StatefulSet of apps, got %s of %q: check the rules of the webhook configuration", r.Kind.Kind, r.Kind.Group)
	}
	switch r.Operation {
	case "CREATE":
		r.OldObject = nil
	case "UPDATE":
		if r.OldObject == nil {
			return errors.New("an UPDATE without oldObject cannot be judged")
		}
	default:
		return fmt.Errorf("operation %q: want CREATE or UPDATE", r.Operation)
	}
	if r.Object == nil {
		return errors.New("a request without object cannot be judged")
	}
	return nil
}

// owned is what our annotations are before the decision: the old object's, unless Paceline's own
// account writes.
func (r *request) owned(own bool) map[string]string {
	from := r.Object.Metadata.Annotations
	if !own && r.OldObject != nil {
		from = r.OldObject.Metadata.Annotations
	}
	owned := map[string]string{}
	for _, name := range node.Owned() {
		if value, ok := from[name]; ok {
			owned[name] = value
		}
	}
	return owned
}

// templates reads the paced fields of both templates; the stored one is read once where both are the
// same bytes. The digest over a whole template is made only where something compares or keeps it.
func (r *request) templates(digest bool) (stored, asked node.Paced, err error) {
	read := node.ImagesOfTemplate
	if digest {
		read = node.PacedOfTemplate
	}
	if asked, err = read(r.Object.Spec.Template); err != nil || r.OldObject == nil {
		return asked, asked, err
	}
	if bytes.Equal(r.Object.Spec.Template, r.OldObject.Spec.Template) {
		return asked, asked, nil
	}
	stored, err = read(r.OldObject.Spec.Template)
	return stored, asked, err
}

// annotations are what people wrote in the request, and owned in place of what it says of ours.
func (o *object) annotations(owned map[string]string) map[string]string {
	annotations := maps.Clone(o.Metadata.Annotations)
	if annotations == nil {
		return owned
	}
	for _, name := range node.Owned() {
		delete(annotations, name)
	}
	maps.Copy(annotations, owned)
	return annotations
}

func (o *object) view(namespace string, annotations map[string]string, template node.Paced, pinned *node.Paced) node.View {
	meta := node.Meta{
		Name: o.Metadata.Name, Namespace: namespace, UID: o.Metadata.UID,
		Deleting: o.Metadata.DeletionTimestamp != nil,
		Labels:   o.Metadata.Labels, Annotations: annotations,
	}
	spec := node.Spec{Replicas: o.Spec.Replicas, Strategy: o.Spec.UpdateStrategy.Type, Template: template, Pinned: pinned}
	if o.Spec.UpdateStrategy.RollingUpdate != nil {
		spec.Partition = o.Spec.UpdateStrategy.RollingUpdate.Partition
	}
	return node.NewView(meta, spec, node.Status{
		Observed:        o.Status.ObservedGeneration == o.Metadata.Generation && o.Metadata.Generation > 0,
		CurrentRevision: o.Status.CurrentRevision, UpdateRevision: o.Status.UpdateRevision,
		Ready: o.Status.ReadyReplicas,
	})
}
