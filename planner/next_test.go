package planner

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paceline/paceline/node"
)

// TestRoll plays each change to its end: every line is one look at the node.
func TestRoll(t *testing.T) {
	t.Parallel()
	old, oldBroken, fresh, freshBroken := pod{"v1", ""}, pod{"v1", notReady}, pod{"v2", ""}, pod{"v2", notReady}
	type look struct {
		facts  Facts
		task   TaskType
		effect Effect
	}
	held := resting(asks("v2"), gated, holds)
	manual := resting(onDelete, asks("v2"), holds, open)
	three := manual.but(replicas(3))
	canary := rolling(replicas(3), ownPartition(1))
	final := cleared("v2")
	atOwn := final
	atOwn.Partition, atOwn.Running = 1, paced("v1")
	notYet := final
	notYet.Ready = false
	cases := map[string][]look{
		"pinned: the slot renders what is deferred, then as ever": {
			{resting(pins, holds), TaskApply, Open{}},
			{resting(pins, holds, open), TaskApply, Touch{}},
			{rolling(unobserved), TaskReplace, nil},
			{rolling(), TaskReplace, nil},
		},
		"RollingUpdate, one replica": {
			{held, TaskApply, Open{}},
			{held.but(open), TaskApply, Touch{}},
			{rolling(unobserved), TaskReplace, nil},
			{rolling(), TaskReplace, nil},
			{rolling(runsPods(pod{"v1", going})), TaskReplace, nil},
			{rolling(runsPods(freshBroken), counts(0, 0)), TaskObserve, nil},
			{rolling(runsPods(freshBroken), counts(1, 0)), TaskReady, nil},
			{rolling(runsPods(fresh), counts(1, 0)), TaskReady, nil},
			{rolling(runsPods(fresh), counts(1, 1)), "", Release{final}},
		},
		"RollingUpdate, a broken pod does not wait for itself": {
			{rolling(runsPods(oldBroken)), TaskReplace, DeletePod{fleet(oldBroken)[0]}},
			{rolling(runsPods(pod{"v1", going})), TaskReplace, nil},
			{rolling(runsPods(fresh), counts(1, 1)), "", Release{final}},
		},
		"OnDelete, one replica": {
			{resting(onDelete, asks("v2"), gated, holds), TaskApply, Open{}},
			{manual, TaskReplace, DeletePod{fleet(old)[0]}},
			{manual.but(runsPods()), TaskReplace, nil},
			{manual.but(runsPods(freshBroken), counts(1, 0)), TaskReady, nil},
			{manual.but(runsPods(fresh), counts(1, 1)), "", Release{final}},
		},
		"OnDelete, three replicas, one after the other": {
			{three.but(runsPods(old, old, old)), TaskReplace, DeletePod{fleet(old, old, old)[0]}},
			{three.but(runsPods(old, old, freshBroken)), TaskReplace, nil},
			{three.but(runsPods(old, old, fresh)), TaskReplace, DeletePod{fleet(old, old)[0]}},
			{three.but(runsPods(old, fresh, fresh)), TaskReplace, DeletePod{fleet(old)[0]}},
			{three.but(runsPods(fresh, fresh, fresh), counts(3, 3)), "", Release{final}},
		},
		"a partition of its own: what is below it stays and is known": {
			{canary.but(runsPods(old, old, fresh)), TaskReplace, nil},
			{canary.but(runsPods(old, fresh, fresh), counts(2, 2)), "", Release{atOwn}},
		},
		"release-slot Updated: freed before it is ready": {
			{rolling(whenUpdated), TaskReplace, nil},
			{rolling(whenUpdated, runsPods(freshBroken), counts(1, 0)), "", Release{notYet}},
		},
		"an evicted pod takes a plan back": {
			{rolling(runsPods(fresh), counts(1, 0)), TaskReady, nil},
			{rolling(runsPods(), counts(0, 0)), TaskReplace, nil},
		},
		"paused in mid-plan: nothing to wait for, forgotten, then free": {
			{rolling(replicas(0), runsPods(pod{"v1", going}), counts(0, 0)), TaskReplace, nil},
			{rolling(replicas(0), runsPods(), counts(0, 0)), "", Forget{}},
			{resting(asks("v2"), replicas(0), neverCleared, holds, runsPods()), "", Free{}},
		},
		"withdrawn before the gate was open: free": {{resting(holds), "", Free{}}},
		"released, the Lease still held: free":     {{resting(asks("v2"), holds, runsPods(fresh), clearedAt(final)), "", Free{}}},
		"withdrawn after the gate was open: rolled back, then released": {
			{resting(holds, open, runsPods(fresh), counts(0, 1), clearedAt(cleared("v1"))), TaskReplace, nil},
			{resting(holds, open), "", Release{cleared("v1")}},
		},
		"pods of a revision that nobody knows: not released": {{rolling(runsPods(fresh), counts(1, 1), forgetsRevs), "", nil}},
		"left pacing, OnDelete: free at once":                {{manual.but(leftPacing), "", Free{}}},
		"left pacing, still rolling: the slot stays":         {{rolling(leftPacing), "", nil}},
		"left pacing, all rolled: free":                      {{rolling(leftPacing, runsPods(fresh), clearedAt(final)), "", Free{}}},
		"left pacing, still held: free":                      {{held.but(leftPacing), "", Free{}}},
		"being deleted: nothing":                             {{rolling(beingDeleted), "", nil}},
	}
	for name, looks := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i, l := range looks {
				step := Next(l.facts)
				require.NoError(t, step.Err)
				require.Equal(t, l.task, step.Task, "look %d", i)
				require.Equal(t, l.effect, step.Effect, "look %d: %s", i, step.Waiting)
				require.Equal(t, step, Next(l.facts), "asked again, it says the same")
			}
		})
	}
}

