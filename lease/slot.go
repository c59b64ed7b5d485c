package lease

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/paceline/paceline/node"
)

const namePrefix = "paceline-slot-"

var slotName = regexp.MustCompile(`^paceline-slot-[0-9]+$`)

// Slot is one slot Lease, read once.
type Slot struct {
	// Namespace and Name identify the Lease; Index is the number in its name.
	Namespace, Name string
	Index           int
	// ResourceVersion is what a conditional write names.
	ResourceVersion string
	// UID is the Lease's own UID.
	UID types.UID
	// Holder is the holding node's name, "" where the slot is free; HolderUID its StatefulSet's UID.
	Holder    string
	HolderUID types.UID
	// Transitions is the fencing token: it grows by one with each holder.
	Transitions int32
	// Acquired is when the holder took the slot, Renewed when it last made progress.
	Acquired, Renewed time.Time
	// Deadline is how long a holder may go without progress before it is stuck.
	Deadline time.Duration
	// Plan is the annotation plan as it stands; package planner reads it.
	Plan string

	// origin is a copy of the Lease that the slot was read from, nil for a new one: a write keeps all
	// of it that is not ours. Nobody changes it.
	origin *coordinationv1.Lease
}

// Name is the name of the slot Lease with this index.
func Name(index int) string { return namePrefix + strconv.Itoa(index) }

// IsName reports whether a Lease of this name is a slot: ^paceline-slot-[0-9]+$.
func IsName(name string) bool { return slotName.MatchString(name) }

func indexOf(name string) (int, error) {
	if !IsName(name) {
		return 0, fmt.Errorf("lease %s: not a slot: want %s", name, slotName)
	}
	index, err := strconv.Atoi(strings.TrimPrefix(name, namePrefix))
	if err != nil {
		return 0, fmt.Errorf("lease %s: %w", name, err)
	}
	return index, nil
}

// Free reports that nobody holds the slot.
func (s Slot) Free() bool { return s.Holder == "" }

// HeldBy reports that the StatefulSet of this name and UID holds the slot. A recreated StatefulSet
// has another UID and holds nothing.
func (s Slot) HeldBy(name string, uid types.UID) bool {
	return s.Holder == name && s.HolderUID == uid && name != "" && uid != ""
}

// Ref is the slot annotation that this slot proves.
func (s Slot) Ref() node.SlotRef {
	return node.SlotRef{Lease: s.Name, Transitions: s.Transitions}
}

// Proves reports that the slot annotation ref on the StatefulSet of this name and UID is true: this
// Lease is held by it since the transition that the annotation names.
func (s Slot) Proves(ref *node.SlotRef, name string, uid types.UID) bool {
	return ref != nil && *ref == s.Ref() && s.HeldBy(name, uid)
}

// Stuck reports a holder without progress for the progress deadline.
func (s Slot) Stuck(now time.Time) bool {
	return !s.Free() && s.Deadline > 0 && now.Sub(s.Renewed) > s.Deadline
}
