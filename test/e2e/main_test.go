// Package e2e has the scenarios that need a real API server. They share one control plane; each has a
// cell of its own.
package e2e

import (
	"os"
	"testing"

	"github.com/paceline/paceline/test/e2e/harness"
	"github.com/paceline/paceline/test/rig/product"
)

var rig *harness.Rig

func TestMain(m *testing.M) {
	os.Exit(harness.Run(m, harness.Options{
		Paceline: true, Race: true,
		// One replica, killed again and again: it need not wait for its predecessor's leadership to run out.
		// A stuck node is stuck within a scenario's patience.
		Configure: func(c product.Config) {
			c.Set("leaderElection", "enabled", false).Set("rollout", "progressDeadline", "20s")
		},
	}, func(r *harness.Rig) { rig = r }))
}
