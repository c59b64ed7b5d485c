package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/paceline/paceline/test/e2e/harness"
)

// The controller is killed at random moments 20 times in a roll of 12. It runs beside no other
// scenario: they share one controller.
func TestTheControllerIsKilledTwentyTimes(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	cell := rig.NewCell(t, harness.CellOptions{
		Budget: "25", Nodes: 12, Change: func(i int, set *appsv1.StatefulSet) {
			if i%2 == 1 {
				set.Spec.UpdateStrategy.Type = onDelete
			}
		},
	})
	cell.SetImage(t, "app:v2")
	image, kills := "app:v2", 0
	for bump := 3; kills < 20; kills++ {
		// A moment is a number of changes of slot holders, not of seconds: it lies inside a roll.
		at := len(cell.Report().Holders) + 1 + random.IntN(3)
		cell.WaitFor(t, "the roll to go on", func(context.Context) error {
			if got := len(cell.Report().Holders); got < at && cell.Rolling(t.Context()) {
				return fmt.Errorf("%d of %d changes of holders", got, at)
			}
			return nil
		})
		if !cell.Rolling(t.Context()) { // all rolled before the twentieth kill: another bump
			image = fmt.Sprintf("app:v%d", bump)
			bump++
			cell.SetImage(t, image)
		}
		require.NoError(t, rig.Controller.Restart(t.Context()))
	}
	cell.WaitImage(t, image)
	report := cell.AssertMaxDown(t, 3)
	require.Empty(t, report.WithoutSlot())
	require.LessOrEqual(t, report.MaxHolders, 3)
	t.Logf("kills %d, restarts %d, most down %d", kills, report.TotalRestarts(), report.MaxDown)
}
