package planner

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paceline/paceline/lease"
	"github.com/paceline/paceline/node"
)

func ordinalsFrom(start int32) with {
	return func(f *Facts) {
		f.Start = start
		for i := range f.Pods {
			f.Pods[i].Ordinal += int(start)
		}
	}
}

func blinks(f *Facts) {
	for i := range f.Pods {
		if !f.Pods[i].Ready {
			f.Pods[i].UnreadySince = f.Now.Add(-time.Second)
		}
	}
}

// The StatefulSet controller may put back older conditions at any time. What was completed stays so until the next
// wish waits or rolls.
func TestACompletedUpdateIsRemembered(t *testing.T) {
	t.Parallel()
	reason := func(m *memory, f Facts, putBack string) string {
		want := Conditions(f, Next(f), lease.Queue{}, m.before(putBack))
		m.saw(want)
		return want[0].Reason
	}
	m := &memory{}
	require.Equal(t, node.ReasonNoDrift, reason(m, resting(), node.ReasonUpdateDeferred), "lifted, not completed")
	m.note(moment, Step{Effect: Release{}}, errStale)
	require.Equal(t, node.ReasonNoDrift, reason(m, resting(), node.ReasonUpdateDeferred))
	m.note(moment, Step{Effect: Release{}}, nil)
	for range 2 {
		require.Equal(t, node.ReasonUpdateComplete, reason(m, resting(), node.ReasonUpdateDeferred))
	}
	require.Equal(t, node.ReasonUpdateDeferred, reason(m, resting(asks("v2"), gated), node.ReasonUpdateComplete))
	require.Equal(t, node.ReasonNoDrift, reason(m, resting(), node.ReasonUpdateDeferred), "the next one was withdrawn")
}

// A node that leaves pacing in mid-roll keeps its slot until its pods are back, whatever cleared says.
func TestLeavingInMidRollKeepsTheSlotUntilThePodsAreBack(t *testing.T) {
	t.Parallel()
	fresh, coming := pod{"v2", ""}, pod{"v2", notReady}
	forgotten := func(f *Facts) { f.Cleared, f.HasSlot, f.View.Slot = nil, false, nil }
	for name, c := range map[string]struct {
		facts Facts
		want  Effect
	}{
		"the new pod is coming":                  {rolling(leftPacing, runsPods(coming)), nil},
		"the new pod is coming, OnDelete":        {rolling(onDelete, leftPacing, runsPods(coming)), nil},
		"the new pod is ready":                   {rolling(leftPacing, runsPods(fresh), counts(1, 1)), Free{}},
		"the new pod is ready, OnDelete":         {rolling(onDelete, leftPacing, runsPods(fresh), counts(1, 1)), Free{}},
		"the old pod is to go still":             {rolling(leftPacing, runsPods(pod{"v1", ""})), nil},
		"OnDelete, nobody replaces the old pod":  {rolling(onDelete, leftPacing, runsPods(pod{"v1", ""})), Free{}},
		"it never comes: freed at the deadline":  {rolling(leftPacing, runsPods(coming), func(f *Facts) { f.Now = f.Now.Add(11 * time.Minute) }), Free{}},
		"paused meanwhile":                       {rolling(leftPacing, runsPods(), replicas(0)), Free{}},
		"back in pacing before the pod is ready": {rolling(forgotten, runsPods(coming)), Open{}},
		"back in pacing, the pod is ready":       {rolling(forgotten, runsPods(fresh), counts(1, 1)), Free{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, Next(c.facts).Effect)
		})
	}
}

// An update that is staged, with the writer's own partition above all pods, ends without a pod replaced.
func TestAStagedUpdateGivesItsSlotBack(t *testing.T) {
	t.Parallel()
	three := []pod{{"v1", ""}, {"v1", ""}, {"v1", ""}}
	staged := rolling(replicas(3), ownPartition(3), runsPods(three...), counts(0, 3))
	want := node.Cleared{Revision: "r-v2", Ready: true, Running: paced("v1"), Partition: 3, Canary: paced("v2")}
	require.Equal(t, Release{want}, Next(staged).Effect)
}

