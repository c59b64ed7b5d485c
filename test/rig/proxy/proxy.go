package proxy

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"

	"k8s.io/client-go/rest"
)

// Proxy passes on what a client asks of an API server, with the account of the configuration that it
// was started with.
type Proxy struct {
	server   *http.Server
	listener net.Listener
	forward  *httputil.ReverseProxy

	mu    sync.Mutex
	count int
	hook  Hook
	late  map[string]chan struct{} // resource to what is closed when its watches go on
}

// Start starts a proxy on a free port of this machine.
func Start(config *rest.Config) (*Proxy, error) {
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, fmt.Errorf("reading the API server's address: %w", err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("making a transport: %w", err)
	}
	p := &Proxy{late: map[string]chan struct{}{}}
	silent := log.New(io.Discard, "", 0) // a client that was killed breaks its connections
	p.forward = &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:      transport,
		FlushInterval:  -1,
		ModifyResponse: p.modify,
		ErrorLog:       silent,
	}
	if p.listener, err = (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	p.server = &http.Server{Handler: http.HandlerFunc(p.serve), ErrorLog: silent}
	go func() { _ = p.server.Serve(p.listener) }() // it ends with Stop
	return p, nil
}

// Stop breaks all connections.
func (p *Proxy) Stop() error {
	p.Release()
	if err := p.server.Close(); err != nil {
		return fmt.Errorf("stopping the proxy: %w", err)
	}
	return nil
}

// URL is where it listens. Its clients need no credentials: it knows whose requests it passes on.
func (p *Proxy) URL() string { return "http://" + p.listener.Addr().String() }

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	if write, ok := p.number(r); ok {
		r = r.WithContext(context.WithValue(r.Context(), writeKey{}, write))
		if !p.pass(write) {
			panic(http.ErrAbortHandler)
		}
	}
	p.forward.ServeHTTP(w, r)
}

// modify sees an answer before its client does.
func (p *Proxy) modify(response *http.Response) error {
	if write, ok := response.Request.Context().Value(writeKey{}).(Write); ok {
		write.Status = response.StatusCode
		if !p.pass(write) {
			return errCut
		}
	}
	if resource := watched(response.Request.URL); resource != "" {
		response.Body = &lateBody{ReadCloser: response.Body, proxy: p, resource: resource, ctx: response.Request.Context()}
	}
	return nil
}
