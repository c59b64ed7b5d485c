package proxy

import (
	"context"
	"io"
	"net/url"
	"path"
)

// HoldBack keeps what the watches of these resources ("pods") bring from their client until Release: it
// sees everything else first.
func (p *Proxy) HoldBack(resources ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, resource := range resources {
		if p.late[resource] == nil {
			p.late[resource] = make(chan struct{})
		}
	}
}

// Release lets these resources' watches go on, all without any.
func (p *Proxy) Release(resources ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(resources) == 0 {
		for resource := range p.late {
			resources = append(resources, resource)
		}
	}
	for _, resource := range resources {
		if p.late[resource] != nil {
			close(p.late[resource])
			delete(p.late, resource)
		}
	}
}

func (p *Proxy) gate(resource string) chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.late[resource]
}

// watched is the resource that a request watches; empty: it is no watch.
func watched(u *url.URL) string {
	if u.Query().Get("watch") == "" {
		return ""
	}
	return path.Base(u.Path)
}

// lateBody hands out what it has read when its resource is not held back.
type lateBody struct {
	io.ReadCloser
	proxy    *Proxy
	resource string
	ctx      context.Context
}

func (b *lateBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	if gate := b.proxy.gate(b.resource); gate != nil {
		select {
		case <-gate:
		case <-b.ctx.Done():
			return 0, b.ctx.Err()
		}
	}
	return n, err
}