// Kubernetes counts a partition from the first ordinal.
func TestPartitionCountsFromTheFirstOrdinal(t *testing.T) {
	t.Parallel()
	old, fresh := pod{"v1", ""}, pod{"v2", ""}
	f := rolling(replicas(4), ownPartition(2), runsPods(old, old, fresh, fresh), ordinalsFrom(5), counts(2, 4))
	step := Next(f)
	require.IsType(t, Release{}, step.Effect, step.Waiting)
	broken := rolling(replicas(4), ownPartition(2), runsPods(pod{"v1", notReady}, old, old, fresh), ordinalsFrom(5))
	require.Nil(t, Next(broken).Effect, "a pod below the partition stays, however broken")
}

// A pod that has just lost its readiness is not taken for broken while another is coming up.
func TestABlinkIsNoReasonToReplaceASecondPod(t *testing.T) {
	t.Parallel()
	pods := runsPods(pod{"v1", notReady}, pod{"v1", ""}, pod{"v2", notReady})
	for _, strategy := range []with{func(*Facts) {}, onDelete} {
		f := rolling(replicas(3), strategy, pods, blinks)
		require.Nil(t, replacePod(f).Effect)
		f.Now = f.Now.Add(brokenAfter)
		require.Equal(t, DeletePod{f.Pods[2]}, replacePod(f).Effect, "broken for long, it would block the others")
	}
}

// On RollingUpdate Kubernetes waits for such a pod too: the message says for which.
func TestAWaitForAnUnreadyPodNamesIt(t *testing.T) {
	t.Parallel()
	f := rolling(replicas(2), runsPods(pod{"v1", notReady}, pod{"v2", ""}), blinks)
	require.Equal(t, "pod rpc-0-0 of the older revision is not ready; it is replaced after 30s of that", replacePod(f).Waiting)
}

// A message that only counts differently waits; a freeze, a thaw, a pause and its end do not.
func TestConditionsAreWrittenWhenAReasonChanges(t *testing.T) {
	t.Parallel()
	waits := resting(asks("v2"), gated)
	frozen := func(f *Facts) { f.Cell.Frozen = true }
	stopped := resting(replicas(0), runsPods(), neverCleared)
	for name, c := range map[string]struct {
		before, after Facts
		since         time.Duration
		want          bool
	}{
		"nothing new":                    {waits, waits, 0, false},
		"a minute later":                 {waits, waits, time.Minute, true},
		"frozen":                         {waits, waits.but(frozen), 0, true},
		"thawed":                         {waits.but(frozen), waits, 0, true},
		"scaled to 0":                    {resting(), stopped, 0, true},
		"scaled up again":                {stopped, resting(neverCleared), 0, true},
		"paused by hand":                 {waits, waits.but(pausedByHand), 0, true},
		"its slot came":                  {waits, rolling(), 0, true},
		"rolling, a moment later":        {rolling(), rolling(), time.Second, false},
		"rolling, a while later":         {rolling(), rolling(), refreshRolling, true},
		"left pacing":                    {resting(), resting(leftPacing), 0, true},
		"left pacing, what it runs said": {resting(leftPacing), resting(leftPacing), 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			have, _ := node.SetConditions(nil, Conditions(c.before, Next(c.before), lease.Queue{}, node.ReasonNoDrift), moment)
			want := Conditions(c.after, Next(c.after), lease.Queue{}, node.ReasonOf(have, node.ConditionUpdate))
			require.Equal(t, c.want, c.after.due(have, want, c.after.Now.Add(-c.since)))
		})
	}
}

