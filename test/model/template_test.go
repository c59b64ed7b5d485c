package model

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/paceline/paceline/node"
)

// template is a pod template: an image, which is paced, and a label, which is with pace template alone.
type template struct{ image, label string }

// text is its JSON, as the API server writes it.
func (t template) text() []byte {
	return fmt.Appendf(nil, `{"metadata":{"labels":{"l":%q}},"spec":{"containers":[{"name":"app","image":%q}]}}`, t.label, t.image)
}

func templateOf(text []byte) template {
	var t struct {
		Metadata struct{ Labels map[string]string }
		Spec     struct{ Containers []struct{ Image string } }
	}
	if err := json.Unmarshal(text, &t); err != nil || len(t.Spec.Containers) != 1 {
		panic(fmt.Sprintf("the webhook makes %s of a template: %v", text, err))
	}
	return template{t.Spec.Containers[0].Image, t.Metadata.Labels["l"]}
}

// revision is the name of its ControllerRevision.
func (t template) revision() string { return "r-" + t.image + "." + t.label }

// inRevision is the template that a ControllerRevision keeps.
func inRevision(name string) template {
	image, label, _ := strings.Cut(strings.TrimPrefix(name, "r-"), ".")
	return template{image, label}
}

var memoOfPaced sync.Map // template to node.Paced

// paced is what node reads of the template.
func (t template) paced() node.Paced {
	if known, ok := memoOfPaced.Load(t); ok {
		if p, ok := known.(node.Paced); ok {
			return p
		}
	}
	p, err := node.PacedOfTemplate(t.text())
	if err != nil {
		panic(err)
	}
	memoOfPaced.Store(t, p)
	return p
}

// differs reports that a change from one to the other is paced.
func (t template) differs(other template, pace node.Pace) bool {
	return t.image != other.image || (pace == node.PaceTemplate && t.label != other.label)
}

// between reports a template each of whose fields is that of one of the two.
func (t template) between(a, b template) bool {
	return (t.image == a.image || t.image == b.image) && (t.label == a.label || t.label == b.label)
}

func (t template) bad() bool { return strings.HasPrefix(t.image, "bad") }
