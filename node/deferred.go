package node

import (
	"bytes"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// Author is who asked for something: what an admission request says of its writer.
type Author struct {
	FieldManager string `json:"fieldManager"`
	User         string `json:"user"`
}

// Wish is what one field of a pinned template is to be.
type Wish struct {
	// Want is the field's value as JSON; null: it is not to be there.
	Want json.RawMessage `json:"want"`
	// Stands is the field's value as it was pinned. Where the template says another one, it was written while no
	// webhook looked.
	Stands json.RawMessage `json:"stands,omitempty"`
	// By is who asked for it last.
	By Author `json:"by"`
}

// Deferred is the annotation of that name (pin gate): what a pinned template would be.
type Deferred struct {
	// Fields maps a field's name, as Differences gives it, to its wish.
	Fields map[string]Wish
}

type deferredJSON struct {
	Version int             `json:"v"`
	Fields  map[string]Wish `json:"fields"`
}

// String is the annotation's value: the same bytes for the same fact.
func (d Deferred) String() string {
	return mustJSON(deferredJSON{Version: formatVersion, Fields: d.Fields})
}

// ParseDeferred reads the annotation deferred.
func ParseDeferred(value string) (*Deferred, error) {
	var d deferredJSON
	if err := parseVersioned(AnnotationDeferred, value, &d, func() int { return d.Version }); err != nil {
		return nil, err
	}
	if len(d.Fields) == 0 {
		return nil, fmt.Errorf("annotation %s: it names no field", AnnotationDeferred)
	}
	return &Deferred{Fields: d.Fields}, nil
}

// Rebased is what is left of a wish for a field that stands at this value now. It is the wish itself, unless the field
// was written while no webhook looked. Then what was written is what was asked for last: nil. Of a whole spec or
// template the change since is laid over the wish: not all of it was stated anew.
func (w Wish) Rebased(field string, stands json.RawMessage) (*Wish, error) {
	if len(w.Stands) == 0 {
		return &w, nil
	}
	stood, err := canonical(w.Stands)
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading field %s: %w", field, err)
	case bytes.Equal(stood, stands):
		return &w, nil
	case field != FieldTemplate && field != FieldSpec:
		return nil, nil //nolint:nilnil // as said above
	}
	w.Want, err = w.Amended(field, stood, stands)
	w.Stands = stands
	return &w, err
}

// Amended is the wish for a whole spec or template with the change from one value of it to another laid over it.
func (w Wish) Amended(field string, from, to json.RawMessage) (json.RawMessage, error) {
	var schema any = corev1.PodSpec{}
	if field == FieldTemplate {
		schema = corev1.PodTemplateSpec{}
	}
	change, err := strategicpatch.CreateTwoWayMergePatch(from, to, schema)
	if err != nil {
		return nil, fmt.Errorf("comparing pod templates: %w", err)
	}
	amended, err := strategicpatch.StrategicMergePatch(w.Want, change, schema)
	if err != nil {
		return nil, fmt.Errorf("amending what is deferred: %w", err)
	}
	return amended, nil
}

// Whole reports that the whole template is deferred, as pace template does.
func (d Deferred) Whole() bool {
	_, whole := d.Fields[FieldTemplate]
	return whole
}

// Render returns the template with what is deferred in it. A field that the template has no place for,
// such as the image of a container that is not there, is left out.
func (d Deferred) Render(template []byte) ([]byte, error) {
	t, err := readTemplate(template)
	if err != nil {
		return nil, err
	}
	wishes := map[string]Wish{}
	for field, wish := range d.Fields {
		stands, err := t.get(field)
		if err != nil {
			return nil, err
		}
		left, err := wish.Rebased(field, stands)
		if err != nil {
			return nil, err
		}
		if left != nil {
			wishes[field] = *left
		}
	}
	for _, whole := range []string{FieldTemplate, FieldSpec} { // the larger first: the smaller go on top
		if wish, ok := wishes[whole]; ok {
			if err := t.set(whole, wish.Want); err != nil {
				return nil, err
			}
			delete(wishes, whole)
		}
	}
	for field, wish := range wishes {
		if err := t.set(field, wish.Want); err != nil {
			return nil, err
		}
	}
	return t.bytes()
}

// Pin returns asked with its paced fields as they are in stored, and of each of those that differ what it
// was to be and what it stands at, by the field's name; nothing where none differs. Whatever else was asked for stays. Where the
// containers or image volumes are others, the whole pod spec waits: they do not stand without the rest of it.
func Pin(stored, asked []byte, pace Pace) (pinned []byte, wishes map[string]Wish, err error) {
	was, err := readTemplate(stored)
	if err != nil {
		return nil, nil, err
	}
	is, err := readTemplate(asked)
	if err != nil {
		return nil, nil, err
	}
	wishes = map[string]Wish{}
	for _, field := range was.differences(is, pace) {
		want, err := is.get(field)
		if err != nil {
			return nil, nil, err
		}
		before, err := was.get(field)
		if err != nil {
			return nil, nil, err
		}
		wishes[field] = Wish{Want: want, Stands: before}
		if err := is.set(field, before); err != nil {
			return nil, nil, err
		}
	}
	pinned, err = is.bytes()
	return pinned, wishes, err
}

// FieldOf reads a paced field of a template as canonical JSON; null: it is not there.
func FieldOf(field string, template []byte) (json.RawMessage, error) {
	t, err := readTemplate(template)
	if err != nil {
		return nil, err
	}
	return t.get(field)
}

func (t podTemplate) same(other podTemplate, field string) (bool, error) {
	a, err := t.get(field)
	if err != nil {
		return false, err
	}
	b, err := other.get(field)
	return bytes.Equal(a, b), err
}