// Falling back is no progress: a pod that crashes again and again is stuck in the end.
func TestProgressOnlyGrows(t *testing.T) {
	t.Parallel()
	r := &NodeReconciler{}
	look := func(pods ...pod) bool {
		f := rolling(replicas(int32(len(pods))), runsPods(pods...))
		step := Next(f)
		step.Effect, step.Plan = nil, nil
		r.remember(f, &step)
		return step.Plan != nil
	}
	old, fresh, coming := pod{"v1", ""}, pod{"v2", ""}, pod{"v2", notReady}
	require.False(t, look(old, old), "the first look")
	require.True(t, look(old, coming))
	require.True(t, look(old, fresh))
	require.False(t, look(old, coming), "it crashed")
	require.False(t, look(old, fresh), "and came back")
	require.True(t, look(coming, fresh))
}

// A gate that is refused to open is tried again, with pauses that grow; each try is an attempt and no progress.
func TestARefusedGateIsTriedWithPauses(t *testing.T) {
	t.Parallel()
	m := &memory{}
	opens := Step{Effect: Open{}}
	var pauses []time.Duration
	now := moment
	for range 8 {
		m.note(now, opens, errors.New("refused"))
		step := opens
		m.pause(now, &step)
		require.Nil(t, step.Effect)
		pauses = append(pauses, step.Again)
		now = now.Add(step.Again)
		step = opens
		m.pause(now, &step)
		require.Equal(t, Open{}, step.Effect)
	}
	require.Equal(t, []time.Duration{1, 2, 4, 8, 16, 32, 60, 60}, seconds(pauses))
	m.note(now, opens, errStale)
	require.Zero(t, m.refused)

	plan := NewPlan(rolling().View, node.PaceImages, 3, moment)
	again := plan.another()
	require.Equal(t, 2, again.Tasks[0].Attempt)
	require.NotEqual(t, plan.Tasks[0].ID, again.Tasks[0].ID)
	require.Equal(t, 1, plan.Tasks[0].Attempt, "the plan itself stays")
}

func seconds(durations []time.Duration) []time.Duration {
	out := make([]time.Duration, 0, len(durations))
	for _, d := range durations {
		out = append(out, d/time.Second)
	}
	return out
}

func named(name string, changes ...with) lease.Node {
	view := resting(changes...).View
	view.Name = name
	return lease.Node{View: view}
}

// Held nodes that left pacing are let go as many at a time as there were slots, whoever else is broken.
func TestLeaving(t *testing.T) {
	t.Parallel()
	held := func(name string, changes ...with) lease.Node {
		return named(name, append([]with{asks("v2"), gated}, changes...)...)
	}
	broken := func(f *Facts) { f.Status.Ready = 0 }
	other := named("other", broken)
	letGo := named("let-go", broken, func(f *Facts) { f.Touched = moment.Add(-touchEvery) })
	slots := []lease.Slot{{Name: "paceline-slot-0"}}
	parked := named("parked", ownPartition(node.HeldPartition))
	for name, c := range map[string]struct {
		nodes   []lease.Node
		enabled bool
		want    int
	}{
		"one slot, one at a time":                         {[]lease.Node{held("a"), held("b")}, true, 1},
		"a set that was never let go is no bar":           {[]lease.Node{held("a"), other}, true, 1},
		"one that was let go and rolls is":                {[]lease.Node{held("a"), letGo}, true, 0},
		"one whose webhook does not answer is":            {[]lease.Node{held("a"), held("b", func(f *Facts) { f.Touched = moment })}, true, 0},
		"the reserved partition outside a cell is not us": {[]lease.Node{parked}, false, 0},
		"the reserved partition in a cell is let go":      {[]lease.Node{parked}, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := pass{cell: node.Cell{Enabled: c.enabled}, nodes: c.nodes, slots: slots}
			require.Len(t, p.leaving(moment, 10*time.Minute), c.want)
		})
	}
	require.Len(t, pass{cell: node.Cell{Enabled: true}, nodes: []lease.Node{held("a"), letGo}, slots: slots}.
		leaving(moment.Add(time.Hour), 10*time.Minute), 1, "one that never becomes ready keeps nobody for ever")
}
