package races

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/paceline/paceline/test/e2e/harness"
	"github.com/paceline/paceline/test/rig/proxy"
)

// pair is a cell with one slot and one node of each update strategy: a roll of it has every kind of write.
func pair(t *testing.T) *harness.Cell {
	t.Helper()
	return rig.NewCell(t, harness.CellOptions{
		Budget: "50", Nodes: 2, ReadyAfter: 100 * time.Millisecond, Change: onDeleteOdd,
	})
}

// bump asks for an image on every node, again where the webhook is not there to be asked.
func bump(t *testing.T, cell *harness.Cell, image string) {
	t.Helper()
	patch := fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":%q,"image":%q}]}}}}`, harness.Container, image)
	for _, name := range cell.Nodes {
		cell.WaitFor(t, "the bump of "+name, func(ctx context.Context) error {
			_, err := cell.Client.AppsV1().StatefulSets(cell.Name).Patch(ctx, name, types.StrategicMergePatchType,
				[]byte(patch), metav1.PatchOptions{FieldManager: "writer"})
			return err
		})
	}
}

// settle waits until all nodes run the image and say so: then the controller has nothing left to write. A
// kill between the release and the condition leaves NoDrift behind: nobody remembers that it was an update.
func settle(t *testing.T, cell *harness.Cell, image string) {
	t.Helper()
	cell.WaitImage(t, image)
	cell.WaitFor(t, "all nodes to say that they are up to date", func(ctx context.Context) error {
		sets, err := cell.Client.AppsV1().StatefulSets(cell.Name).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, set := range sets.Items {
			if reason := updateReason(set); reason != "UpdateComplete" && reason != "NoDrift" {
				return fmt.Errorf("%s says %q", set.Name, reason)
			}
		}
		return nil
	})
}

func updateReason(set appsv1.StatefulSet) string {
	for _, condition := range set.Status.Conditions {
		if condition.Type == "NodeUpdateInProgress" {
			return condition.Reason
		}
	}
	return ""
}

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
	report := s.cell.AssertMaxDown(t, 1)
	require.Empty(t, report.WithoutSlot())
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

func kinds(writes []proxy.Write) map[string]int {
	counts := map[string]int{}
	for _, w := range writes {
		counts[w.Method+" "+w.Resource]++
	}
	return counts
}

// requireKinds makes sure that the sweep met a slot, a gate and a pod, not messages alone.
func requireKinds(t *testing.T, kills []proxy.Write) {
	t.Helper()
	for _, resource := range []string{"leases", "statefulsets", "pods"} {
		require.True(t, slices.ContainsFunc(kills, func(w proxy.Write) bool { return w.Resource == resource }), "no kill at a write of %s", resource)
	}
}