// A plan carries on where the last look left it, and says how far it is.
func TestPlanProgress(t *testing.T) {
	t.Parallel()
	states := func(p *Plan) (out []TaskState) {
		for _, task := range p.Tasks {
			out = append(out, task.State)
		}
		return out
	}
	f := rolling()
	first := Next(f)
	require.Equal(t, []TaskState{StateDone, StateRunning, StatePending, StatePending}, states(first.Plan))
	require.True(t, moment.Equal(*first.Plan.Tasks[1].Started))

	f = f.but(plan(first.Plan.String()), func(f *Facts) { f.Now = moment.Add(time.Minute) })
	again := Next(f)
	require.Nil(t, again.Plan, "what stands there already is not written again")
	require.Equal(t, first.Plan.String(), again.Running.String())

	further := Next(f.but(runsPods(pod{"v2", notReady}), counts(1, 0)))
	require.Equal(t, []TaskState{StateDone, StateDone, StateDone, StateRunning}, states(further.Plan))
	require.True(t, moment.Equal(*further.Plan.Tasks[1].Started), "a start is kept")
	require.True(t, moment.Add(time.Minute).Equal(*further.Plan.Tasks[1].Ended))

	evicted := Next(f.but(plan(further.Plan.String()), runsPods(), counts(0, 0)))
	require.Equal(t, []TaskState{StateDone, StateRunning, StatePending, StatePending}, states(evicted.Plan))
	require.Nil(t, evicted.Plan.Tasks[1].Ended)
	require.Equal(t, first.Plan.ID, evicted.Plan.ID)
}

