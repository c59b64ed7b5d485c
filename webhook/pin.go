package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/paceline/paceline/node"
)

// wishes are the templates of a request in a cell whose gate pins them, or on a node of which something
// is deferred: what is stored, what the request says, and what is wanted after it. They are pure data.
type wishes struct {
	// stored is the template before the request, asked that of the request.
	stored, asked []byte
	// before is stored with what was deferred until now, wanted asked with what is deferred still.
	before, wanted []byte
	// kept is what was deferred and is not withdrawn, by is the request's writer, own: it is Paceline.
	kept node.Deferred
	by   node.Author
	own  bool
	// pace says which fields are pinned.
	pace node.Pace
}

// wishes reads what a request wants of what is pinned. annotation is what is deferred now, "" where nothing
// is. One that cannot be read is left as it is: the node waits, and its conditions say why.
func (r *request) wishes(own bool, annotation string, cell node.Cell) (*wishes, error) {
	e, err := r.readEvidence()
	if err != nil {
		return nil, err
	}
	deferred, err := node.ParseDeferred(annotation)
	if err != nil {
		deferred = nil
	}
	w, err := newWishes(r.OldObject.Spec.Template, r.Object.Spec.Template, deferred, e, own)
	if err != nil {
		return nil, err
	}
	w.pace = cell.Pace
	if cell.Gate == "" && deferred != nil { // the namespace could not be read: pinned as it was
		w.pace = node.PaceImages
		if _, whole := deferred.Fields[node.FieldTemplate]; whole {
			w.pace = node.PaceTemplate
		}
	}
	return w, nil
}

// paced reads the paced fields of what was wanted before, and of what is.
func (w *wishes) paced(digest bool) (before, wanted node.Paced, err error) {
	read := node.ImagesOfTemplate
	if digest {
		read = node.PacedOfTemplate
	}
	if before, err = read(w.before); err != nil {
		return before, wanted, err
	}
	wanted, err = read(w.wanted)
	return before, wanted, err
}

// newWishes judges which of the deferred fields the request withdraws or states anew. deferred is nil where
// nothing is.
func newWishes(stored, asked []byte, deferred *node.Deferred, e evidence, own bool) (*wishes, error) {
	w := &wishes{stored: stored, asked: asked, before: stored, wanted: asked, by: e.By, own: own}
	if deferred == nil {
		return w, nil
	}
	var err error
	if w.before, err = deferred.Render(stored); err != nil {
		return nil, err
	}
	w.kept.Fields = map[string]node.Wish{}
	for field, wish := range deferred.Fields {
		stays, err := w.judge(field, wish, e)
		if err != nil {
			return nil, err
		}
		if stays != nil {
			w.kept.Fields[field] = *stays
		}
	}
	w.wanted, err = w.kept.Render(asked)
	return w, err
}

// judge says what stays of one deferred field; nil: nothing.
func (w *wishes) judge(field string, wish node.Wish, e evidence) (*node.Wish, error) {
	stands, err := node.FieldOf(field, w.stored)
	if err != nil {
		return nil, err
	}
	asked, err := node.FieldOf(field, w.asked)
	if err != nil {
		return nil, err
	}
	switch {
	case bytes.Equal(stands, asked) && !w.own && e.withdraws(field, wish, w.stored):
		return nil, nil
	case bytes.Equal(stands, asked):
		return &wish, nil
	case field == node.FieldTemplate || field == node.FieldSpec:
		return w.amended(field, wish, stands, asked)
	}
	return nil, nil // stated anew
}

// amended is a whole spec or template that waits, with the request's change of what stands on top of it:
// a writer that knows only the pinned one has not taken back the rest.
func (w *wishes) amended(field string, wish node.Wish, stands, asked []byte) (*node.Wish, error) {
	var schema any = corev1.PodSpec{}
	if field == node.FieldTemplate {
		schema = corev1.PodTemplateSpec{}
	}
	change, err := strategicpatch.CreateTwoWayMergePatch(stands, asked, schema)
	if err != nil {
		return nil, fmt.Errorf("comparing pod templates: %w", err)
	}
	amended, err := strategicpatch.StrategicMergePatch(wish.Want, change, schema)
	if err != nil {
		return nil, fmt.Errorf("amending what is deferred: %w", err)
	}
	return &node.Wish{Want: amended, By: w.by}, nil
}

// maxAnnotations is what Kubernetes takes of annotations in all (apimachinery's validation).
const maxAnnotations = 256 << 10

var errTooLarge = errors.New("what is to wait does not fit into the annotations, which may have 256 KiB in all; " +
	"use the native gate (annotation paceline.io/gate of the namespace), or change fewer fields at once")

// apply completes a decision with the template: pinned, or with everything in it that was deferred.
func (w *wishes) apply(d Decision, annotations map[string]string) (Decision, error) {
	if d.Carry {
		return d, nil
	}
	delete(d.Owned, node.AnnotationDeferred)
	if !d.Pin {
		return d.withTemplate(w.wanted, w.asked)
	}
	pinned, fields, err := node.Pin(w.stored, w.wanted, w.pace)
	if err != nil {
		return d, err
	}
	deferred := node.Deferred{Fields: map[string]node.Wish{}}
	for field, want := range fields {
		deferred.Fields[field] = node.Wish{Want: want, By: w.author(field, want)}
	}
	d.Owned[node.AnnotationDeferred] = deferred.String()
	if size(annotations, d.Owned) > maxAnnotations {
		return d, errTooLarge
	}
	return d.withTemplate(pinned, w.asked)
}

// author is who asked for a field last: whoever did before where the wish is the same.
func (w *wishes) author(field string, want json.RawMessage) node.Author {
	before, there := w.kept.Fields[field]
	if there && (w.own || bytes.Equal(before.Want, want)) {
		return before.By
	}
	if w.own { // the pace changed, and with it the field's name
		for _, name := range slices.Sorted(maps.Keys(w.kept.Fields)) {
			return w.kept.Fields[name].By
		}
	}
	return w.by
}

func size(annotations, owned map[string]string) int {
	total := 0
	for name, value := range annotations {
		if !slices.Contains(node.Owned(), name) {
			total += len(name) + len(value)
		}
	}
	for name, value := range owned {
		total += len(name) + len(value)
	}
	return total
}

// withTemplate notes a template that differs from the one asked for.
func (d Decision) withTemplate(wanted, asked []byte) (Decision, error) {
	same, err := sameJSON(wanted, asked)
	if err == nil && !same {
		d.Template = wanted
	}
	return d, err
}

func sameJSON(a, b []byte) (bool, error) {
	one, err := node.FieldOf(node.FieldTemplate, a)
	if err != nil {
		return false, err
	}
	other, err := node.FieldOf(node.FieldTemplate, b)
	return bytes.Equal(one, other), err
}

// restarts reports that a pinned template restarts pods all the same: other fields of it changed.
func (w *wishes) restarts(d Decision) bool {
	pinned := d.Template
	if pinned == nil {
		pinned = w.asked
	}
	same, err := sameJSON(pinned, w.stored)
	return d.Pin && err == nil && !same
}
