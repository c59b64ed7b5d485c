package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
)

const (
	// stopWithin is what the manager has to end its work after a signal; Kubernetes kills after 30 s.
	stopWithin = 15 * time.Second
	// stopGrace is how much later the process ends although the manager does not: while its caches cannot
	// be filled, controller-runtime 0.25 waits for them for ever and takes no signal.
	stopGrace = 5 * time.Second
)

// runUntil runs start until ctx ends, and gives it within to return after that.
func runUntil(ctx context.Context, within time.Duration, start func(context.Context) error) error {
	ended := make(chan error, 1)
	go func() { ended <- start(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	late := time.NewTimer(within)
	defer late.Stop()
	select {
	case err := <-ended:
		return err
	case <-late.C:
		return fmt.Errorf("stopping: not done after %s; nothing is lost, everything is in Leases and annotations", within)
	}
}

// watchErrors says once a minute and kind that something cannot be read, with what to do about it.
type watchErrors struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	said  map[string]time.Time
}

const sayAgain = time.Minute

// handle is a cache.WatchErrorHandlerWithContext: the reflector tries again whatever it does.
func (w *watchErrors) handle(ctx context.Context, r *cache.Reflector, err error) {
	if !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err) {
		cache.DefaultWatchErrorHandler(ctx, r, err)
		return
	}
	if w.due(err.Error()) {
		ctrl.LoggerFrom(ctx).Error(errors.New("this account may not read what Paceline needs"),
			"not ready: install the chart, or bind its ClusterRole to this account; trying again", "answer", err.Error())
	}
}

func (w *watchErrors) due(text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.clock.Now()
	if last, said := w.said[text]; said && now.Sub(last) < sayAgain {
		return false
	}
	if w.said == nil {
		w.said = map[string]time.Time{}
	}
	w.said[text] = now
	return true
}
