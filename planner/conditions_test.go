package planner

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paceline/paceline/lease"
	"github.com/paceline/paceline/node"
)

// The conditions of a node, by their reasons; a reason of Reconciling or Stalled other than Settled
// means True.
func TestConditions(t *testing.T) {
	t.Parallel()
	queue := lease.Queue{Slots: 2, Holders: []string{"rpc-8", "rpc-9"}, Waiting: []string{"rpc-0"}}
	held := resting(asks("v2"), gated)
	late := func(f *Facts) { f.Now = moment.Add(10*time.Minute + time.Second) }
	onTime := func(f *Facts) { f.Now = moment.Add(10 * time.Minute) }
	broken := errors.New("why it failed")
	cases := map[string]struct {
		facts       Facts
		step        *Step // nil: what Next says
		previous    string
		update      string
		inProgress  bool
		reconciling string
		stalled     string
		paused      bool
		message     string // of NodeUpdateInProgress, a part of it
	}{
		"no drift":                    {resting(), nil, "", node.ReasonNoDrift, false, node.ReasonSettled, node.ReasonSettled, false, "runs what its template asks for"},
		"no drift, after a roll":      {resting(), nil, node.ReasonUpdateStarted, node.ReasonUpdateComplete, false, node.ReasonSettled, node.ReasonSettled, false, ""},
		"complete stays complete":     {resting(), nil, node.ReasonUpdateComplete, node.ReasonUpdateComplete, false, node.ReasonSettled, node.ReasonSettled, false, ""},
		"withdrawn: no drift":         {resting(), nil, node.ReasonUpdateDeferred, node.ReasonNoDrift, false, node.ReasonSettled, node.ReasonSettled, false, ""},
		"waiting names the holders":   {held, nil, "", node.ReasonUpdateDeferred, false, node.ReasonWaiting, node.ReasonSettled, false, "waits for a slot, place 1 for 2 slots held by rpc-8, rpc-9"},
		"waiting again after a roll":  {held, nil, node.ReasonUpdateComplete, node.ReasonUpdateDeferred, false, node.ReasonWaiting, node.ReasonSettled, false, "waits for a slot"},
		"waiting in a frozen cell":    {held.but(func(f *Facts) { f.Cell.Frozen = true }), nil, "", node.ReasonUpdateDeferred, false, node.ReasonFrozen, node.ReasonSettled, false, "the cell is frozen (annotation " + node.AnnotationFreeze + "); place 1"},
		"rolling":                     {rolling(), nil, node.ReasonUpdateDeferred, node.ReasonUpdateStarted, true, node.ReasonProgressing, node.ReasonSettled, false, "rolls on paceline-slot-0: replace-pod: waiting for 1 of 1 pods"},
		"at the deadline: not stuck":  {rolling(onTime), nil, "", node.ReasonUpdateStarted, true, node.ReasonProgressing, node.ReasonSettled, false, ""},
		"past the deadline: stuck":    {rolling(late), nil, "", node.ReasonUpdateStarted, true, node.ReasonProgressing, node.ReasonStuck, false, ""},
		"failed":                      {rolling(), &Step{Task: TaskApply, Err: broken}, node.ReasonUpdateStarted, node.ReasonUpdateFailed, false, node.ReasonProgressing, node.ReasonSettled, false, "why it failed"},
		"a plan that nobody knows":    {rolling(plan(`{"v":2}`)), nil, "", node.ReasonUpdateFailed, false, node.ReasonProgressing, node.ReasonSettled, false, "does not know the plan"},
		"failed and stuck":            {rolling(late), &Step{Err: broken}, "", node.ReasonUpdateFailed, false, node.ReasonProgressing, node.ReasonStuck, false, "why it failed"},
		"about to be freed: no roll":  {resting(holds), nil, "", node.ReasonNoDrift, false, node.ReasonSettled, node.ReasonSettled, false, ""},
		"paused by hand, waiting":     {held.but(pausedByHand), nil, "", node.ReasonUpdateDeferred, false, node.ReasonSettled, node.ReasonSettled, true, "paused by annotation " + node.AnnotationPaused + "; not queued"},
		"paused by hand, no drift":    {resting(pausedByHand), nil, "", node.ReasonNoDrift, false, node.ReasonSettled, node.ReasonSettled, true, ""},
		"replicas 0":                  {resting(replicas(0), runsPods(), neverCleared), nil, "", node.ReasonNoDrift, false, node.ReasonSettled, node.ReasonSettled, true, ""},
		"left pacing, held still":     {resting(asks("v2"), gated, leftPacing), nil, node.ReasonUpdateDeferred, node.ReasonUpdateDeferred, false, node.ReasonWaiting, node.ReasonSettled, false, "let go"},
		"left pacing after a message": {resting(leftPacing, neverCleared), nil, node.ReasonUpdateDeferred, node.ReasonNotPaced, false, node.ReasonSettled, node.ReasonSettled, false, "not paced"},
		"left pacing with drift":      {resting(asks("v2"), leftPacing, neverCleared), nil, node.ReasonUpdateDeferred, node.ReasonNotPaced, false, node.ReasonSettled, node.ReasonSettled, false, "not paced: Paceline does not look after it"},
		"left pacing, OnDelete drift": {resting(onDelete, asks("v2"), leftPacing, neverCleared), nil, node.ReasonUpdateComplete, node.ReasonNotPaced, false, node.ReasonSettled, node.ReasonSettled, false, "stay until somebody deletes them"},
		"left pacing in mid-roll":     {rolling(leftPacing), nil, node.ReasonUpdateStarted, node.ReasonUpdateStarted, true, node.ReasonProgressing, node.ReasonSettled, false, "rolls on paceline-slot-0: it left pacing in mid-roll"},
		"pinned: it waits":            {resting(pins), nil, "", node.ReasonUpdateDeferred, false, node.ReasonWaiting, node.ReasonSettled, false, "place 1 for 2 slots"},
		"an annotation nobody reads":  {resting(func(f *Facts) { f.Problems = []error{broken} }), nil, "", node.ReasonNoDrift, false, node.ReasonSettled, node.ReasonSettled, false, "asks for; why it failed"},
		"rolling without a slot yet":  {resting(asks("v2")), nil, "", node.ReasonUpdateStarted, true, node.ReasonProgressing, node.ReasonSettled, false, "without a slot"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			step := Next(c.facts)
			if c.step != nil {
				step = *c.step
			}
			got := map[string]node.Condition{}
			for _, condition := range Conditions(c.facts, step, queue, c.previous) {
				got[condition.Type] = condition
			}
			require.Len(t, got, 4, "all are always there")
			require.Equal(t, c.update, got[node.ConditionUpdate].Reason)
			require.Equal(t, c.inProgress, got[node.ConditionUpdate].Status)
			require.Contains(t, got[node.ConditionUpdate].Message, c.message)
			require.Equal(t, c.reconciling, got[node.ConditionReconciling].Reason)
			require.Equal(t, c.reconciling != node.ReasonSettled, got[node.ConditionReconciling].Status)
			require.Equal(t, c.stalled, got[node.ConditionStalled].Reason)
			require.Equal(t, c.stalled != node.ReasonSettled, got[node.ConditionStalled].Status)
			require.Equal(t, c.paused, got[node.ConditionPaused].Status)
			if c.stalled != node.ReasonSettled {
				require.Contains(t, got[node.ConditionStalled].Message, "no progress on paceline-slot-0 for more than 10m0s")
			}
		})
	}
}

// A StatefulSet that has nothing to do with Paceline gets no conditions.
func TestNoConditionsOutsidePacing(t *testing.T) {
	t.Parallel()
	f := resting(leftPacing, neverCleared)
	require.Nil(t, Conditions(f, Next(f), lease.Queue{}, ""))
}