func TestPlanMadeAnew(t *testing.T) {
	t.Parallel()
	f := rolling()
	before, err := ParsePlan(f.Slot.Plan)
	require.NoError(t, err)
	later := func(f *Facts) { f.Now = moment.Add(time.Minute) }
	cases := map[string]struct {
		facts Facts
		anew  bool
	}{
		"the same wish keeps its plan":                    {f.but(later), false},
		"an unpaced change keeps its plan":                {f.but(later, func(f *Facts) { f.Template.Template = "sha256:x" }), false},
		"a new wish in mid-roll is a new plan, same slot": {f.but(later, asks("v3")), true},
		"a truncated plan is made anew":                   {f.but(later, plan(f.Slot.Plan[:40])), true},
		"a plan that somebody took off is made anew":      {f.but(later, plan("")), true},
		"a plan of another node is made anew":             {f.but(later, plan(NewPlan(node.View{Name: "rpc-9", UID: "x"}, node.PaceImages, 3, moment).String())), true},
		"a plan of the slot's last holding is made anew":  {f.but(later, plan(NewPlan(f.View, node.PaceImages, 2, moment).String())), true},
		"A to B to A in mid-roll is a new plan each time": {rolling(later, plan(NewPlan(f.but(asks("v3")).View, node.PaceImages, 3, moment).String())), true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			step := Next(c.facts)
			require.NoError(t, step.Err)
			require.NotNil(t, step.Running)
			if !c.anew {
				require.Equal(t, before.ID, step.Running.ID)
				return
			}
			require.NotEqual(t, before.ID, step.Running.ID)
			require.NotNil(t, step.Plan, "the new plan is written")
			require.True(t, step.Plan.For(c.facts.View, node.PaceImages, *c.facts.Slot))
			require.Equal(t, TaskReplace, step.Task, "what is done already is not done again")
		})
	}
}

