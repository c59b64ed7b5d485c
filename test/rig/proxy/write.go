package proxy

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Write is one write of a StatefulSet, its status, a pod or a Lease.
type Write struct {
	// Number counts from 1 since the last Count.
	Number int
	Method string
	// Resource is such as "statefulsets" or "statefulsets/status".
	Resource        string
	Namespace, Name string
	// Status is the answer's; 0 while the API server has not been asked.
	Status int
}

// Hook sees each write twice: before the API server does, and its answer before the client does. A write
// that it refuses to pass is cut off: the client sees its connection end. It is called by many requests
// at once.
type Hook func(Write) (pass bool)

type writeKey struct{}

var errCut = errors.New("cut off by a test")

// Count starts to count writes from 1 and shows each to hook, which may be nil.
func (p *Proxy) Count(hook Hook) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count, p.hook = 0, hook
}

// Counted is how many writes were asked for since Count.
func (p *Proxy) Counted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count
}

func (p *Proxy) pass(w Write) bool {
	p.mu.Lock()
	hook := p.hook
	p.mu.Unlock()
	return hook == nil || hook(w)
}

// number gives a write its number.
func (p *Proxy) number(r *http.Request) (Write, bool) {
	w := Write{Method: r.Method}
	w.Resource, w.Namespace, w.Name = object(r.URL)
	if !slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}, r.Method) || !counts(w) {
		return Write{}, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count++
	w.Number = p.count
	return w, true
}

// counts leaves out Events and leader election: they decide nothing about a node.
func counts(w Write) bool {
	switch w.Resource {
	case "statefulsets", "statefulsets/status", "pods":
		return true
	case "leases":
		return w.Name == "" || strings.HasPrefix(w.Name, "paceline-slot-")
	}
	return false
}

// object reads .../namespaces/NAMESPACE/RESOURCE[/NAME[/SUBRESOURCE]].
func object(u *url.URL) (resource, namespace, name string) {
	parts := strings.Split(u.Path, "/")
	at := slices.Index(parts, "namespaces")
	if at < 0 || len(parts) < at+3 {
		return "", "", ""
	}
	resource, namespace = parts[at+2], parts[at+1]
	if len(parts) > at+3 {
		name = parts[at+3]
	}
	if len(parts) > at+4 {
		resource += "/" + parts[at+4]
	}
	return resource, namespace, name
}
