package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestRunUntil(t *testing.T) {
	t.Parallel()
	failed := errors.New("why it failed")
	stopped, stop := context.WithCancel(t.Context())
	stop()
	waits := func(ctx context.Context) error { <-ctx.Done(); return nil }
	never := make(chan struct{})
	t.Cleanup(func() { close(never) })
	hangs := func(context.Context) error { <-never; return nil }

	require.ErrorIs(t, runUntil(t.Context(), time.Hour, func(context.Context) error { return failed }), failed)
	require.NoError(t, runUntil(stopped, time.Hour, waits), "what ends by itself is waited for")
	require.ErrorContains(t, runUntil(stopped, time.Nanosecond, hangs), "stopping: not done after 1ns", "what never ends is not")
}

func TestTheSameWatchErrorIsSaidOnceAMinute(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	w := &watchErrors{clock: clock}
	require.True(t, w.due("pods"))
	require.False(t, w.due("pods"))
	require.True(t, w.due("leases"))
	clock.SetTime(clock.Now().Add(sayAgain))
	require.True(t, w.due("pods"))
}
