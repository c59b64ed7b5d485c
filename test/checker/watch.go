package checker

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Checker watches one namespace.
type Checker struct {
	ledger  Ledger
	sources []source
	stop    context.CancelFunc
	running sync.WaitGroup
}

// source is one kind of object.
type source struct {
	kind  string // as in Event.key
	list  func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
	read  func(runtime.Object) (Event, bool) // all but Change, RV and Time; false: not our business
}

// Start begins to watch a namespace and returns when it has listed what stands there.
func Start(ctx context.Context, config *rest.Config, namespace string) (*Checker, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = -1, -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making the checker's client: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	c := &Checker{sources: sources(client, namespace), stop: stop}
	for _, s := range c.sources {
		rv, err := c.begin(ctx, s)
		if err != nil {
			stop()
			return nil, err
		}
		c.running.Go(func() { c.follow(ctx, s, rv) })
	}
	return c, nil
}

// Report is what was seen so far. Its end may lag a little; Finish waits for it.
func (c *Checker) Report() Report { return c.ledger.Report() }

// Finish waits until everything up to now was seen, ends the watches and reports.
func (c *Checker) Finish(ctx context.Context) Report {
	for _, s := range c.sources {
		if err := c.catchUp(ctx, s); err != nil {
			c.ledger.Miss("%s: the end: %v", s.kind, err)
		}
	}
	c.Stop()
	return c.ledger.Report()
}

// Stop ends the watches. It may be called more than once.
func (c *Checker) Stop() {
	c.stop()
	c.running.Wait()
}

func (c *Checker) begin(ctx context.Context, s source) (string, error) {
	objects, at, err := listAll(ctx, s)
	if err != nil {
		return "", err
	}
	for _, object := range objects {
		if e, ok := s.read(object); ok {
			e.Change, e.RV, e.Time = Listed, at, time.Now()
			c.ledger.Add(e)
		}
	}
	return strconv.FormatUint(at, 10), nil
}

// follow watches from a resourceVersion on until the context ends. A watch that ends is taken up
// where it left off; if that is too old, events are lost for good.
func (c *Checker) follow(ctx context.Context, s source, rv string) {
	for ctx.Err() == nil {
		w, err := s.watch(ctx, metav1.ListOptions{ResourceVersion: rv, AllowWatchBookmarks: true})
		switch {
		case ctx.Err() != nil:
			return
		case apierrors.IsResourceExpired(err) || apierrors.IsGone(err):
			c.ledger.Miss("%s: watch from %s: %v", s.kind, rv, err)
			return
		case err != nil:
			// The API server is away for a moment: nothing is lost as long as it remembers rv.
			select {
			case <-ctx.Done():
				return
			case <-time.After(100 * time.Millisecond):
			}
			continue
		}
		last, err := c.drain(s, w, rv)
		w.Stop()
		if ctx.Err() != nil {
			return // our own end shows as an error too
		}
		if err != nil {
			c.ledger.Miss("%s: watch from %s: %v", s.kind, rv, err)
			return
		}
		rv = last
	}
}

// drain notes a watch's events until it ends and returns the last resourceVersion.
func (c *Checker) drain(s source, w watch.Interface, rv string) (string, error) {
	changes := map[watch.EventType]Change{watch.Added: Added, watch.Modified: Modified, watch.Deleted: Deleted}
	for event := range w.ResultChan() {
		if event.Type == watch.Error {
			return rv, apierrors.FromObject(event.Object)
		}
		object, err := meta.Accessor(event.Object)
		if err != nil {
			return rv, fmt.Errorf("reading a %s event: %w", event.Type, err)
		}
		rv = object.GetResourceVersion()
		change, ok := changes[event.Type]
		if !ok {
			continue // a bookmark
		}
		if e, ok := s.read(event.Object); ok {
			e.Change, e.RV, e.Time = change, e.Version, time.Now()
			c.ledger.Add(e)
		}
	}
	return rv, nil
}

// catchUp waits until the replayed objects are those of a fresh LIST.
func (c *Checker) catchUp(ctx context.Context, s source) error {
	objects, at, err := listAll(ctx, s)
	if err != nil {
		return err
	}
	want := map[string]string{}
	for _, object := range objects {
		if e, ok := s.read(object); ok {
			want[e.key()] = e.version()
		}
	}
	const patience = time.Minute
	for deadline := time.Now().Add(patience); ; {
		got := c.ledger.stateAt(s.kind, at)
		if maps.Equal(got, want) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s after the list at %d the watch shows %v, want %v", patience, at, got, want)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}
