package planner

import (
	"errors"
	"time"

	"github.com/paceline/paceline/lease"
	"github.com/paceline/paceline/node"
)

// Facts is all that the next step of a node depends on.
type Facts struct {
	node.View
	// Pods are the node's pods, highest ordinal first.
	Pods      node.Fleet
	Revisions node.Revisions
	Cell      node.Cell
	// Paced reports that the node is in a cell with a budget.
	Paced bool
	// Slot is the slot that the node holds; nil: none.
	Slot *lease.Slot
	// Later names webhooks that may have changed the template after Paceline's looked. Nothing decides by it.
	Later []string
	Now   time.Time
}

// pods are those that an update replaces: from the writer's own partition up.
func (f Facts) pods() node.Fleet { return f.Pods.From(f.FirstUpdated()) }

// wanted is how many pods an update replaces.
func (f Facts) wanted() int { return max(0, int(f.Replicas)-int(f.OwnPartition())) }

func (f Facts) inFlight() bool { return f.InFlight(f.Pods, f.Revisions, f.Cell.Pace) }

func (f Facts) outdated() bool { return f.Outdated(f.Pods, f.Revisions, f.Cell.Pace) }

// nothingToRoll reports a node that is as its template asks for, or was never opened.
func (f Facts) nothingToRoll() bool {
	if f.HasSlot || f.Drift(f.Cell.Pace) || f.inFlight() || f.outdated() {
		return false
	}
	return f.Cleared != nil || f.atRest()
}

// atRest reports a node none of whose pods is on its way: what tells, where nothing says what it ran.
func (f Facts) atRest() bool {
	if f.Closed(f.Cell.Pace) || f.Replicas == 0 {
		return true
	}
	if !f.Status.Observed || len(f.pods()) != f.wanted() {
		return false
	}
	for _, pod := range f.pods() {
		if pod.Deleting || !pod.Ready || (f.Strategy == node.RollingUpdate && pod.Revision != f.Status.UpdateRevision) {
			return false
		}
	}
	return true
}

// unsure reports a node without cleared of which pods and status do not say the same: it may roll. What
// runs is judged by cleared; without it by pods, and those come from a cache.
func (f Facts) unsure() bool {
	if f.Closed(f.Cell.Pace) || f.Cleared != nil || f.Replicas == 0 {
		return false
	}
	for _, pod := range f.Pods {
		if _, known := f.Revisions.Of(pod.Revision, nil); !known && pod.Revision != f.Status.UpdateRevision {
			return true
		}
	}
	return !f.Status.Observed || int(f.Status.Replicas) != len(f.Pods)
}

// Effect is one write that a step asks for. The reconciler carries it out, after a live read has
// shown that the slot is still held where it depends on one.
type Effect interface{ effect() }

type (
	// Open writes the slot annotation.
	Open struct{}
	// DeletePod deletes a pod, by UID.
	DeletePod struct{ Pod node.Pod }
	// Release removes the slot annotation and writes cleared in one update, then frees the Lease.
	Release struct{ Cleared node.Cleared }
	// Free frees the Lease of a node that has nothing (left) to roll.
	Free struct{}
	// Stamp writes cleared: what the node was seen to run.
	Stamp struct{ Cleared node.Cleared }
	// Touch makes admission look at the node again.
	Touch struct{}
	// Forget removes cleared and slot from a node that runs nothing or left pacing.
	Forget struct{}
)

func (Open) effect()      {}
func (DeletePod) effect() {}
func (Release) effect()   {}
func (Free) effect()      {}
func (Stamp) effect()     {}
func (Touch) effect()     {}
func (Forget) effect()    {}

// Step is what to do for a node now.
type Step struct {
	// Plan is the plan to write, nil where it stands already.
	Plan *Plan
	// Running is the plan that runs, written or not.
	Running *Plan
	// Effect is the one write that comes next; nil: none.
	Effect Effect
	// Task is the step of the plan that runs, Waiting what it waits for.
	Task    TaskType
	Waiting string
	// Err is why the plan cannot run.
	Err error
	// Again is when to look again although nothing happens; 0: at the next resync.
	Again time.Duration
}

// touchEvery keeps Paceline from touching a node again and again where no webhook answers.
const touchEvery = 5 * time.Second

// mayTouch reports how long a node is to be left alone since the last touch; 0: it may be touched.
func mayTouch(v node.View, now time.Time) time.Duration {
	since := now.Sub(v.Touched)
	if since < 0 || since >= touchEvery {
		return 0
	}
	return touchEvery - since
}

// Next decides the next step of a node. It is pure; asked again with the same facts it says the same,
// so a kill at any point loses nothing.
func Next(f Facts) Step {
	if f.Deleting {
		return Step{}
	}
	step := Step{}
	if f.Slot != nil {
		step = f.roll()
	} else {
		step.Effect = f.rest()
	}
	if _, touches := step.Effect.(Touch); touches {
		if step.Again = mayTouch(f.View, f.Now); step.Again > 0 {
			step.Effect = nil
		}
	}
	return step
}

// roll is the step of a node that holds a slot.
func (f Facts) roll() Step {
	if !f.Paced {
		if f.atRest() || f.Slot.Stuck(f.Now) { // nothing renews it any more: at the latest it ends at its deadline
			return Step{Effect: Free{}}
		}
		return Step{Waiting: "it left pacing in mid-roll; the slot is given back when its pods are ready"}
	}
	if f.nothingToRoll() {
		return Step{Effect: Free{}} // released already, or what it was for was withdrawn
	}
	plan, err := ParsePlan(f.Slot.Plan)
	if errors.Is(err, ErrUnknownPlan) {
		return Step{Err: err}
	}
	if err != nil || !plan.For(f.View, f.Cell.Pace, *f.Slot) {
		plan = NewPlan(f.View, f.Cell.Pace, f.Slot.Transitions, f.Now)
	}
	step := f.advance(&plan)
	if text := plan.String(); text != f.Slot.Plan {
		step.Plan = &plan
	}
	step.Running = &plan
	return step
}

