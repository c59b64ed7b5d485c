package model

// known lists the faults of the product that the model has found and that are not mended. While one is
// true, the model does as the product does, lets that one fault pass, and the scripted test of it
// fails if it is gone. Mending one: bring the model's copy of the step in line where there is one (the else of
// the flag), delete the flag with everything that reads it, keep the scripted test.
var known = struct {
	// staleFree: the slot of a node that has nothing to roll is given back by what the cache says of its
	// StatefulSet, though another controller has opened its gate meanwhile. Breaks 1 and 2. TestStaleFree.
	staleFree bool
	// openWithoutLease: the gate is opened without a write of the Lease where the plan stands already, so
	// that a live read before giving back is not enough. Breaks 1 and 2. TestFreeBesideOpen.
	openWithoutLease bool
	// staleStamp: cleared is written by what the cache says of the pods. Breaks 2. TestStaleStamp.
	staleStamp bool
	// stalePods: at a grant, pods and revisions come from the cache: a node without cleared that rolls is
	// not seen. Breaks 1. TestGrantBesideUnknownRoll.
	stalePods bool
	// staleDelete: a pod is deleted by what the cache says of its StatefulSet, though the wish was
	// withdrawn. Breaks 9. TestStaleDelete.
	staleDelete bool
	// strandedOnDelete: an OnDelete node all of whose pods are of other revisions than its template is
	// taken for one that has not begun, also where it never ran, where its pods differ from each other, and
	// where they are not what cleared says. Nobody replaces them ever. Breaks 3. TestStrandedOnDelete.
	strandedOnDelete bool
	// heldButOpen: a RollingUpdate node that carries held though its partition is open rolls and is counted
	// as waiting. Breaks 1. TestHeldButOpen.
	heldButOpen bool
	// canaryLowered: lowering one's own partition while both parts differ is not held. Breaks 2. TestCanaryLowered.
	canaryLowered bool
	// lostToOlder: a pod lost while a RollingUpdate node waits comes back at status.currentRevision. That is an
	// older version than it ran where the slot was given back before the pods were ready, and where the node
	// waited on OnDelete before (1.36 never moves currentRevision there). TestLostAfterEarlyRelease,
	// TestLostAfterSwitch.
	lostToOlder bool
}{
	staleFree: true, openWithoutLease: true, staleStamp: true, stalePods: true, staleDelete: true,
	strandedOnDelete: true, heldButOpen: true, canaryLowered: true, lostToOlder: true,
}
