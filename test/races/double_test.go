package races

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/paceline/paceline/test/e2e/harness"
	"github.com/paceline/paceline/test/rig/controlplane"
	"github.com/paceline/paceline/test/rig/product"
	"github.com/paceline/paceline/test/rig/proxy"
)

// Two controllers act at the same time, as if leader election had failed.
func TestTwoControllersAtOnce(t *testing.T) {
	cell := newCell(t, "25", 8)
	rig.Another(t, "second", alone)
	for i := range 3 {
		image := fmt.Sprintf("app:two-%d", i)
		bump(t, cell, image)
		cell.WaitImage(t, image)
	}
	report := judge(t, cell, 2)
	require.Equal(t, 24, report.TotalRestarts())
}

// sleeper is a second controller that is stopped in the middle of a write, with what it asked for on the
// wire, and wakes when the first one has done everything.
type sleeper struct {
	controller *product.Controller
	proxy      *proxy.Proxy
	rolls      int
	stops      []proxy.Write
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

// A stopped process wakes when what it was about to write has long been done by another one. The first
// controller is blind until the sleeper is stopped, so it is the sleeper that begins.
func TestAStoppedControllerWakes(t *testing.T) {
	cell := pair(t)
	s := &sleeper{}
	s.controller, s.proxy = rig.Another(t, "sleeper", alone)
	for reached, k := true, 1; reached; k++ { // until a roll has fewer writes than k
		reached = s.sleepOnce(t, cell, k, decides)
	}
	require.Greater(t, len(s.stops), 10)
	require.True(t, s.sleepOnce(t, cell, 1, deletes))
	report := judge(t, cell, 1)
	require.Equal(t, 2*s.rolls, report.TotalRestarts())
	t.Logf("stopped %d times, restarts %d, at %v", len(s.stops), report.TotalRestarts(), kinds(s.stops))
	requireKinds(t, s.stops)
}

// sleepOnce rolls the cell. The first controller is blind until the sleeper is stopped at its k-th write that
// fits, then does all the rest, then the sleeper wakes. It reports false if the sleeper did all without such a write.
func (s *sleeper) sleepOnce(t *testing.T, cell *harness.Cell, k int, fits func(proxy.Write) bool) bool {
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
			s.stops = append(s.stops, w)
			return nil
		default:
		}
		return cell.Rolled(ctx, image)
	})
	rig.Proxy.Release()
	cell.WaitImage(t, image)
	close(s.wake)
	require.NoError(t, s.controller.Process().Signal(syscall.SIGCONT))
	settle(t, cell, image)
	return reached
}

// A controller that was stopped until another took its leadership ends when it wakes: nothing of it acts.
func TestAControllerThatLostItsLeadershipEnds(t *testing.T) {
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
	report := judge(t, cell, 1)
	require.Equal(t, 2, report.TotalRestarts())
}
