package webhook

import (
	"github.com/paceline/paceline/node"
)

// Reason names what an admission request ended in. It is logged, counted and tested under this name.
type Reason string

const (
	// ReasonPass says: nothing here is Paceline's business.
	ReasonPass Reason = "pass"
	// ReasonCreated says: a new StatefulSet; what a copy carried of ours was taken off.
	ReasonCreated Reason = "created"
	// ReasonHeld says: the node waits for a slot.
	ReasonHeld Reason = "held"
	// ReasonLifted says: the node runs what it is asked for again; its hold ends.
	ReasonLifted Reason = "lifted"
	// ReasonOpened says: the node holds a slot; its gate is open.
	ReasonOpened Reason = "opened"
	// ReasonInFlight says: the node is not settled; the change joins what is under way.
	ReasonInFlight Reason = "in-flight"
	// ReasonPaused says: replicas are or were 0; nothing is held.
	ReasonPaused Reason = "paused"
	// ReasonLeft says: the node is not paced (any more); what is ours goes with the hold.
	ReasonLeft Reason = "left"
	// ReasonRefused says: the slot Lease of a node that carries a slot could not be read.
	ReasonRefused Reason = "refused"
	// ReasonRecreated says: a pod of a node that waits came back as what the node runs.
	ReasonRecreated Reason = "recreated"
	// ReasonUnknown says: nothing tells what the node of a new pod runs; the pod comes as it was asked for.
	ReasonUnknown Reason = "unknown"
	// ReasonUnread says: what a new pod depends on could not be read; the pod comes as it was asked for.
	ReasonUnread Reason = "unread"
	// ReasonInvalid says: the request is none that this webhook can judge.
	ReasonInvalid Reason = "invalid"
)

// Facts is all that the gate's decision depends on.
type Facts struct {
	// Old is the stored object; nil on CREATE.
	Old *node.View
	// New is the object of the request with Owned in place of what it says of our annotations.
	New node.View
	// Owned is what our annotations are before the decision: the old object's, or the request's own
	// where Paceline's account writes.
	Owned map[string]string
	// Own reports that Paceline's account writes.
	Own bool
	// Paced reports that the node is in a cell with a budget.
	Paced bool
	// Pace says which fields are compared, Gate how a wish is kept from the pods.
	Pace node.Pace
	Gate node.Gate
	// Slot is what a live read said of the slot annotation.
	Slot Proof
	// Orphans are the paced fields of pods that a new StatefulSet finds under its name, left by its predecessor.
	Orphans []node.Paced
}

// Proof is what a live read of the Lease said of a slot annotation.
type Proof int

const (
	// ProofNone says: there is no slot annotation.
	ProofNone Proof = iota
	// ProofTrue says: the Lease names this node, its UID and this transition.
	ProofTrue
	// ProofFalse says: it does not; the annotation is stale or forged.
	ProofFalse
	// ProofUnknown says: the Lease could not be read.
	ProofUnknown
)

// Decision is what the gate does to a request.
type Decision struct {
	Reason Reason
	// Owned is what our annotations are to be.
	Owned map[string]string
	// Partition is what the partition is to be; nil: as the request says.
	Partition *int32
	// Pin says that the template's paced fields are to stay as they are stored, and the wish is deferred.
	Pin bool
	// Carry says that what is deferred stays as it is, unread.
	Carry bool
	// Template is what the template is to be; nil: as the request says.
	Template []byte
	// Freshly reports a hold whose wish is new: it deserves a warning.
	Freshly bool
}

// Decide judges one request. It is pure.
func Decide(f Facts) Decision {
	switch {
	case f.New.Deleting:
		return f.as(ReasonPass)
	case !f.Paced:
		return f.leave()
	case f.Old == nil:
		return f.create()
	case f.Slot == ProofUnknown:
		return f.unproven()
	case f.Slot == ProofTrue:
		return f.end(ReasonOpened)
	}
	decision := f.gate()
	delete(decision.Owned, node.AnnotationSlot)
	return decision
}

// gate is the decision for a node without a slot.
func (f Facts) gate() Decision {
	switch {
	case f.New.Replicas == 0 || f.Old.Replicas == 0:
		return f.end(ReasonPaused)
	case !f.drift() && f.New.HasDeferred && f.New.Deferred == nil:
		decision := f.as(ReasonHeld) // another version's: it is kept for that
		decision.Carry = true
		return decision
	case !f.drift():
		if f.Old.Gated() || f.New.HasWish() {
			return f.end(ReasonLifted)
		}
		return f.end(ReasonPass)
	case f.Old.Settled(f.Pace) || f.idle():
		return f.hold()
	}
	return f.end(ReasonInFlight)
}

// running is what drift is measured against: cleared, then held, then the stored template. Unknown
// where the node is gated and nothing says what it runs; then it stays gated.
func (f Facts) running() (node.Paced, bool) {
	switch {
	case f.New.Cleared != nil:
		return f.New.Cleared.Canary, true
	case f.New.Held != nil:
		return f.New.Held.Running, true
	case f.Old.Pinned != nil:
		return *f.Old.Pinned, true
	case f.Old.Gated():
		return node.Paced{}, false
	}
	return f.Old.Template, true
}

func (f Facts) drift() bool {
	running, known := f.running()
	return !known || !f.New.Template.Equal(running, f.Pace) || f.lowers()
}

