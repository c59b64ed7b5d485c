package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Load reads the file at path over the defaults. The error names the file and, one a line, every
// key that is wrong, in the order of the file.
func Load(path string) (Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("config %s: reading the file: %w", path, err)
	}
	config, problems := parse(data)
	if len(problems) == 0 {
		return config, nil
	}
	lines := make([]error, 0, len(problems))
	for _, problem := range problems {
		lines = append(lines, fmt.Errorf("config %s: %s", path, problem))
	}
	return Config{}, errors.Join(lines...)
}

// parse reads a whole file and returns what is wrong with it, nothing when it is right.
func parse(data []byte) (Config, []string) {
	config := Default()
	document, problem := singleDocument(data)
	if problem != "" {
		return config, []string{problem}
	}
	reading := reader{keys: config.keys(), seen: map[string]int{}}
	reading.mapping("", document)
	for _, key := range []string{"apiVersion", "kind"} {
		if _, stated := reading.seen[key]; !stated {
			reading.problem(key, "nothing", reading.keys[key](&yaml.Node{Kind: yaml.MappingNode}))
		}
	}
	return config, reading.problems
}

// singleDocument returns the root mapping of the only YAML document of data.
func singleDocument(data []byte) (*yaml.Node, string) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document yaml.Node
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return &yaml.Node{Kind: yaml.MappingNode}, ""
	} else if err != nil {
		return nil, err.Error()
	}
	if err := decoder.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return nil, "more than one YAML document: want one"
	}
	return document.Content[0], ""
}

// reader walks the file and collects what is wrong.
type reader struct {
	keys     map[string]setter
	seen     map[string]int // key: line
	problems []string
}

func (r *reader) problem(key, value, want string) {
	r.problems = append(r.problems, fmt.Sprintf("%s: %s: want %s", key, value, want))
}

func (r *reader) unknown(prefix, key string) {
	r.problem(key, "unknown key", "one of "+strings.Join(r.children(prefix), ", "))
}

func (r *reader) mapping(prefix string, node *yaml.Node) {
	if node.Kind != yaml.MappingNode {
		r.problem(strings.TrimSuffix(or(prefix, "the file"), "."), show(node), "a mapping")
		return
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		name := node.Content[i]
		if strings.Contains(name.Value, ".") || name.Kind != yaml.ScalarNode {
			r.unknown(prefix, prefix+show(name))
			continue
		}
		r.entry(prefix, prefix+name.Value, name.Line, node.Content[i+1])
	}
}

func (r *reader) entry(prefix, key string, line int, value *yaml.Node) {
	if before, twice := r.seen[key]; twice {
		r.problem(key, fmt.Sprintf("stated on lines %d and %d", before, line), "each key once")
		return
	}
	r.seen[key] = line
	if value.Kind == yaml.AliasNode {
		r.problem(key, show(value), "a value, not an alias")
		return
	}
	set, known := r.keys[key]
	switch {
	case !known && !r.isSection(key):
		r.unknown(prefix, key)
	case value.ShortTag() == "!!null" && value.Kind == yaml.ScalarNode:
		// A key without a value is the default, as if it were left out.
	case !known:
		r.mapping(key+".", value)
	default:
		if want := set(value); want != "" {
			r.problem(key, show(value), want)
		}
	}
}

func (r *reader) isSection(key string) bool {
	return !strings.Contains(key, ".") && len(r.children(key+".")) > 0
}

// children lists the keys that may stand directly under prefix, sorted.
func (r *reader) children(prefix string) []string {
	var names []string
	for key := range r.keys {
		if rest, under := strings.CutPrefix(key, prefix); under {
			name, _, _ := strings.Cut(rest, ".")
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// show renders a value as it stands in the file, quotes included.
func show(node *yaml.Node) string {
	switch {
	case node.Kind == yaml.MappingNode:
		return "a mapping"
	case node.Kind == yaml.SequenceNode:
		return "a list"
	case node.Kind == yaml.AliasNode:
		return "*" + node.Value
	case node.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0, node.Value == "":
		return fmt.Sprintf("%q", node.Value)
	default:
		return node.Value
	}
}

func or(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}
