// Package e2e has the scenarios that need a real API server. They share one control plane; each has a
// cell of its own.
package e2e

import (
	"os"
	"testing"

	"github.com/paceline/paceline/test/e2e/harness"
)

var rig *harness.Rig

func TestMain(m *testing.M) {
	os.Exit(harness.Run(m, harness.Options{Paceline: true, Race: true}, func(r *harness.Rig) { rig = r }))
}
