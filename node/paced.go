package node

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
)

// Pace says which part of the paced fields is compared.
type Pace string

const (
	// PaceImages compares images, the set of containers, and isolation. The default.
	PaceImages Pace = "images"
	// PaceTemplate compares the whole pod template.
	PaceTemplate Pace = "template"
)

// Paced is the paced fields of one pod template, always in both forms, so that switching the pace
// rewrites nothing. Its JSON has sorted keys and no clock: writing it again is a no-op write.
type Paced struct {
	// Containers maps a container's name to its image.
	Containers map[string]string `json:"containers"`
	// InitContainers maps an init container's name to its image.
	InitContainers map[string]string `json:"initContainers"`
	// Volumes maps an image volume's name to its reference.
	Volumes map[string]string `json:"volumes"`
	// Isolation is a canonical JSON object of affinity, nodeSelector, tolerations and
	// topologySpreadConstraints, without those that are empty.
	Isolation json.RawMessage `json:"isolation"`
	// Template is "sha256:" and 64 hex digits over the canonical JSON of the whole template.
	Template string `json:"template"`
}

// Equal reports whether p and q are the same as far as pace looks.
func (p Paced) Equal(q Paced, pace Pace) bool {
	if pace == PaceTemplate {
		return p.Template == q.Template
	}
	return maps.Equal(p.Containers, q.Containers) &&
		maps.Equal(p.InitContainers, q.InitContainers) &&
		maps.Equal(p.Volumes, q.Volumes) &&
		bytes.Equal(p.Isolation, q.Isolation)
}

// Digest is a short stable text that differs whenever p differs as far as pace looks.
func (p Paced) Digest(pace Pace) string {
	if pace == PaceTemplate {
		return p.Template
	}
	p.Template = ""
	text, err := json.Marshal(p)
	if err != nil { // maps of strings and valid raw JSON always marshal
		return ""
	}
	return digest(text)
}

type leanTemplate struct {
	Spec struct {
		Containers     []leanContainer `json:"containers"`
		InitContainers []leanContainer `json:"initContainers"`
		Volumes        []struct {
			Name  string `json:"name"`
			Image *struct {
				Reference string `json:"reference"`
			} `json:"image"`
		} `json:"volumes"`
		isolation
	} `json:"spec"`
}

type leanContainer struct {
	Name  string `json:"name"`
	Image string `json:"image"`
}

type isolation struct {
	Affinity                  json.RawMessage `json:"affinity,omitempty"`
	NodeSelector              json.RawMessage `json:"nodeSelector,omitempty"`
	Tolerations               json.RawMessage `json:"tolerations,omitempty"`
	TopologySpreadConstraints json.RawMessage `json:"topologySpreadConstraints,omitempty"`
}

// PacedOfTemplate reads the paced fields of a pod template's JSON as the API server writes it.
func PacedOfTemplate(template []byte) (Paced, error) {
	paced, err := ImagesOfTemplate(template)
	if err != nil {
		return Paced{}, err
	}
	paced.Template, err = templateDigest(template)
	return paced, err
}

// ImagesOfTemplate is PacedOfTemplate without the template's digest, which costs most of the time.
func ImagesOfTemplate(template []byte) (Paced, error) {
	var lean leanTemplate
	if err := json.Unmarshal(template, &lean); err != nil {
		return Paced{}, fmt.Errorf("reading pod template: %w", err)
	}
	paced := Paced{
		Containers:     imagesOf(lean.Spec.Containers),
		InitContainers: imagesOf(lean.Spec.InitContainers),
		Volumes:        map[string]string{},
	}
	for _, volume := range lean.Spec.Volumes {
		if volume.Image != nil {
			paced.Volumes[volume.Name] = volume.Image.Reference
		}
	}
	var err error
	paced.Isolation, err = lean.Spec.canonical()
	return paced, err
}

func imagesOf(containers []leanContainer) map[string]string {
	out := make(map[string]string, len(containers))
	for _, container := range containers {
		out[container.Name] = container.Image
	}
	return out
}

func (i isolation) canonical() (json.RawMessage, error) {
	for _, field := range []*json.RawMessage{&i.Affinity, &i.NodeSelector, &i.Tolerations, &i.TopologySpreadConstraints} {
		switch string(*field) {
		case "null", "{}", "[]":
			*field = nil
		}
	}
	if i.Affinity == nil && i.NodeSelector == nil && i.Tolerations == nil && i.TopologySpreadConstraints == nil {
		return json.RawMessage("{}"), nil
	}
	text, err := json.Marshal(i)
	if err != nil {
		return nil, fmt.Errorf("reading isolation: %w", err)
	}
	return canonical(text)
}

// templateDigest hashes the template's canonical JSON: keys sorted, nulls and the strategic-merge
// directive that ControllerRevisions carry left out.
func templateDigest(template []byte) (string, error) {
	text, err := canonical(template)
	if err != nil {
		return "", err
	}
	return digest(text), nil
}

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func canonical(text []byte) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf("reading JSON: %w", err)
	}
	if object, ok := value.(map[string]any); ok {
		delete(object, "$patch")
	}
	return json.Marshal(withoutNulls(value))
}

func withoutNulls(value any) any {
	switch typed := value.(type) {
	case map[string]any:
		for key, child := range typed {
			if child == nil {
				delete(typed, key)
				continue
			}
			typed[key] = withoutNulls(child)
		}
	case []any:
		for i, child := range typed {
			typed[i] = withoutNulls(child)
		}
	}
	return value
}
