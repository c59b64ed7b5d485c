package checker

import (
	"fmt"
	"time"
)

// Change is how an object changed.
type Change string

// The changes. Listed is an object that stood when the watch began.
const (
	Listed   Change = "listed"
	Added    Change = "added"
	Modified Change = "modified"
	Deleted  Change = "deleted"
)

// Event is one change of one object. Exactly one of Pod, Set and Lease is set.
type Event struct {
	// RV is when it happened; for a listed object that of the list.
	RV uint64
	// Version is the object's own resourceVersion.
	Version uint64
	Time    time.Time
	Change  Change

	Pod   *Pod
	Set   *Set
	Lease *Lease
}

// Pod is what the checker needs to know of a pod.
type Pod struct {
	Name    string
	UID     string
	Node    string // the StatefulSet that controls it; empty if none does
	Ordinal int
	// Ready: the Ready condition is True and the pod is not being deleted.
	Ready bool
	// Images of the init containers and containers, in order, joined by commas.
	Images   string
	Revision string
}

// Set is what the checker needs to know of a StatefulSet.
type Set struct {
	Name     string
	UID      string
	Start    int // the first ordinal
	Replicas int
	Deleting bool
}

// Lease is what the checker needs to know of a slot Lease.
type Lease struct {
	Name   string
	UID    string
	Holder string // empty: free
}

// key identifies the object among all kinds.
func (e Event) key() string {
	switch {
	case e.Pod != nil:
		return "pod/" + e.Pod.Name
	case e.Set != nil:
		return "statefulset/" + e.Set.Name
	default:
		return "lease/" + e.Lease.Name
	}
}

func (e Event) uid() string {
	switch {
	case e.Pod != nil:
		return e.Pod.UID
	case e.Set != nil:
		return e.Set.UID
	default:
		return e.Lease.UID
	}
}

// version tells this state of the object from every other.
func (e Event) version() string { return fmt.Sprintf("%s at %d", e.uid(), e.Version) }
