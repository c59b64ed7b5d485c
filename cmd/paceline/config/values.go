package config

import (
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"text/template"
	"time"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
)

// setter reads one value; it returns what it wants instead, or nothing when the value is right.
type setter func(*yaml.Node) (want string)

var (
	decimal  = regexp.MustCompile(`^(0|-?[1-9][0-9]*)$`)
	days     = regexp.MustCompile(`^([0-9]{1,5})d$`)
	fileName = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}$`)
)

const sidecarURLWant = "a template of an http or https URL with .Namespace .Pod .PodIP .Port .Scheme"

func constant(value string) setter {
	return func(node *yaml.Node) string {
		if got, ok := asText(node); ok && got == value {
			return ""
		}
		return value
	}
}

func integer(into *int, low, high int) setter {
	return func(node *yaml.Node) string {
		want := fmt.Sprintf("an integer from %d to %d", low, high)
		if node.Kind != yaml.ScalarNode || node.ShortTag() != "!!int" || !decimal.MatchString(node.Value) {
			return want
		}
		value, err := strconv.Atoi(node.Value)
		if err != nil || value < low || value > high {
			return want
		}
		*into = value
		return ""
	}
}

func boolean(into *bool) setter {
	return func(node *yaml.Node) string {
		if node.Kind != yaml.ScalarNode || node.ShortTag() != "!!bool" {
			return "true or false"
		}
		*into = strings.EqualFold(node.Value, "true")
		return ""
	}
}

func oneOf(into *string, choices ...string) setter {
	return text(into, strings.Join(choices, " or "), func(value string) bool {
		for _, choice := range choices {
			if value == choice {
				return true
			}
		}
		return false
	})
}

// wholeSeconds is duration for what Kubernetes takes in seconds alone.
func wholeSeconds(into *time.Duration, low, high time.Duration) setter {
	return func(node *yaml.Node) string {
		if want := duration(into, low, high)(node); want != "" || *into%time.Second != 0 {
			return fmt.Sprintf("whole seconds such as 3s, from %s to %s", short(low), short(high))
		}
		return ""
	}
}

func duration(into *time.Duration, low, high time.Duration) setter {
	return func(node *yaml.Node) string {
		text, ok := asText(node)
		value, err := parseDuration(text)
		if !ok || err != nil || value < low || value > high {
			return fmt.Sprintf("a duration such as 30s, 10m or 90d, from %s to %s", short(low), short(high))
		}
		*into = value
		return ""
	}
}

// parseDuration reads a Go duration, and whole days, which Go's own notation lacks.
func parseDuration(text string) (time.Duration, error) {
	if match := days.FindStringSubmatch(text); match != nil {
		count, err := strconv.Atoi(match[1])
		return time.Duration(count) * 24 * time.Hour, err
	}
	return time.ParseDuration(text)
}

// short renders the bounds above: whole days, hours, or what Go says.
func short(d time.Duration) string {
	switch {
	case d%(24*time.Hour) == 0:
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	default:
		return d.String()
	}
}

func selector(into *labels.Selector) setter {
	return func(node *yaml.Node) string {
		value, ok := asText(node)
		if !ok {
			return "a label selector such as app=node,tier in (a,b)"
		}
		parsed, err := labels.Parse(value)
		if err != nil {
			return fmt.Sprintf("a label selector such as app=node,tier in (a,b) (%v)", err)
		}
		*into = parsed
		return ""
	}
}

func text(into *string, want string, valid func(string) bool) setter {
	return func(node *yaml.Node) string {
		value, ok := asText(node)
		if !ok || !valid(value) {
			return want
		}
		*into = value
		return ""
	}
}

func list(into *[]string, want string, valid func(string) bool) setter {
	return func(node *yaml.Node) string {
		if node.Kind != yaml.SequenceNode {
			return "a list of " + want
		}
		var values []string
		for _, item := range node.Content {
			value, ok := asText(item)
			if !ok || !valid(value) {
				return fmt.Sprintf("a list of %s, not %s", want, show(item))
			}
			values = append(values, value)
		}
		*into = values
		return ""
	}
}

func asText(node *yaml.Node) (string, bool) {
	return node.Value, node.Kind == yaml.ScalarNode && node.ShortTag() == "!!str"
}

func anything(string) bool             { return true }
func notEmpty(value string) bool       { return value != "" }
func isDNSLabel(value string) bool     { return len(validation.IsDNS1123Label(value)) == 0 }
func isDNSSubdomain(value string) bool { return len(validation.IsDNS1123Subdomain(value)) == 0 }
func isFileName(value string) bool     { return fileName.MatchString(value) }

func emptyOr(valid func(string) bool) func(string) bool {
	return func(value string) bool { return value == "" || valid(value) }
}

func orZero(valid func(string) bool) func(string) bool {
	return func(value string) bool { return value == "0" || valid(value) }
}

func isAddress(value string) bool {
	_, port, err := net.SplitHostPort(value)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

func isWebhookURL(value string) bool {
	parsed, err := url.Parse(value)
	return err == nil && parsed.Scheme == "https" && parsed.Hostname() != "" &&
		parsed.RawQuery == "" && parsed.Fragment == "" && parsed.User == nil
}

// isSidecarURL renders the template once with sample values, so that an unknown field is found at
// start-up and not at the first roll.
func isSidecarURL(value string) bool {
	parsed, err := template.New("sidecar.urlTemplate").Parse(value)
	if err != nil {
		return false
	}
	var rendered strings.Builder
	sample := struct{ Namespace, Pod, PodIP, Port, Scheme string }{"cell", "node-0", "192.0.2.1", "7777", "http"}
	if err := parsed.Execute(&rendered, sample); err != nil {
		return false
	}
	address, err := url.Parse(rendered.String())
	return err == nil && (address.Scheme == "http" || address.Scheme == "https") && address.Hostname() != ""
}
