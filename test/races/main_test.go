// Package races kills, stops, doubles and blinds the controller at chosen moments. Its scenarios do so to
// the one controller of a control plane of their own, so they run one after another.
package races

import (
	"os"
	"testing"

	"github.com/paceline/paceline/test/e2e/harness"
	"github.com/paceline/paceline/test/rig/product"
)

var rig *harness.Rig

// alone has no leader election: one that is killed and started again need not wait for its own leadership
// to run out, and two act at the same time.
func alone(c product.Config) { c.Set("leaderElection", "enabled", false) }

func TestMain(m *testing.M) {
	os.Exit(harness.Run(m, harness.Options{
		Paceline: true, Race: true, Proxied: true, Configure: alone,
	}, func(r *harness.Rig) { rig = r }))
}
