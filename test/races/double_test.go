package races

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/paceline/paceline/test/e2e/harness"
	"github.com/paceline/paceline/test/rig/controlplane"
	"github.com/paceline/paceline/test/rig/product"
	"github.com/paceline/paceline/test/rig/proxy"
)

// Two controllers act at the same time, as if leader election had failed.
func TestTwoControllersAtOnce(t *testing.T) {
	rig.Proxy.Count(nil)
	cell := rig.NewCell(t, harness.CellOptions{Budget: "25", Nodes: 8, ReadyAfter: 100 * time.Millisecond, Change: onDeleteOdd})
	rig.Another(t, "second", alone)
	for i := range 3 {
		image := fmt.Sprintf("app:two-%d", i)
		bump(t, cell, image)
		cell.WaitImage(t, image)
	}
	report := cell.AssertMaxDown(t, 2)
	require.Empty(t, report.WithoutSlot())
	require.LessOrEqual(t, report.MaxHolders, 2)
	require.Equal(t, 24, report.TotalRestarts())
}

// sleeper is a second controller that is stopped in the middle of a write, with what it asked for on the
// wire, and wakes when the first one has done everything.
type sleeper struct {
	controller *product.Controller
	proxy      *proxy.Proxy
	rolls      int
	asleep     chan proxy.Write // the write at which it was stopped
	wake       chan struct{}    // closed: that write goes on
}

// stopAt stops the sleeper at the k-th write that fits.
func (s *sleeper) stopAt(k int, fits func(proxy.Write) bool) {
	s.asleep, s.wake = make(chan proxy.Write, 1), make(chan struct{})
	asleep, wake := s.asleep, s.wake
	var seen atomic.Int32
	s.proxy.Count(func(w proxy.Write) bool {
		if w.Status != 0 || !fits(w) || int(seen.Add(1)) != k {
			return true
		}
		_ = s.controller.Process().Signal(syscall.SIGSTOP) // the test waits for asleep, and its roll
		asleep <- w
		<-wake
		return true
	})
}

// A condition says something, it decides nothing.
func decides(w proxy.Write) bool { return w.Resource != "statefulsets/status" }

func deletes(w proxy.Write) bool { return w.Method == http.MethodDelete }

// onDeleteOdd gives every other node the strategy OnDelete.
func onDeleteOdd(i int, set *appsv1.StatefulSet) {
	if i%2 == 1 {
		set.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
	}
}

// A stopped process wakes when what it was about to write has long been done by another one. The first
// controller is blind until the sleeper is stopped, so it is the sleeper that begins.
func TestAStoppedControllerWakes(t *testing.T) {
	rig.Proxy.Count(nil)
	cell := pair(t)
	s := &sleeper{}
	s.controller, s.proxy = rig.Another(t, "sleeper", alone)
	var stops []proxy.Write
	for reached, k := true, 1; reached; k++ { // until a roll has fewer writes than k
		reached = s.sleepOnce(t, cell, &stops, k, decides)
	}
	require.Greater(t, len(stops), 10)
	require.True(t, s.sleepOnce(t, cell, &stops, 1, deletes))
	report := cell.AssertMaxDown(t, 1)
	require.Empty(t, report.WithoutSlot())
	require.Equal(t, 2*s.rolls, report.TotalRestarts())
	t.Logf("stopped %d times, restarts %d, at %v", len(stops), report.TotalRestarts(), kinds(stops))
	requireKinds(t, stops)
}

// sleepOnce rolls the cell. The first controller is blind until the sleeper is stopped at its k-th write that
// fits, then does all the rest, then the sleeper wakes. It reports false if the sleeper did all without such a write.
func (s *sleeper) sleepOnce(t *testing.T, cell *harness.Cell, stops *[]proxy.Write, k int, fits func(proxy.Write) bool) bool {
	t.Helper()
	s.rolls++
	image := fmt.Sprintf("app:wake-%d", s.rolls)
	s.stopAt(k, fits)
	rig.Proxy.HoldBack("statefulsets", "leases", "pods")
	bump(t, cell, image)
	reached := false
	cell.WaitFor(t, "the sleeper to come to its write", func(ctx context.Context) error {
		select {
		case w := <-s.asleep:
			reached = true
			*stops = append(*stops, w)
			return nil
		default:
		}
		return cell.Rolled(ctx, image)
	})
	rig.Proxy.Release()
	cell.WaitImage(t, image)
	close(s.wake)
	if reached {
		require.NoError(t, s.controller.Process().Signal(syscall.SIGCONT))
	}
	settle(t, cell, image)
	return reached
}

// A controller that was stopped until another took its leadership ends when it wakes: nothing of it acts.
func TestAControllerThatLostItsLeadershipEnds(t *testing.T) {
	rig.Proxy.Count(nil)
	cell := pair(t)
	controller, _ := rig.Another(t, "former", func(c product.Config) {
		c.Set("leaderElection", "enabled", true).Set("leaderElection", "namespace", controlplane.Namespace)
	})
	leases := cell.Client.CoordinationV1().Leases(controlplane.Namespace)
	cell.WaitFor(t, "it to lead", func(ctx context.Context) error {
		lease, err := leases.Get(ctx, "paceline-leader", metav1.GetOptions{})
		if err == nil && (lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "") {
			err = fmt.Errorf("nobody does")
		}
		return err
	})
	require.NoError(t, controller.Process().Signal(syscall.SIGSTOP))
	lease, err := leases.Get(t.Context(), "paceline-leader", metav1.GetOptions{})
	require.NoError(t, err)
	other, now := "another", metav1.NowMicro()
	lease.Spec.HolderIdentity, lease.Spec.RenewTime = &other, &now
	_, err = leases.Update(t.Context(), lease, metav1.UpdateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = leases.Delete(context.WithoutCancel(t.Context()), "paceline-leader", metav1.DeleteOptions{})
	})

	bump(t, cell, "app:former")
	settle(t, cell, "app:former")
	require.NoError(t, controller.Process().Signal(syscall.SIGCONT))
	require.Error(t, controller.Wait(), "it ends with exit status 1")
	report := cell.AssertMaxDown(t, 1)
	require.Equal(t, 2, report.TotalRestarts())
	require.Empty(t, report.WithoutSlot())
}
