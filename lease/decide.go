package lease

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/paceline/paceline/node"
)

// Count is the number of slots of a cell with running nodes at this percentage: at least one,
// rounded down, 0 where percent is 0 (nothing is held).
func Count(running, percent int) int {
	if percent <= 0 {
		return 0
	}
	return max(1, running*percent/100)
}

// Node is one node as the allocator sees it.
type Node struct {
	node.View
	// InFlight: pods of it are being replaced for a paced change (node.View.InFlight).
	InFlight bool
	// Outdated: it is an OnDelete node whose pods somebody has to replace (node.View.Outdated).
	Outdated bool
	// Unsure: what was read does not say whether it is in flight. It uses up room like one that is.
	Unsure bool
	// Paced is false for a node that has left pacing: it keeps a slot that it holds, gets none and
	// does not count.
	Paced bool
}

// Queue is who holds the slots of a cell and who is next. One function makes it for the reconciler,
// the webhook's text, the plugin and the preview.
type Queue struct {
	// Frozen: nothing is granted, whatever is free.
	Frozen bool
	// Running is the number of nodes that count, Slots the budget made of it.
	Running, Slots int
	// Holders holds the nodes with a slot, by name.
	Holders []string
	// Unslotted holds the nodes that roll without a slot, by name.
	Unslotted []string
	// Unsure is the number of nodes of which it is not known whether they roll.
	Unsure int
	// Waiting holds the nodes with drift and no slot, in the order of their turn.
	Waiting []string
}

// Room is how many grants the budget allows now.
func (q Queue) Room() int { return max(0, q.Slots-len(q.Holders)-len(q.Unslotted)-q.Unsure) }

// Line reads who holds, who rolls without a slot, and who waits.
func Line(cell node.Cell, nodes []Node, slots []Slot) Queue {
	queue := Queue{Frozen: cell.Frozen}
	holding := holders(slots)
	for _, n := range nodes {
		itself := identity{n.Name, n.UID}
		if n.Paced && n.Runs() {
			queue.Running++
		}
		switch {
		case holding[itself]:
			delete(holding, itself)
			queue.Holders = append(queue.Holders, n.Name)
		case n.Deleting || !n.Paced:
		case n.InFlight:
			queue.Unslotted = append(queue.Unslotted, n.Name)
		case n.Unsure:
			queue.Unsure++
		case (n.Drift(cell.Pace) || n.Outdated) && !n.Paused():
			queue.Waiting = append(queue.Waiting, n.Name)
		}
	}
	for unknown := range holding { // holders that no read has shown still count, until they are freed
		queue.Holders = append(queue.Holders, unknown.name)
	}
	queue.Slots = Count(queue.Running, cell.Percent)
	slices.Sort(queue.Holders)
	slices.Sort(queue.Unslotted)
	slices.Sort(queue.Waiting)
	return queue
}

// identity tells a node from one that was recreated under its name.
type identity struct {
	name string
	uid  types.UID
}

func holders(slots []Slot) map[identity]bool {
	holding := map[identity]bool{}
	for _, slot := range slots {
		if !slot.Free() {
			holding[identity{slot.Holder, slot.HolderUID}] = true
		}
	}
	return holding
}

// Pairing is one slot and the node it goes to.
type Pairing struct {
	Slot Slot
	Node Node
}

// Moves is what one pass of the allocator does, in the order of the fields.
type Moves struct {
	// Adopt gives a slot to nodes that roll without one; a Slot without a resource version is to be
	// created. It may go over the count.
	Adopt []Pairing
	// Free takes slots from holders that are gone, and from a holder's second slot.
	Free []Slot
	// Grant gives free slots to waiting nodes.
	Grant []Pairing
	// Create names the indexes of Leases that are missing; they are granted in a later pass.
	Create []int
	// Delete names free Leases over the count, the highest index first.
	Delete []Slot
}

// Decide makes the moves of one pass: adopt, then free, then grant. nodes are all StatefulSets of
// the cell, slots all its slot Leases.
func Decide(cell node.Cell, nodes []Node, slots []Slot) Moves {
	queue := Line(cell, nodes, slots)
	byName := map[string]Node{}
	for _, n := range nodes {
		byName[n.Name] = n
	}
	var moves Moves
	free := freeSlots(slots)
	for _, name := range queue.Unslotted {
		slot, ok := pop(&free)
		if !ok {
			slot = Slot{Index: lowestMissing(slots, moves.Adopt)}
			slot.Name = Name(slot.Index)
		}
		moves.Adopt = append(moves.Adopt, Pairing{slot, byName[name]})
	}
	moves.Free = freed(byName, slots)
	if len(moves.Adopt)+len(moves.Free) == 0 && cell.Paces() && !cell.Frozen {
		for _, name := range queue.Waiting[:min(queue.Room(), len(queue.Waiting), len(free))] {
			slot, _ := pop(&free)
			moves.Grant = append(moves.Grant, Pairing{slot, byName[name]})
		}
	}
	there := slices.Clone(slots) // with those that adoption makes
	for _, pairing := range moves.Adopt {
		if pairing.Slot.ResourceVersion == "" {
			there = append(there, pairing.Slot)
		}
	}
	moves.Create, moves.Delete = resize(wanted(cell, queue, nodes, slots), there, free)
	return moves
}

