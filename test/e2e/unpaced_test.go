package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paceline/paceline/test/checker"
	"github.com/paceline/paceline/test/e2e/harness"
)

// Without Paceline a fleet goes down as one. This is also what shows that the checker sees an outage
// on the real thing.
func TestUnpacedFleetGoesDownTogether(t *testing.T) {
	t.Parallel()
	cell := rig.NewCell(t, harness.CellOptions{Unpaced: true, Nodes: 12})
	cell.SetImage(t, "app:v2")
	cell.WaitImage(t, "app:v2")
	report := cell.Finish(t, checker.Expect{MaxDown: 12, MinRestarts: 12})
	require.GreaterOrEqual(t, report.MaxDown, 10)
	require.Len(t, report.Rolls, 12)
	for _, roll := range report.Rolls {
		require.True(t, roll.Ended())
		require.Equal(t, "app:v1", roll.FromImage)
		require.Equal(t, "app:v2", roll.ToImage)
	}
	require.ErrorContains(t, report.Verdict(checker.Expect{MaxDown: 3}), "want at most 3")
}

// The checker's end is no guess: nothing happened, and it says so.
func TestCheckerSeesThatNothingHappened(t *testing.T) {
	t.Parallel()
	cell := rig.NewCell(t, harness.CellOptions{Unpaced: true, Nodes: 2, Replicas: 2})
	report := cell.Finish(t, checker.Expect{Quiet: true})
	require.Equal(t, []string{"rpc-00", "rpc-01"}, report.Nodes)
	require.ErrorContains(t, report.Verdict(checker.Expect{}), "saw 0 pods replaced")
}

// A pod that is deleted by hand is an outage of its node, once.
func TestCheckerSeesADeletedPod(t *testing.T) {
	t.Parallel()
	cell := rig.NewCell(t, harness.CellOptions{Unpaced: true, Nodes: 2, Replicas: 2})
	cell.DeletePod(t, "rpc-01-0")
	cell.WaitFor(t, "the pod's successor", func(context.Context) error { return successor(cell.Report(), "rpc-01-0") })
	report := cell.AssertMaxDown(t, 1)
	require.Equal(t, map[string]int{"rpc-01": 1}, report.Restarts)
	require.Equal(t, []string{"rpc-01"}, report.Order())
}

func successor(report checker.Report, pod string) error {
	for _, roll := range report.Rolls {
		if roll.Pod == pod && roll.ToUID != "" && roll.Ended() {
			return nil
		}
	}
	return fmt.Errorf("%s was not replaced", pod)
}
