package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/paceline/paceline/node"
)

// Change is what a request does to the template of a node in a cell whose gate pins it, or of which something is
// deferred.
type Change struct {
	// Stored is the template before the request, Asked that of the request, as JSON.
	Stored, Asked []byte
	// Deferred is the annotation of that name before the decision; "": there is none.
	Deferred string
	// Pace says which fields are pinned; "": it is not known, they stay pinned as they were.
	Pace node.Pace
	// Evidence is what the request says of its writer, Own that it is Paceline.
	Evidence Evidence
	Own      bool
}

// Wishes are the templates that come of a Change: what was wanted before it, and what is after it. They are pure
// data; Decide judges by their paced fields, and Apply completes its decision.
type Wishes struct {
	Change
	// before is Stored with what was deferred until now, wanted Asked with what is deferred still.
	before, wanted []byte
	// kept is what was deferred and is not withdrawn.
	kept node.Deferred
}

// wishes reads what a request wants of what is pinned.
func (r *request) wishes(own bool, deferred string, cell node.Cell) (*Wishes, error) {
	e, err := r.readEvidence()
	if err != nil {
		return nil, err
	}
	change := Change{
		Stored: r.OldObject.Spec.Template, Asked: r.Object.Spec.Template, Deferred: deferred,
		Pace: cell.Pace, Evidence: e, Own: own,
	}
	if cell.Gate == "" { // the namespace could not be read
		change.Pace = ""
	}
	return NewWishes(change)
}

// Paced reads the paced fields of what was wanted before, and of what is.
func (w *Wishes) Paced(digest bool) (before, wanted node.Paced, err error) {
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

// NewWishes judges which of the deferred fields the change withdraws or states anew. What is deferred in a form
// that cannot be read (another version's) is left out: Decide keeps such a node as it is.
func NewWishes(c Change) (*Wishes, error) {
	w := &Wishes{Change: c, before: c.Stored, wanted: c.Asked}
	deferred, err := node.ParseDeferred(c.Deferred)
	if err != nil {
		return w, nil //nolint:nilerr // nothing is deferred, or nothing that this version knows
	}
	if w.Pace == "" {
		w.Pace = node.PaceImages
		if deferred.Whole() {
			w.Pace = node.PaceTemplate
		}
	}
	if w.before, err = deferred.Render(c.Stored); err != nil {
		return nil, err
	}
	w.kept.Fields = map[string]node.Wish{}
	for field, wish := range deferred.Fields {
		stays, err := w.judge(field, wish)
		if err != nil {
			return nil, err
		}
		if stays != nil {
			w.kept.Fields[field] = *stays
		}
	}
	w.wanted, err = w.kept.Render(c.Asked)
	return w, err
}

// judge says what stays of one deferred field; nil: nothing.
func (w *Wishes) judge(field string, wish node.Wish) (*node.Wish, error) {
	stands, err := node.FieldOf(field, w.Stored)
	if err != nil {
		return nil, err
	}
	asked, err := node.FieldOf(field, w.Asked)
	if err != nil {
		return nil, err
	}
	left, err := wish.Rebased(field, stands)
	switch {
	case err != nil || left == nil:
		return nil, err
	case bytes.Equal(stands, asked) && !w.Own && w.Evidence.withdraws(field, *left, w.Stored):
		return nil, nil
	case bytes.Equal(stands, asked):
		return left, nil
	case field == node.FieldTemplate || field == node.FieldSpec:
		return w.amended(field, *left, stands, asked)
	}
	return nil, nil // stated anew
}

// amended is a whole spec or template that waits, with the request's change of what stands on top of it:
// a writer that knows only the pinned one has not taken back the rest.
func (w *Wishes) amended(field string, wish node.Wish, stands, asked []byte) (*node.Wish, error) {
	amended, err := wish.Amended(field, stands, asked)
	return &node.Wish{Want: amended, By: w.Evidence.By}, err
}

// maxAnnotations is what Kubernetes takes of annotations in all (apimachinery's validation).
const maxAnnotations = 256 << 10

var errTooLarge = errors.New("what is to wait does not fit into the annotations, which may have 256 KiB in all; " +
	"use the native gate (annotation paceline.io/gate of the namespace), or change fewer fields at once")

// Apply completes a decision with the template: pinned, or with everything in it that was deferred.
func (w *Wishes) Apply(d Decision, annotations map[string]string) (Decision, error) {
	if d.Carry {
		return d, nil
	}
	delete(d.Owned, node.AnnotationDeferred)
	if !d.Pin {
		return d.withTemplate(w.wanted, w.Asked)
	}
	pinned, fields, err := node.Pin(w.Stored, w.wanted, w.Pace)
	if err != nil {
		return d, err
	}
	deferred := node.Deferred{Fields: map[string]node.Wish{}}
	for field, wish := range fields {
		wish.By = w.author(field, wish.Want)
		deferred.Fields[field] = wish
	}
	if len(fields) == 0 { // the pace is another now: what waited is not paced any more, and applies
		return d.withTemplate(w.wanted, w.Asked)
	}
	d.Owned[node.AnnotationDeferred] = deferred.String()
	if size(annotations, d.Owned) > maxAnnotations {
		return d, errTooLarge
	}
	return d.withTemplate(pinned, w.Asked)
}

// author is who asked for a field last: whoever did before where the wish is the same.
func (w *Wishes) author(field string, want json.RawMessage) node.Author {
	before, there := w.kept.Fields[field]
	if there && (w.Own || bytes.Equal(before.Want, want)) {
		return before.By
	}
	if w.Own { // the pace changed, and with it the field's name
		for _, name := range slices.Sorted(maps.Keys(w.kept.Fields)) {
			return w.kept.Fields[name].By
		}
	}
	return w.Evidence.By
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
func (w *Wishes) restarts(d Decision) bool {
	pinned := d.Template
	if pinned == nil {
		pinned = w.Asked
	}
	same, err := sameJSON(pinned, w.Stored)
	return d.Pin && err == nil && !same
}
