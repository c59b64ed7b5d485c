package planner

import (
	"fmt"
)

// Outcome is what one look at a task says.
type Outcome struct {
	// Done: the task's state is reached.
	Done bool
	// Effect is what brings it nearer; nil: it only waits.
	Effect Effect
	// Waiting says for what, for people.
	Waiting string
}

// task looks at the facts and says whether its state is reached. It can be asked again and again, and
// writes neither plan nor status.
type task func(Facts) Outcome

func done() Outcome { return Outcome{Done: true} }

func waitFor(format string, args ...any) Outcome {
	return Outcome{Waiting: fmt.Sprintf(format, args...)}
}

func act(effect Effect, format string, args ...any) Outcome {
	return Outcome{Effect: effect, Waiting: fmt.Sprintf(format, args...)}
}

// registry finds a task by its type.
func registry(taskType TaskType) (task, bool) {
	switch taskType {
	case TaskApply:
		return applyStatefulSet, true
	case TaskReplace:
		return replacePod, true
	case TaskObserve:
		return observeImage, true
	case TaskReady:
		return awaitReady, true
	}
	return nil, false
}
