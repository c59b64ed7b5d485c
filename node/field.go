package node

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Names of paced fields that stand for more than themselves.
const (
	// FieldTemplate is the whole pod template: the only field of pace template.
	FieldTemplate = "template"
	// FieldSpec is the whole pod spec: where containers or image volumes come or go.
	FieldSpec = "spec"
)

// Lists of a pod spec that hold images. A field LIST/NAME is the image of the item of that name.
const (
	listContainers     = "containers"
	listInitContainers = "initContainers"
	listVolumes        = "volumes"
)

// isolationFields are fields of the pod spec, each paced as a whole.
func isolationFields() []string {
	return []string{"affinity", "nodeSelector", "tolerations", "topologySpreadConstraints"}
}

// podTemplate is a pod template as JSON objects.
type podTemplate map[string]any

func readTemplate(text []byte) (podTemplate, error) {
	var t podTemplate
	if err := decodeNumbers(text, &t); err != nil {
		return nil, fmt.Errorf("reading pod template: %w", err)
	}
	if t == nil {
		t = podTemplate{}
	}
	return t, nil
}

func decodeNumbers(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return decoder.Decode(into)
}

func (t podTemplate) bytes() ([]byte, error) { return json.Marshal(t) }

func (t podTemplate) spec() map[string]any {
	spec, _ := t["spec"].(map[string]any)
	return spec
}

// item finds the object that carries an image: a container, or a volume's image source.
func (t podTemplate) item(list, name string) map[string]any {
	items, _ := t.spec()[list].([]any)
	for _, each := range items {
		item, _ := each.(map[string]any)
		if item["name"] != name {
			continue
		}
		if list == listVolumes {
			item, _ = item["image"].(map[string]any)
		}
		return item
	}
	return nil
}

// imageKey is the key of the image in an item of the list.
func imageKey(list string) string {
	if list == listVolumes {
		return "reference"
	}
	return "image"
}

// get returns a field's canonical JSON, null where it is not there.
func (t podTemplate) get(field string) (json.RawMessage, error) {
	var value any
	list, name, isImage := strings.Cut(field, "/")
	switch {
	case field == FieldTemplate:
		value = map[string]any(t)
	case isImage:
		if item := t.item(list, name); item != nil {
			value = item[imageKey(list)]
		}
	case field == FieldSpec:
		value = t["spec"]
	default:
		value = t.spec()[field]
	}
	if isEmpty(value) {
		value = nil
	}
	text, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("reading field %s of pod template: %w", field, err)
	}
	return canonical(text)
}

func isEmpty(value any) bool {
	switch typed := value.(type) {
	case map[string]any:
		return len(typed) == 0
	case []any:
		return len(typed) == 0
	}
	return value == nil
}

// set puts a value, as get returns it, into a field.
func (t podTemplate) set(field string, value json.RawMessage) error {
	var parsed any
	if err := decodeNumbers(value, &parsed); err != nil {
		return fmt.Errorf("reading field %s: %w", field, err)
	}
	list, name, isImage := strings.Cut(field, "/")
	switch {
	case field == FieldTemplate:
		whole, ok := parsed.(map[string]any)
		if !ok {
			return fmt.Errorf("reading field %s: want an object", field)
		}
		clear(t)
		maps.Copy(t, whole)
	case isImage:
		if item := t.item(list, name); item != nil && parsed != nil {
			item[imageKey(list)] = parsed
		}
	case field == FieldSpec:
		put(t, "spec", parsed)
	case slices.Contains(isolationFields(), field):
		if t.spec() == nil {
			t["spec"] = map[string]any{}
		}
		put(t.spec(), field, parsed)
	default:
		return fmt.Errorf("reading field %s: it is none that is paced", field)
	}
	return nil
}

func put(object map[string]any, key string, value any) {
	if value == nil {
		delete(object, key)
		return
	}
	object[key] = value
}

// images maps the field of each image to its value.
func (t podTemplate) images() map[string]any {
	out := map[string]any{}
	for _, list := range []string{listContainers, listInitContainers, listVolumes} {
		items, _ := t.spec()[list].([]any)
		for _, each := range items {
			object, _ := each.(map[string]any)
			name, _ := object["name"].(string)
			if item := t.item(list, name); item != nil {
				out[list+"/"+name] = item[imageKey(list)]
			}
		}
	}
	return out
}

// differences names the paced fields that are others in asked, in a fixed order.
func (t podTemplate) differences(asked podTemplate, pace Pace) []string {
	fields := isolationFields()
	if pace == PaceTemplate {
		fields = []string{FieldTemplate}
	} else {
		images, others := t.images(), asked.images()
		names := slices.Sorted(maps.Keys(images))
		if !slices.Equal(names, slices.Sorted(maps.Keys(others))) {
			return []string{FieldSpec}
		}
		fields = append(names, fields...)
	}
	var out []string
	for _, field := range fields {
		if same, err := t.same(asked, field); err != nil || !same {
			out = append(out, field)
		}
	}
	return out
}
