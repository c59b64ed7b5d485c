package webhook

import (
	"maps"

	"github.com/paceline/paceline/node"
)

// Recreated is all that it depends on at which revision a new pod of a node comes.
type Recreated struct {
	// Paced reports that the node is in a cell with a budget.
	Paced bool
	// Node is the StatefulSet that owns the pod, Slot what its Lease says, both read live.
	Node node.View
	Slot Proof
	// Revision is the ControllerRevision that the pod was made of.
	Revision string
	// Pods are the other pods of the node, read live.
	Pods node.Fleet
}

// At returns the revision that the pod is to come at; "": as it was made, for the reason that is returned.
// Only a pod of an OnDelete node that waits comes at another one: there the StatefulSet controller makes every
// new pod of the newest template, and one that is evicted would roll without a slot.
func (r Recreated) At() (string, Reason) {
	switch {
	case !r.Paced || r.Node.Strategy != node.OnDelete || !r.Node.HasHeld:
		return "", ReasonPass
	case r.Slot == ProofTrue:
		return "", ReasonOpened
	}
	ran, live := r.ran()
	switch {
	case live[r.Revision] > 0 && r.Revision != ran:
		return "", ReasonInFlight // somebody replaces the pods by hand: none of them goes back
	case ran == "":
		return "", ReasonUnknown
	case ran == r.Revision:
		return "", ReasonPass
	}
	return ran, ReasonRecreated
}

// ran is the revision that the node runs: the cleared one, unless there are pods and none carries it. Then cleared
// is out of date (Paceline was away while they were replaced), and the revision of all of them counts. "": unknown.
func (r Recreated) ran() (revision string, live map[string]int) {
	live = map[string]int{}
	for _, pod := range r.Pods {
		if !pod.Deleting && pod.Revision != "" {
			live[pod.Revision]++
		}
	}
	if c := r.Node.Cleared; c != nil && (live[c.Revision] > 0 || len(live) == 0) {
		return c.Revision, live
	}
	if len(live) == 1 {
		for revision = range maps.Keys(live) {
			return revision, live
		}
	}
	return "", live
}
