package races

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paceline/paceline/test/e2e/harness"
	"github.com/paceline/paceline/test/rig/proxy"
)

// sweep kills the controller at a write of a roll.
type sweep struct {
	cell  *harness.Cell
	bumps int
	kills []proxy.Write
}

func (s *sweep) image() string { return fmt.Sprintf("app:sweep-%d", s.bumps) }

// roll rolls the cell once and shows each write to hook.
func (s *sweep) roll(t *testing.T, hook proxy.Hook) {
	t.Helper()
	s.bumps++
	rig.Proxy.Count(hook)
	bump(t, s.cell, s.image())
}

// killAt rolls once, with the controller killed at write k: before the API server sees it, or after it
// answered and before the controller knows. The other writes of that moment may or may not arrive.
func (s *sweep) killAt(t *testing.T, k int, after bool) {
	t.Helper()
	var once sync.Once
	restarted := make(chan error, 1)
	s.roll(t, func(w proxy.Write) bool {
		if w.Number != k || (w.Status != 0) != after {
			return true
		}
		once.Do(func() {
			s.kills = append(s.kills, w)
			_ = rig.Controller.Kill() // Restart kills what still runs, and says so
			go func() { restarted <- rig.Controller.Restart(context.WithoutCancel(t.Context())) }()
		})
		return false
	})
	s.cell.WaitImage(t, s.image())
	reached := true
	once.Do(func() { reached = false }) // no kill from here on
	if reached {
		require.NoError(t, <-restarted)
	}
	settle(t, s.cell, s.image())
}

// The controller is killed at every write of a roll, before and after it.
func TestKillSweep(t *testing.T) {
	s := &sweep{cell: pair(t)}
	s.roll(t, nil)
	settle(t, s.cell, s.image())
	writes := rig.Proxy.Counted()
	for k := 1; k <= writes; k++ {
		s.killAt(t, k, false)
		s.killAt(t, k, true)
	}
	report := judge(t, s.cell, 1)
	require.Equal(t, 1, report.MaxHolders)
	for _, node := range s.cell.Nodes {
		require.Equal(t, s.bumps, report.Restarts[node], "one restart of %s for each bump", node)
	}
	t.Logf("W = %d writes in a roll of two nodes; kills %d of %d, restarts %d, overfills 0, lost 0",
		writes, len(s.kills), 2*writes, report.TotalRestarts())
	t.Log("killed at", kinds(s.kills))
	// Some rolls need fewer writes than the counted one: messages about waiting may be saved.
	require.GreaterOrEqual(t, len(s.kills), writes)
	requireKinds(t, s.kills)
}
