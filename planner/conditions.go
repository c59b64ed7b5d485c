package planner

import (
	"fmt"

	"github.com/paceline/paceline/lease"
	"github.com/paceline/paceline/node"
)

// Conditions says where a node stands, for people and for kstatus. previous is the reason of
// NodeUpdateInProgress as it stands. Nothing decides by them.
func Conditions(f Facts, step Step, queue lease.Queue, previous string) []node.Condition {
	if !f.Paced && previous == "" {
		return nil
	}
	update := node.Condition{Type: node.ConditionUpdate, Reason: node.ReasonNoDrift, Message: "runs what its template asks for"}
	reconciling := node.Condition{Type: node.ConditionReconciling, Reason: node.ReasonSettled}
	stalled := node.Condition{Type: node.ConditionStalled, Reason: node.ReasonSettled}
	paused := node.Condition{Type: node.ConditionPaused, Reason: node.ReasonRunning, Status: f.Paused()}
	if paused.Status {
		paused.Reason = node.ReasonPaused
	}
	_, unchanged := step.Effect.(Free)
	switch {
	case f.Slot != nil && !unchanged:
		update.Status, update.Reason = true, node.ReasonUpdateStarted
		update.Message = fmt.Sprintf("rolls on %s: %s", f.Slot.Name, step.doing())
		if step.Err != nil {
			update.Status, update.Reason, update.Message = false, node.ReasonUpdateFailed, step.Err.Error()
		}
		reconciling.Status, reconciling.Reason, reconciling.Message = true, node.ReasonProgressing, update.Message
		if f.Slot.Stuck(f.Now) {
			stalled.Status, stalled.Reason = true, node.ReasonStuck
			stalled.Message = fmt.Sprintf("no progress on %s for more than %s: %s", f.Slot.Name, f.Slot.Deadline, step.doing())
		}
	case f.Paced && f.Slot == nil && f.inFlight():
		update.Status, update.Reason = true, node.ReasonUpdateStarted
		update.Message = "rolls without a slot: it began while nothing held it; it takes the next one"
		reconciling.Status, reconciling.Reason, reconciling.Message = true, node.ReasonProgressing, update.Message
	case f.waits():
		update.Reason, update.Message = node.ReasonUpdateDeferred, waiting(f, queue)
		reconciling.Status, reconciling.Reason, reconciling.Message = true, node.ReasonWaiting, update.Message
		if f.Cell.Frozen {
			reconciling.Reason = node.ReasonFrozen
		}
	case f.Paced && f.PausedByHand && f.Gated():
		update.Reason, update.Message = node.ReasonUpdateDeferred, "paused by annotation "+node.AnnotationPaused+"; not queued"
	case !f.Paced && f.HasWish():
		update.Reason = node.ReasonUpdateDeferred
		update.Message = "not paced any more; waits to be let go, as many at a time as there were slots"
		reconciling.Status, reconciling.Reason, reconciling.Message = true, node.ReasonWaiting, update.Message
	case !f.Paced:
		update.Reason, update.Message = node.ReasonNotPaced, "not paced: Paceline does not look after it"
		if f.outdated() {
			update.Message += "; pods of an older revision stay until somebody deletes them (OnDelete)"
		}
	case f.Replicas == 0:
		update.Message = "replicas are 0: it runs nothing"
	case previous == node.ReasonUpdateStarted || previous == node.ReasonUpdateComplete:
		update.Reason = node.ReasonUpdateComplete
	}
	for _, problem := range f.Problems {
		update.Message += "; " + problem.Error()
	}
	return []node.Condition{update, reconciling, stalled, paused}
}

// waits reports drift, no slot, and a place in the queue.
func (f Facts) waits() bool {
	return f.Paced && f.Slot == nil && !f.Paused() && !f.Deleting && (f.Drift(f.Cell.Pace) || f.outdated()) && !f.inFlight()
}

// doing says what a plan is at, for people.
func (s Step) doing() string {
	if s.Task == "" {
		return s.Waiting
	}
	return string(s.Task) + ": " + s.Waiting
}

func waiting(f Facts, queue lease.Queue) string {
	queue.Frozen = f.Cell.Frozen // the queue was noted a moment ago
	return "waits for a slot, " + queue.Behind(f.Name)
}