// advance looks at each task in turn. What was done once is looked at again: an evicted pod or a
// template changed in mid-roll takes the plan back, and nothing is done that is done already.
func (f Facts) advance(plan *Plan) Step {
	for i := range plan.Tasks {
		current := &plan.Tasks[i]
		look, _ := registry(current.Type)
		outcome := look(f)
		if !outcome.Done {
			current.start(f.Now)
			for j := i + 1; j < len(plan.Tasks); j++ {
				plan.Tasks[j].reset()
			}
			return Step{Effect: outcome.Effect, Task: current.Type, Waiting: outcome.Waiting}
		}
		current.finish(f.Now)
	}
	if f.Replicas == 0 {
		return Step{Effect: Forget{}, Waiting: "giving the slot back"}
	}
	cleared, ok := f.seen(!f.ReleaseWhenUpdated)
	if !ok {
		return Step{Waiting: "waiting for all pods to carry one known revision"}
	}
	return Step{Effect: Release{cleared}, Waiting: "giving the slot back"}
}

func (t *Task) start(now time.Time) {
	if t.State == StateRunning {
		return
	}
	now = now.UTC().Truncate(time.Second)
	t.State, t.Started, t.Ended = StateRunning, &now, nil
}

func (t *Task) finish(now time.Time) {
	if t.State == StateDone {
		return
	}
	now = now.UTC().Truncate(time.Second)
	if t.Started == nil {
		t.Started = &now
	}
	t.State, t.Ended, t.Error = StateDone, &now, ""
}

func (t *Task) reset() { t.State, t.Started, t.Ended = StatePending, nil, nil }

// rest is the step of a node without a slot.
func (f Facts) rest() Effect {
	ours := f.Cleared != nil || f.HasSlot
	switch {
	case !f.Paced && ours && !f.Gated():
		return Forget{}
	case !f.Paced:
		return nil // held nodes that left pacing are lifted by the cell reconciler, a few at a time
	case f.Replicas == 0 && ours:
		return Forget{}
	case f.Replicas == 0 && f.Gated():
		return Touch{} // admission sees replicas 0 and ends the hold
	case f.Replicas == 0:
		return nil
	case f.HasSlot:
		return Touch{} // its Lease is gone; admission takes the annotation off
	}
	return f.restPaced()
}

// restPaced is rest of a paced node that runs pods.
func (f Facts) restPaced() Effect {
	cleared, seen := f.seen(true)
	switch {
	case seen && f.mayStamp() && (f.Cleared == nil || f.Cleared.String() != cleared.String()):
		return Stamp{cleared}
	case f.HasDeferred && f.Deferred == nil:
		return nil // another version's: it is left alone, and the conditions say so
	case f.Gated() && !f.Drift(f.Cell.Pace):
		return Touch{} // nothing waits any more; admission ends the hold
	case !f.Gated() && f.Strategy == node.OnDelete && f.Drift(f.Cell.Pace) && seen && !f.inFlight():
		return Touch{} // the wish came while no webhook looked; admission holds it
	}
	return nil
}

// mayStamp keeps cleared as it is while a paced change is in flight: it is what drift is measured by.
func (f Facts) mayStamp() bool {
	if !f.Status.Observed || f.inFlight() {
		return false
	}
	if f.Strategy == node.RollingUpdate && f.OwnPartition() == 0 {
		return len(f.Pods) > 0 && f.Status.CurrentRevision == f.Pods[0].Revision
	}
	return true
}

// seen is what the node runs: all pods from the writer's partition up carry one known revision, and
// are ready where ready is asked for.
func (f Facts) seen(ready bool) (node.Cleared, bool) {
	pods := f.pods()
	if f.wanted() == 0 && len(f.Pods) > 0 {
		return f.seenBelow(ready)
	}
	if len(pods) != f.wanted() || len(pods) == 0 {
		return node.Cleared{}, false
	}
	revision := pods[0].Revision
	allReady := true
	for _, pod := range pods {
		if pod.Deleting || pod.Revision != revision {
			return node.Cleared{}, false
		}
		allReady = allReady && pod.Ready
	}
	canary, known := f.Revisions.Of(revision, f.Cleared)
	if !known || (ready && !allReady) {
		return node.Cleared{}, false
	}
	cleared := node.Cleared{
		Revision: revision, Ready: allReady, Running: canary, Partition: f.OwnPartition(), Canary: canary,
	}
	if cleared.Partition > 0 && len(f.Pods) > len(pods) {
		lowest := f.Pods[len(f.Pods)-1]
		if running, ok := f.Revisions.Of(lowest.Revision, f.Cleared); ok {
			cleared.Running = running
		}
	}
	return cleared, true
}

// seenBelow is what a node runs whose writer's own partition lies above all of its pods: an update
// is staged, none of them is to be replaced.
func (f Facts) seenBelow(ready bool) (node.Cleared, bool) {
	lowest := f.Pods[len(f.Pods)-1]
	running, known := f.Revisions.Of(lowest.Revision, nil)
	if !known && f.Cleared != nil {
		running, known = f.Cleared.Running, true
	}
	allReady := true
	for _, pod := range f.Pods {
		allReady = allReady && pod.Ready && !pod.Deleting
	}
	if !known || !f.Status.Observed || (ready && !allReady) {
		return node.Cleared{}, false
	}
	return node.Cleared{
		Revision: f.Status.UpdateRevision, Ready: allReady,
		Running: running, Partition: f.OwnPartition(), Canary: f.Template,
	}, true
}