// wanted is how many Leases there are to be. While held nodes are let go from a cell that paces no
// more, those that were there stay: they say how many go at once.
func wanted(cell node.Cell, queue Queue, nodes []Node, slots []Slot) int {
	switch {
	case cell.Paces():
		return queue.Slots
	case slices.ContainsFunc(nodes, func(n Node) bool { return n.HasWish() || (cell.Enabled && n.Gated()) }):
		return len(slots)
	}
	return 0
}

func freeSlots(slots []Slot) []Slot {
	var free []Slot
	for _, slot := range slots {
		if slot.Free() {
			free = append(free, slot)
		}
	}
	slices.SortFunc(free, func(a, b Slot) int { return a.Index - b.Index })
	return free
}

func pop(free *[]Slot) (Slot, bool) {
	if len(*free) == 0 {
		return Slot{}, false
	}
	slot := (*free)[0]
	*free = (*free)[1:]
	return slot, true
}

func lowestMissing(slots []Slot, adopted []Pairing) int {
	taken := map[int]bool{}
	for _, slot := range slots {
		taken[slot.Index] = true
	}
	for _, pairing := range adopted {
		taken[pairing.Slot.Index] = true
	}
	index := 0
	for taken[index] {
		index++
	}
	return index
}

// freed finds slots whose holder is gone (another UID, or none of that name) and all but one slot of
// a node that holds several: the one that its slot annotation names stays, else the lowest. The
// lowest index comes first.
func freed(byName map[string]Node, slots []Slot) []Slot {
	kept := map[string]Slot{}
	var gone []Slot
	for _, slot := range slots {
		if slot.Free() {
			continue
		}
		holder, ok := byName[slot.Holder]
		if !ok || holder.UID != slot.HolderUID {
			gone = append(gone, slot)
			continue
		}
		other, double := kept[slot.Holder]
		switch {
		case !double:
			kept[slot.Holder] = slot
		case slot.Proves(holder.Slot, holder.Name, holder.UID) || (!other.Proves(holder.Slot, holder.Name, holder.UID) && slot.Index < other.Index):
			gone = append(gone, other)
			kept[slot.Holder] = slot
		default:
			gone = append(gone, slot)
		}
	}
	slices.SortFunc(gone, func(a, b Slot) int { return a.Index - b.Index })
	return gone
}

// resize brings the number of Leases to want. Held ones stay; of the free ones the highest index
// goes first.
func resize(want int, slots, free []Slot) ([]int, []Slot) {
	have := len(slots)
	var create []int
	for index := 0; have < want; index++ {
		if !slices.ContainsFunc(slots, func(s Slot) bool { return s.Index == index }) {
			create = append(create, index)
			have++
		}
	}
	var remove []Slot
	for i := len(free) - 1; i >= 0 && have > want; i-- {
		remove = append(remove, free[i])
		have--
	}
	return create, remove
}

// maxNames is how many names a message lists: some clients cut warnings at 256 characters.
const maxNames = 5

// Names lists at most five names, then "and N more".
func Names(names []string) string {
	if len(names) == 0 {
		return "nobody"
	}
	if len(names) <= maxNames {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNames], ", "), len(names)-maxNames)
}

// Behind says behind whom the named node waits, for people: its place, the holders, and a freeze first.
func (q Queue) Behind(name string) string {
	place, _ := slices.BinarySearch(q.Waiting, name) // where its name belongs, also if it is not in line yet
	text := fmt.Sprintf("place %d for %s", place+1, counted(q.Slots, "slot"))
	if q.Frozen {
		text = "the cell is frozen (annotation " + node.AnnotationFreeze + "); " + text
	}
	busy := slices.Concat(q.Holders, q.Unslotted)
	switch {
	case len(busy) > 0:
		return text + " held by " + Names(busy)
	case q.Unsure > 0:
		return text + "; not yet known to be at rest: " + counted(q.Unsure, "node")
	case q.Slots > 0 && !q.Frozen:
		return text + ", free now"
	}
	return text
}

func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