// lowers reports a request after which the writer's own partition lies below that of cleared, while the two
// parts of the set run different paced fields: the ordinals between would roll.
func (f Facts) lowers() bool {
	c := f.New.Cleared
	if c == nil || f.New.Strategy != node.RollingUpdate || c.Running.Equal(c.Canary, f.Pace) {
		return false
	}
	own := f.ownPartition()
	return own == nil && c.Partition > 0 || own != nil && *own < c.Partition
}

// idle reports an OnDelete node that the reconciler has just seen running something else than its
// template, ready and at one revision: nothing of it is in flight, so its wish can wait.
func (f Facts) idle() bool {
	return f.Own && f.New.Strategy == node.OnDelete && f.New.Cleared != nil && f.New.Cleared.Ready
}

func (f Facts) hold() Decision {
	if f.pins() {
		return f.pin()
	}
	decision := f.as(ReasonHeld)
	own, lowers := f.ownPartition(), f.lowers()
	if own == nil && lowers {
		own = new(int32)
	}
	held := node.Held{Partition: own}
	switch {
	case f.New.Held != nil:
		held.Running = f.New.Held.Running
	default:
		held.Running, _ = f.running()
	}
	decision.Owned[node.AnnotationHeld] = held.String()
	if f.New.Strategy == node.RollingUpdate {
		partition := node.HeldPartition
		if running, known := f.running(); known && f.New.Template.Equal(running, f.Pace) {
			partition = f.New.Cleared.Partition // only lowered: each part of the set stays what it is
		}
		decision.Partition = &partition
	}
	decision.Freshly = !f.Old.Template.Equal(f.New.Template, f.Pace) || (lowers && *own != f.Old.OwnPartition())
	return decision
}

func (f Facts) pin() Decision {
	decision := f.end(ReasonHeld)
	decision.Pin, decision.Freshly = true, !f.Old.Template.Equal(f.New.Template, f.Pace)
	return decision
}

// pins reports that the template is pinned rather than the pods held: the cell asks for it, nothing holds the
// pods already, and the stored template is what the node runs.
func (f Facts) pins() bool {
	stands := f.Old.Template
	if f.Old.Pinned != nil {
		stands = *f.Old.Pinned
	}
	running, known := f.running()
	reserved := f.Old.Partition != nil && *f.Old.Partition == node.HeldPartition
	return f.Gate == node.GatePin && !f.New.HasHeld && !f.lowers() && !reserved && known && stands.Equal(running, f.Pace)
}

// ownPartition is the last partition that a writer stated; nil: none.
func (f Facts) ownPartition() *int32 {
	if f.New.Partition != nil && !f.reserved(*f.New.Partition) {
		return f.New.Partition
	}
	if f.New.Held != nil && f.New.Held.Partition != nil {
		return f.New.Held.Partition
	}
	if f.Old != nil && f.Old.Partition != nil && !f.reserved(*f.Old.Partition) {
		return f.Old.Partition
	}
	return nil
}

// reserved reports a partition that is ours: nobody states it.
func (f Facts) reserved(partition int32) bool {
	return partition == node.HeldPartition || (f.Old != nil && f.Old.Lowering() && partition == *f.Old.Partition)
}

// end ends a hold, or leaves a node that has none as the request says. The reserved partition is
// never anyone's own: it becomes what the writer last stated.
func (f Facts) end(reason Reason) Decision {
	decision := f.as(reason)
	delete(decision.Owned, node.AnnotationHeld)
	if f.New.Partition != nil && f.reserved(*f.New.Partition) {
		var own int32
		if p := f.ownPartition(); p != nil {
			own = *p
		}
		decision.Partition = &own
	}
	return decision
}

// unproven is the decision while the Lease cannot be read: a paced change is refused, the only
// request that Paceline refuses; everything else passes and changes no gate.
func (f Facts) unproven() Decision {
	if !f.New.Template.Equal(f.Old.Template, f.Pace) {
		return f.as(ReasonRefused)
	}
	switch {
	case f.Old.Pinned != nil:
		return f.pin()
	case f.Old.Gated():
		return f.hold()
	}
	return f.end(ReasonPass)
}

func (f Facts) leave() Decision {
	decision := f.end(ReasonPass)
	for _, name := range node.Owned() {
		if name == node.AnnotationResetDone || name == node.AnnotationPlan {
			continue
		}
		if _, ours := decision.Owned[name]; ours || f.New.HasWish() {
			decision.Reason = ReasonLeft
		}
		delete(decision.Owned, name)
	}
	return decision
}

// create judges a new StatefulSet. One that finds pods of its predecessor would roll them like an update, and is
// held like one. What a copy carried of ours is taken off.
func (f Facts) create() Decision {
	decision := f.end(ReasonCreated)
	decision.Owned = map[string]string{}
	if f.New.Replicas == 0 {
		return decision
	}
	for _, orphan := range f.Orphans {
		if orphan.Equal(f.New.Template, f.Pace) {
			continue
		}
		decision.Reason, decision.Freshly = ReasonHeld, true
		decision.Owned[node.AnnotationHeld] = node.Held{Running: orphan, Partition: f.ownPartition()}.String()
		if f.New.Strategy == node.RollingUpdate {
			partition := node.HeldPartition
			decision.Partition = &partition
		}
		break
	}
	return decision
}

func (f Facts) as(reason Reason) Decision {
	owned := make(map[string]string, len(f.Owned)+1)
	for name, value := range f.Owned {
		owned[name] = value
	}
	return Decision{Reason: reason, Owned: owned}
}