// Another Paceline's plan ends nothing and runs nothing.
func TestUnknownPlanRunsNothing(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"another version": `{"v":2,"type":"update"}`,
		"another type":    `{"v":1,"type":"reset"}`,
		"another task":    `{"v":1,"type":"update","tasks":[{"type":"format-disk"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, f := range []Facts{rolling(), resting(onDelete, asks("v2"), holds, open), resting(asks("v2"), gated, holds)} {
				step := Next(f.but(plan(text)))
				require.ErrorIs(t, step.Err, ErrUnknownPlan)
				require.Nil(t, step.Effect)
				require.Nil(t, step.Plan)
			}
		})
	}
}

// What a node without a slot gets: cleared where it was seen running, a look of the webhook where
// something is not as it is to be.
func TestRest(t *testing.T) {
	t.Parallel()
	v1 := cleared("v1")
	stale := v1
	stale.Revision = "r-v1-of-an-older-server"
	held := resting(asks("v2"), gated)
	manual := resting(onDelete)
	ofThree := []pod{{"v1", ""}, {"v1", ""}, {"v1", ""}}
	canary := v1
	canary.Partition, canary.Running = 1, paced("v2")
	cases := map[string]struct {
		facts Facts
		want  Effect
	}{
		"nothing to do": {resting(), nil},
		"seen running for the first time: stamped":          {resting(neverCleared), Stamp{v1}},
		"OnDelete, seen for the first time: stamped":        {manual.but(neverCleared, current("other")), Stamp{v1}},
		"the revision's name changed: stamped anew":         {resting(clearedAt(stale)), Stamp{v1}},
		"released before it was ready: stamped when it is":  {resting(clearedAt(node.Cleared{Revision: "r-v1", Running: paced("v1"), Canary: paced("v1")})), Stamp{v1}},
		"not ready: not stamped":                            {resting(neverCleared, runsPods(pod{"v1", notReady})), nil},
		"a pod goes: not stamped":                           {resting(neverCleared, runsPods(pod{"v1", going})), nil},
		"not all pods: not stamped":                         {resting(neverCleared, replicas(3)), nil},
		"status not observed: not stamped":                  {resting(neverCleared, unobserved), nil},
		"a revision that is gone: not stamped":              {resting(neverCleared, forgetsRevs), nil},
		"RollingUpdate, currentRevision elsewhere: not yet": {resting(neverCleared, current("r-v2")), nil},
		"two revisions in it: not stamped":                  {resting(neverCleared, replicas(3), runsPods(pod{"v1", ""}, pod{"v1", ""}, pod{"v2", ""})), nil},
		"three replicas at one revision: stamped":           {resting(neverCleared, replicas(3), runsPods(ofThree...)), Stamp{v1}},
		"own partition: both sides are stamped":             {resting(neverCleared, replicas(3), ownPartition(1), runsPods(pod{"v2", ""}, pod{"v1", ""}, pod{"v1", ""})), Stamp{canary}},
		"in mid-roll without a slot: cleared stays":         {resting(asks("v2"), replicas(2), runsPods(pod{"v1", ""}, pod{"v2", ""}), current("r-v1")), nil},
		"held: cleared stays as it is":                      {held, nil},
		"held, never seen running: stamped with what runs":  {held.but(neverCleared), Stamp{v1}},
		"held although it runs what is asked for: touched":  {held.but(func(f *Facts) { f.Template = paced("v1") }), Touch{}},
		"gated by the partition alone, no drift: touched":   {resting(ownPartition(node.HeldPartition)), Touch{}},
		"held, paused by hand: waits":                       {held.but(pausedByHand), nil},
		"OnDelete drift that no webhook saw: touched":       {manual.but(asks("v2")), Touch{}},
		"OnDelete drift, held: waits":                       {manual.but(asks("v2"), gated), nil},
		"OnDelete drift, a pod not ready: waits":            {manual.but(asks("v2"), runsPods(pod{"v1", notReady})), nil},
		"RollingUpdate in mid-roll: adopted, not touched":   {resting(asks("v2")), nil},
		"pinned: waits": {resting(pins), nil},
		"pinned, never seen running: stamped by what runs": {resting(pins, neverCleared), Stamp{v1}},
		"pinned although it runs what is asked for":        {resting(pins, func(f *Facts) { f.Template = paced("v1") }), Touch{}},
		"pinned by another version: left alone":            {resting(pins, func(f *Facts) { f.Template, f.Deferred = paced("v1"), nil }), nil},
		"pinned, replicas 0: forgotten":                    {resting(pins, replicas(0), runsPods()), Forget{}},
		"pinned, replicas 0, nothing to forget: touched":   {resting(pins, replicas(0), runsPods(), neverCleared), Touch{}},
		"pinned, left pacing: the cell lets it go":         {resting(pins, leftPacing), nil},
		"a slot annotation without a slot: touched":        {resting(hasStaleSlot), Touch{}},
		"replicas 0: forgotten":                            {resting(replicas(0), runsPods()), Forget{}},
		"replicas 0 and held: touched":                     {held.but(replicas(0), runsPods(), neverCleared), Touch{}},
		"replicas 0, nothing of ours: nothing":             {resting(replicas(0), runsPods(), neverCleared), nil},
		"left pacing: forgotten":                           {resting(leftPacing), Forget{}},
		"left pacing, held: the cell lets it go":           {held.but(leftPacing), nil},
		"never paced: nothing":                             {resting(leftPacing, neverCleared), nil},
		"being deleted: nothing":                           {resting(neverCleared, beingDeleted), nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			step := Next(c.facts)
			require.Equal(t, c.want, step.Effect)
			require.Nil(t, step.Plan)
			require.NoError(t, step.Err)
		})
	}
}

// Where no webhook answers, a touch changes nothing: it is not repeated again and again.
func TestANodeIsLeftAloneAfterATouch(t *testing.T) {
	t.Parallel()
	stale := resting(hasStaleSlot)
	for name, c := range map[string]struct {
		ago  time.Duration
		want Effect
	}{
		"just now":           {time.Millisecond, nil},
		"almost long enough": {touchEvery - time.Nanosecond, nil},
		"long enough":        {touchEvery, Touch{}},
		"by a clock ahead":   {-time.Hour, Touch{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			facts := stale.but(func(f *Facts) { f.Touched = f.Now.Add(-c.ago) })
			step := Next(facts)
			require.Equal(t, c.want, step.Effect)
			if c.want == nil {
				require.Equal(t, touchEvery-c.ago, step.Again)
			}
		})
	}
}
