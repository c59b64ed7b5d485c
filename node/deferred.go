package node

import (
	"bytes"
	"encoding/json"
	"fmt"
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

// Render returns the template with what is deferred in it. A field that the template has no place for,
// such as the image of a container that is not there, is left out.
func (d Deferred) Render(template []byte) ([]byte, error) {
	t, err := readTemplate(template)
	if err != nil {
		return nil, err
	}
	for _, whole := range []string{FieldTemplate, FieldSpec} { // the larger first: the smaller go on top
		if wish, ok := d.Fields[whole]; ok {
			if err := t.set(whole, wish.Want); err != nil {
				return nil, err
			}
		}
	}
	for field, wish := range d.Fields {
		if field == FieldTemplate || field == FieldSpec {
			continue
		}
		if err := t.set(field, wish.Want); err != nil {
			return nil, err
		}
	}
	return t.bytes()
}

// Pin returns asked with its paced fields as they are in stored, and what each of those that differ
// was to be, by the field's name; nothing where none differs. Whatever else was asked for stays. Where the
// containers or image volumes are others, the whole pod spec waits: they do not stand without the rest of it.
func Pin(stored, asked []byte, pace Pace) (pinned []byte, wishes map[string]json.RawMessage, err error) {
	was, err := readTemplate(stored)
	if err != nil {
		return nil, nil, err
	}
	is, err := readTemplate(asked)
	if err != nil {
		return nil, nil, err
	}
	wishes = map[string]json.RawMessage{}
	for _, field := range was.differences(is, pace) {
		want, err := is.get(field)
		if err != nil {
			return nil, nil, err
		}
		before, err := was.get(field)
		if err != nil {
			return nil, nil, err
		}
		wishes[field] = want
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
