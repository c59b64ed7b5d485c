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
	state := standing(f, step, queue, previous)
	for _, problem := range f.Problems {
		state.update.Message += "; " + problem.Error()
	}
	paused := node.Condition{Type: node.ConditionPaused, Reason: node.ReasonRunning, Status: f.Paused()}
	if paused.Status {
		paused.Reason = node.ReasonPaused
	}
	return []node.Condition{state.update, state.reconciling, state.stalled, paused}
}

// state is the conditions that say where an update stands.
type state struct{ update, reconciling, stalled node.Condition }

func standing(f Facts, step Step, queue lease.Queue, previous string) state {
	_, unchanged := step.Effect.(Free)
	switch {
	case f.Slot != nil && !unchanged:
		return holding(f, step)
	case f.Paced && f.Slot == nil && f.inFlight():
		s := said(node.ReasonUpdateStarted, "rolls without a slot: "+f.unslotted()+"; it takes the next one")
		s.update.Status = true
		return s.busy(node.ReasonProgressing)
	case f.waits():
		s := said(node.ReasonUpdateDeferred, waiting(f, queue))
		if f.Cell.Frozen {
			return s.busy(node.ReasonFrozen)
		}
		return s.busy(node.ReasonWaiting)
	case !f.Paced && f.HasWish():
		s := said(node.ReasonUpdateDeferred, "not paced any more; waits to be let go, as many at a time as there were slots")
		return s.busy(node.ReasonWaiting)
	}
	return atEase(f, previous)
}

// unslotted says why a node can roll without a slot.
func (f Facts) unslotted() string {
	why := "no webhook looked when it began, or it had never been ready"
	if len(f.Later) > 0 {
		why += ", or its template was changed after Paceline looked, by " + lease.Names(f.Later)
	}
	return why
}

// holding is a node that holds a slot.
func holding(f Facts, step Step) state {
	s := said(node.ReasonUpdateStarted, fmt.Sprintf("rolls on %s: %s", f.Slot.Name, step.doing()))
	s.update.Status = true
	if step.Err != nil {
		s = said(node.ReasonUpdateFailed, step.Err.Error())
	}
	if f.Slot.Stuck(f.Now) {
		s.stalled.Status, s.stalled.Reason = true, node.ReasonStuck
		s.stalled.Message = fmt.Sprintf("no progress on %s for more than %s: %s", f.Slot.Name, f.Slot.Deadline, step.doing())
	}
	return s.busy(node.ReasonProgressing)
}

// atEase is a node that neither rolls nor waits.
func atEase(f Facts, previous string) state {
	switch {
	case f.Paced && f.PausedByHand && f.Gated():
		return said(node.ReasonUpdateDeferred, "paused by annotation "+node.AnnotationPaused+"; not queued")
	case !f.Paced && f.outdated():
		return said(node.ReasonNotPaced, notPaced+"; pods of an older revision stay until somebody deletes them (OnDelete)")
	case !f.Paced:
		return said(node.ReasonNotPaced, notPaced)
	case f.Replicas == 0:
		return said(node.ReasonNoDrift, "replicas are 0: it runs nothing")
	case previous == node.ReasonUpdateStarted || previous == node.ReasonUpdateComplete:
		return said(node.ReasonUpdateComplete, runsIt)
	}
	return said(node.ReasonNoDrift, runsIt)
}

const (
	runsIt   = "runs what its template asks for"
	notPaced = "not paced: Paceline does not look after it"
)

func said(reason, message string) state {
	return state{
		update:      node.Condition{Type: node.ConditionUpdate, Reason: reason, Message: message},
		reconciling: node.Condition{Type: node.ConditionReconciling, Reason: node.ReasonSettled},
		stalled:     node.Condition{Type: node.ConditionStalled, Reason: node.ReasonSettled},
	}
}

// busy says that what the update condition says is not the end yet.
func (s state) busy(reason string) state {
	s.reconciling.Status, s.reconciling.Reason, s.reconciling.Message = true, reason, s.update.Message
	return s
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
