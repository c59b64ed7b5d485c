package checker

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Report is what happened in the namespace.
type Report struct {
	From, To Moment
	// Nodes are all StatefulSets that were seen, sorted.
	Nodes []string

	// MaxDown is the largest number of nodes at one time that had been up and lacked a ready pod
	// which their spec asks for. A pod that is being deleted is not ready. Scaling in, deleting the
	// set, and pods that have never been ready do not count.
	MaxDown      int
	MaxDownAt    Moment
	MaxDownNodes []string
	// Downs is the same over time: an entry for each change.
	Downs []Down

	// Restarts counts replaced pods (another UID under the same name) for each node.
	Restarts map[string]int
	// Rolls are the outages of single pods in the order in which they began.
	Rolls []Roll
	// Images is for each pod what it ran over time.
	Images map[string][]ImageChange

	// Holders is every change of a slot Lease's holder; MaxHolders the most Leases held at one time.
	Holders    []HolderChange
	MaxHolders int

	// Missed says why this report may be incomplete. Verdict fails if there is any.
	Missed []string
}

// Down is the set of nodes that are down from a moment on.
type Down struct {
	Moment
	Nodes []string
}

// Roll is one outage of one pod.
type Roll struct {
	Node, Pod          string
	FromImage, ToImage string
	FromUID, ToUID     string // ToUID is empty if the same pod became ready again
	Down, Up           Moment // Up is zero if it has not ended
	Slot               string // the Lease that the node held when it went down; empty if none
}

// Ended tells whether the pod became ready again.
func (r Roll) Ended() bool { return r.Up.RV != 0 }

// Outage is how long the pod was not ready.
func (r Roll) Outage() time.Duration { return r.Up.Time.Sub(r.Down.Time) }

// ImageChange is what a pod runs from a moment on.
type ImageChange struct {
	Moment
	UID, Images, Revision string
}

// HolderChange is a slot Lease that was taken or, with an empty holder, freed.
type HolderChange struct {
	Moment
	Lease, Holder string
}

// TotalRestarts is the number of replaced pods.
func (r Report) TotalRestarts() int {
	total := 0
	for _, n := range r.Restarts {
		total += n
	}
	return total
}

// Order is the nodes in the order of their first outage.
func (r Report) Order() []string {
	var order []string
	seen := map[string]bool{}
	for _, roll := range r.Rolls {
		if !seen[roll.Node] {
			seen[roll.Node] = true
			order = append(order, roll.Node)
		}
	}
	return order
}

// WithoutSlot are the replacements that began while their node held no slot.
func (r Report) WithoutSlot() []Roll {
	var rolls []Roll
	for _, roll := range r.Rolls {
		if roll.Slot == "" && roll.ToUID != "" {
			rolls = append(rolls, roll)
		}
	}
	return rolls
}

// Expect is what a report is judged by.
type Expect struct {
	// MaxDown is the largest allowed Report.MaxDown.
	MaxDown int
	// MinRestarts is the smallest allowed number of replaced pods. A roll that nobody saw proves
	// nothing, so 0 means 1 unless Quiet is set.
	MinRestarts int
	// Quiet: no pod may be replaced at all.
	Quiet bool
}

// Verdict is nil if the report is complete and as expected.
func (r Report) Verdict(want Expect) error {
	var errs []error
	for _, missed := range r.Missed {
		errs = append(errs, fmt.Errorf("missed: %s", missed))
	}
	restarts := r.TotalRestarts()
	switch {
	case want.Quiet && restarts > 0:
		errs = append(errs, fmt.Errorf("%d pods were replaced, want none: %v", restarts, r.Restarts))
	case !want.Quiet && restarts < max(want.MinRestarts, 1):
		errs = append(errs, fmt.Errorf("saw %d pods replaced, want at least %d", restarts, max(want.MinRestarts, 1)))
	}
	if r.MaxDown > want.MaxDown {
		errs = append(errs, fmt.Errorf("%d nodes were down at resourceVersion %d, want at most %d: %s",
			r.MaxDown, r.MaxDownAt.RV, want.MaxDown, strings.Join(r.MaxDownNodes, ", ")))
	}
	return errors.Join(errs...)
}
