package lease

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/paceline/paceline/node"
)

func paced(image string) node.Paced {
	return node.Paced{Containers: map[string]string{"app": image}, Isolation: []byte("{}"), Template: "sha256:" + image}
}

// settled is a node that runs what it asks for; change makes another of it.
func settled(name string, change ...func(*Node)) Node {
	n := Node{Paced: true, View: node.View{
		Name: name, UID: types.UID("uid-" + name), Replicas: 1, Strategy: node.RollingUpdate, Template: paced("v1"),
		Cleared: &node.Cleared{Revision: "r1", Ready: true, Running: paced("v1"), Canary: paced("v1")},
	}}
	for _, c := range change {
		c(&n)
	}
	return n
}

func drifts(n *Node) {
	n.Template = paced("v2")
	n.HasHeld, n.Held, n.Partition = true, &node.Held{Running: paced("v1")}, ptr.To(node.HeldPartition)
}

// rolls is a node whose pods are being replaced.
func rolls(n *Node)      { n.Template, n.InFlight = paced("v2"), true }
func byHand(n *Node)     { n.PausedByHand = true }
func scaledDown(n *Node) { n.Replicas = 0 }
func deleting(n *Node)   { n.Deleting = true }
func optedOut(n *Node)   { n.Paced = false }
func neverReady(n *Node) { n.Cleared = nil }
func unready(n *Node)    { n.Cleared = &node.Cleared{Canary: paced("v1")} }

func proven(lease string, transitions int32) func(*Node) {
	return func(n *Node) { n.HasSlot, n.Slot = true, &node.SlotRef{Lease: lease, Transitions: transitions} }
}

func waiting(name string) Node { return settled(name, drifts) }

func freeSlot(index int) Slot {
	return Slot{Name: Name(index), Index: index, ResourceVersion: "1", Transitions: 1}
}

func heldSlot(index int, holder string) Slot {
	s := freeSlot(index)
	s.Holder, s.HolderUID = holder, types.UID("uid-"+holder)
	return s
}

func fleet(count int, change ...func(*Node)) []Node {
	var nodes []Node
	for i := range count {
		nodes = append(nodes, settled(fmt.Sprintf("n-%02d", i), change...))
	}
	return nodes
}

func cellOf(percent int) node.Cell {
	return node.Cell{Enabled: true, Percent: percent, Pace: node.PaceImages, Gate: node.GateNative}
}

func TestCount(t *testing.T) {
	t.Parallel()
	cases := map[string]struct{ running, percent, want int }{
		"1 % of 3 is 1":             {3, 1, 1},
		"25 % of 8 is 2":            {8, 25, 2},
		"rounded down: 25 % of 11":  {11, 25, 2},
		"99 % of 8 is not all":      {8, 99, 7},
		"100 % is all":              {8, 100, 8},
		"0 % holds nothing":         {8, 0, 0},
		"below 0 holds nothing":     {8, -1, 0},
		"no node runs: one slot":    {0, 25, 1},
		"a large fleet is exact":    {100000, 33, 33000},
		"50 % of 1 is still a slot": {1, 50, 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, Count(c.running, c.percent))
		})
	}
}

func TestLine(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		nodes []Node
		slots []Slot
		want  Queue
	}{
		"nobody": {nil, nil, Queue{Slots: 1}},
		"waiting in the byte order of names": {
			[]Node{waiting("b"), waiting("a-10"), waiting("a-2"), waiting("B")}, nil,
			Queue{Running: 4, Slots: 2, Waiting: []string{"B", "a-10", "a-2", "b"}},
		},
		"a holder does not wait": {
			[]Node{waiting("a"), waiting("b")}, []Slot{heldSlot(0, "b")},
			Queue{Running: 2, Slots: 1, Holders: []string{"b"}, Waiting: []string{"a"}},
		},
		"a holder that rolls is no roller without a slot": {
			[]Node{settled("a", rolls)}, []Slot{heldSlot(0, "a")},
			Queue{Running: 1, Slots: 1, Holders: []string{"a"}},
		},
		"a roller without a slot is named": {
			[]Node{settled("b", rolls), settled("a", rolls)}, nil,
			Queue{Running: 2, Slots: 1, Unslotted: []string{"a", "b"}},
		},
		"an OnDelete node whose pods nobody replaces waits": {
			[]Node{settled("a", func(n *Node) { n.Outdated = true })}, nil,
			Queue{Running: 1, Slots: 1, Waiting: []string{"a"}},
		},
		"a node that may roll is not sure, and neither waits nor is adopted": {
			[]Node{settled("a", func(n *Node) { n.Unsure = true })}, nil,
			Queue{Running: 1, Slots: 1, Unsure: 1},
		},
		"paused by hand: no count, no queue":     {[]Node{settled("a", drifts, byHand)}, nil, Queue{Slots: 1}},
		"replicas 0: no count, no queue":         {[]Node{settled("a", drifts, scaledDown)}, nil, Queue{Slots: 1}},
		"deleting: no count, no queue":           {[]Node{settled("a", drifts, deleting)}, nil, Queue{Slots: 1}},
		"deleting in mid-roll is no roller":      {[]Node{settled("a", rolls, deleting)}, nil, Queue{Slots: 1}},
		"opted out: no count, no queue":          {[]Node{settled("a", drifts, optedOut)}, nil, Queue{Slots: 1}},
		"opted out in mid-roll is no roller":     {[]Node{settled("a", rolls, optedOut)}, nil, Queue{Slots: 1}},
		"never ready: no count, but it queues":   {[]Node{settled("a", drifts, neverReady)}, nil, Queue{Slots: 1, Waiting: []string{"a"}}},
		"released before ready: no count":        {[]Node{settled("a", unready)}, nil, Queue{Slots: 1}},
		"a holder that left pacing still counts": {[]Node{settled("a", optedOut)}, []Slot{heldSlot(0, "a")}, Queue{Slots: 1, Holders: []string{"a"}}},
		"a holder that no read shows still counts": {
			[]Node{waiting("b")}, []Slot{heldSlot(0, "a")},
			Queue{Running: 1, Slots: 1, Holders: []string{"a"}, Waiting: []string{"b"}},
		},
		"a holder recreated under its name still counts, and the new one waits": {
			[]Node{settled("a", drifts, func(n *Node) { n.UID = "other" })}, []Slot{heldSlot(0, "a")},
			Queue{Running: 1, Slots: 1, Holders: []string{"a"}, Waiting: []string{"a"}},
		},
		"holders whose UID somebody took off count each": {
			nil, []Slot{{Name: Name(0), Holder: "a"}, {Name: Name(1), Index: 1, Holder: "b"}},
			Queue{Slots: 1, Holders: []string{"a", "b"}},
		},
		"two slots of one node are one holder": {
			[]Node{settled("a", rolls)}, []Slot{heldSlot(0, "a"), heldSlot(1, "a")},
			Queue{Running: 1, Slots: 1, Holders: []string{"a"}},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, Line(cellOf(50), c.nodes, c.slots))
		})
	}
}

func TestRoom(t *testing.T) {
	t.Parallel()
	require.Equal(t, 3, Queue{Slots: 3}.Room())
	require.Equal(t, 1, Queue{Slots: 3, Holders: []string{"a"}, Unslotted: []string{"b"}}.Room())
	require.Zero(t, Queue{Slots: 1, Holders: []string{"a", "b"}}.Room(), "over the count there is no room, nor less")
}

// told is what moves say, in names.
type told struct {
	adopt, grant []string // NODE@SLOT
	free, remove []string
	create       []int
}

func tell(m Moves) told {
	pairs := func(list []Pairing) (out []string) {
		for _, p := range list {
			out = append(out, p.Node.Name+"@"+p.Slot.Name)
		}
		return out
	}
	names := func(list []Slot) (out []string) {
		for _, s := range list {
			out = append(out, s.Name)
		}
		return out
	}
	return told{pairs(m.Adopt), pairs(m.Grant), names(m.Free), names(m.Delete), m.Create}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	quarter := cellOf(25)
	frozen := quarter
	frozen.Frozen = true
	left := cellOf(25)
	left.Enabled = false
	eight := func(change ...Node) []Node { return append(fleet(8-len(change)), change...) }
	cases := map[string]struct {
		cell  node.Cell
		nodes []Node
		slots []Slot
		want  told
	}{
		"missing Leases are created, the lowest index first": {quarter, eight(), nil, told{create: []int{0, 1}}},
		"nothing is granted before its Lease is there":       {quarter, eight(waiting("a")), nil, told{create: []int{0, 1}}},
		"a gap is filled": {quarter, eight(), []Slot{freeSlot(1)}, told{create: []int{0}}},
		"nothing to do":   {quarter, eight(), []Slot{freeSlot(0), freeSlot(1)}, told{}},
		"granted by name, up to room, the lowest index first": {quarter, eight(waiting("c"), waiting("a"), waiting("b")), []Slot{freeSlot(1), freeSlot(0)}, told{grant: []string{"a@paceline-slot-0", "b@paceline-slot-1"}}},
		"a holder takes room": {
			quarter, eight(waiting("a"), waiting("b"), settled("x", rolls)), []Slot{heldSlot(0, "x"), freeSlot(1)},
			told{grant: []string{"a@paceline-slot-1"}},
		},
		"no grant while holders fill the budget": {
			quarter, eight(waiting("a"), settled("x", rolls), settled("y", rolls)), []Slot{heldSlot(0, "x"), heldSlot(1, "y")}, told{},
		},
		"no grant over the count, though a Lease is free": {
			quarter, eight(waiting("a"), settled("x", rolls), settled("y", rolls)), []Slot{heldSlot(0, "x"), heldSlot(1, "y"), freeSlot(2)},
			told{remove: []string{"paceline-slot-2"}},
		},
		"frozen: nothing is granted": {frozen, eight(waiting("a")), []Slot{freeSlot(0), freeSlot(1)}, told{}},
		"frozen: what rolls is adopted all the same": {
			frozen, eight(settled("x", rolls)), []Slot{freeSlot(0), freeSlot(1)}, told{adopt: []string{"x@paceline-slot-0"}},
		},
		"adopted before anything is granted": {
			quarter, eight(waiting("a"), settled("x", rolls)), []Slot{freeSlot(0), freeSlot(1)}, told{adopt: []string{"x@paceline-slot-0"}},
		},
		"adopted over the count: free slots first, then new indexes": {
			quarter, eight(settled("x", rolls), settled("y", rolls), settled("z", rolls), waiting("a")), []Slot{heldSlot(0, "h"), freeSlot(1)},
			told{adopt: []string{"x@paceline-slot-1", "y@paceline-slot-2", "z@paceline-slot-3"}, free: []string{"paceline-slot-0"}},
		},
		"an index that adoption makes is not created again": {
			quarter, eight(settled("h", rolls), settled("x", rolls)), []Slot{heldSlot(0, "h")}, told{adopt: []string{"x@paceline-slot-1"}},
		},
		"a gap is adopted into before a new index": {
			quarter, eight(settled("h", rolls), settled("x", rolls)), []Slot{heldSlot(1, "h")}, told{adopt: []string{"x@paceline-slot-0"}},
		},
		"a holder that is gone frees its slot, and nothing is granted in that pass": {
			quarter, eight(waiting("a")), []Slot{heldSlot(0, "gone"), freeSlot(1)}, told{free: []string{"paceline-slot-0"}},
		},
		"a holder recreated under its name (another UID) frees its slot": {
			quarter, eight(settled("a", drifts, func(n *Node) { n.UID = "other" })), []Slot{heldSlot(0, "a"), freeSlot(1)},
			told{free: []string{"paceline-slot-0"}},
		},
		"a node that left pacing keeps its slot": {quarter, eight(settled("x", optedOut)), []Slot{heldSlot(0, "x")}, told{}},
		"of two slots of one node the one that its annotation names stays": {
			quarter, eight(settled("x", rolls, proven(Name(1), 1))), []Slot{heldSlot(0, "x"), heldSlot(1, "x")}, told{free: []string{"paceline-slot-0"}},
		},
		"of two slots, none of them named, the lower stays": {
			quarter, eight(settled("x", rolls, proven(Name(1), 7))), []Slot{heldSlot(1, "x"), heldSlot(0, "x")}, told{free: []string{"paceline-slot-1"}},
		},
		"of three slots the named one stays": {
			quarter, eight(settled("x", rolls, proven(Name(1), 1))), []Slot{heldSlot(2, "x"), heldSlot(1, "x"), heldSlot(0, "x")},
			told{free: []string{"paceline-slot-0", "paceline-slot-2"}},
		},
		"shrink: the highest free index goes first": {
			quarter, eight(), []Slot{freeSlot(0), freeSlot(1), freeSlot(2), freeSlot(3)}, told{remove: []string{"paceline-slot-3", "paceline-slot-2"}},
		},
		"shrink: nobody loses a slot": {
			quarter, eight(settled("x", rolls), settled("y", rolls), settled("z", rolls)),
			[]Slot{heldSlot(1, "x"), heldSlot(2, "y"), heldSlot(3, "z"), freeSlot(0)}, told{remove: []string{"paceline-slot-0"}},
		},
		"shrink: a granted slot is not deleted": {
			cellOf(1), eight(waiting("a")), []Slot{freeSlot(0), freeSlot(1)},
			told{grant: []string{"a@paceline-slot-0"}, remove: []string{"paceline-slot-1"}},
		},
		"budget 0: nothing is granted, free Leases go": {
			cellOf(0), eight(), []Slot{freeSlot(0), freeSlot(1)}, told{remove: []string{"paceline-slot-1", "paceline-slot-0"}},
		},
		"a cell that paces no more keeps its Leases while a node is held": {
			left, []Node{settled("a", drifts, optedOut)}, []Slot{freeSlot(0), freeSlot(1)}, told{},
		},
		"a cell that paces no more drops its Leases with the last hold": {
			left, []Node{settled("a", optedOut)}, []Slot{freeSlot(0), heldSlot(1, "a")}, told{remove: []string{"paceline-slot-0"}},
		},
		"no cell, no Leases: nothing is made": {left, []Node{settled("a", optedOut)}, nil, told{}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, tell(Decide(c.cell, c.nodes, c.slots)))
		})
	}
}

// A cell whose nodes and slots are in any state, forged and damaged ones included.
func drawCell(t *rapid.T) (node.Cell, []Node, []Slot) {
	cell := node.Cell{
		Enabled: rapid.Bool().Draw(t, "enabled"), Percent: rapid.IntRange(0, 100).Draw(t, "percent"),
		Frozen: rapid.Bool().Draw(t, "frozen"), Pace: node.PaceImages,
	}
	changes := []func(*Node){
		func(*Node) {}, drifts, rolls, byHand, scaledDown, deleting, optedOut, neverReady, unready,
		proven(Name(0), 1), proven(Name(2), 1), func(n *Node) { n.UID = "other" },
	}
	var nodes []Node
	for i := range rapid.IntRange(0, 8).Draw(t, "nodes") {
		first := rapid.SampledFrom(changes).Draw(t, "change")
		second := rapid.SampledFrom(changes).Draw(t, "and")
		nodes = append(nodes, settled(fmt.Sprintf("n-%d", i), first, second))
	}
	var slots []Slot
	for index := range 6 {
		switch rapid.IntRange(0, 3).Draw(t, "slot") {
		case 0:
			slots = append(slots, freeSlot(index))
		case 1:
			slots = append(slots, heldSlot(index, fmt.Sprintf("n-%d", rapid.IntRange(0, 9).Draw(t, "holder"))))
		case 2:
			slot := heldSlot(index, fmt.Sprintf("n-%d", rapid.IntRange(0, 9).Draw(t, "holder")))
			slot.HolderUID = types.UID(rapid.SampledFrom([]string{"", "other", "uid-n-0"}).Draw(t, "holder uid"))
			slots = append(slots, slot)
		}
	}
	return cell, nodes, slots
}

func TestDecideNeverGrantsBeyondRoom(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cell, nodes, slots := drawCell(t)
		queue := Line(cell, nodes, slots)
		moves := Decide(cell, nodes, slots)
		require.LessOrEqual(t, len(moves.Grant), queue.Room())
		if len(moves.Grant) > 0 {
			require.True(t, cell.Paces() && !cell.Frozen)
			require.Empty(t, moves.Adopt)
			require.Empty(t, moves.Free)
			require.LessOrEqual(t, len(queue.Holders)+len(queue.Unslotted)+len(moves.Grant), Count(queue.Running, cell.Percent))
		}
		given, used := map[string]bool{}, map[string]bool{}
		for _, p := range append(moves.Adopt, moves.Grant...) {
			require.False(t, given[p.Node.Name], "%s gets two slots", p.Node.Name)
			require.False(t, used[p.Slot.Name], "%s is given twice", p.Slot.Name)
			require.True(t, p.Slot.Free())
			require.True(t, p.Node.Paced && !p.Node.Deleting)
			given[p.Node.Name], used[p.Slot.Name] = true, true
		}
		for _, p := range moves.Grant {
			require.False(t, p.Node.Paused())
			require.NotEmpty(t, p.Slot.ResourceVersion, "a grant is a conditional write of a Lease that was read")
		}
		for _, s := range moves.Delete {
			require.True(t, s.Free() && !used[s.Name], "%s is held or given", s.Name)
			used[s.Name] = true
		}
		for _, index := range moves.Create {
			require.False(t, used[Name(index)], "%s is made twice", Name(index))
		}
		for _, s := range moves.Free {
			require.False(t, s.Free())
		}
	})
}

func TestDecideIsTheSameWhateverTheInputOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cell, nodes, slots := drawCell(t)
		otherNodes := rapid.Permutation(nodes).Draw(t, "nodes in another order")
		otherSlots := rapid.Permutation(slots).Draw(t, "slots in another order")
		require.Equal(t, Line(cell, nodes, slots), Line(cell, otherNodes, otherSlots))
		require.Equal(t, Decide(cell, nodes, slots), Decide(cell, otherNodes, otherSlots))
	})
}

func TestNames(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		names []string
		want  string
	}{
		"none":                      {nil, "nobody"},
		"one":                       {[]string{"a"}, "a"},
		"five are all named":        {[]string{"a", "b", "c", "d", "e"}, "a, b, c, d, e"},
		"of six five, then a count": {[]string{"a", "b", "c", "d", "e", "f"}, "a, b, c, d, e and 1 more"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, Names(c.names))
		})
	}
}

func TestBehind(t *testing.T) {
	t.Parallel()
	queue := Queue{Slots: 2, Holders: []string{"x"}, Unslotted: []string{"y"}, Waiting: []string{"a", "b"}}
	require.Equal(t, "place 1 for 2 slots held by x, y", queue.Behind("a"))
	require.Equal(t, "place 2 for 2 slots held by x, y", queue.Behind("b"))
	require.Equal(t, "place 3 for 2 slots held by x, y", queue.Behind("new"), "whom the line does not know yet comes last")
	require.Equal(t, "place 1 for 2 slots, free now", Queue{Slots: 2}.Behind("a"))
	require.Equal(t, "place 1 for 1 slot held by x", Queue{Slots: 1, Holders: []string{"x"}}.Behind("a"))
	require.Equal(t, "place 1 for 0 slots", Queue{}.Behind("a"), "none is made yet")
	require.Equal(t, "place 1 for 2 slots; not yet known to be at rest: 1 node", Queue{Slots: 2, Unsure: 1}.Behind("a"))
	const frozen = "the cell is frozen (annotation " + node.AnnotationFreeze + "); "
	require.Equal(t, frozen+"place 1 for 2 slots", Queue{Slots: 2, Frozen: true}.Behind("a"), "free slots are of no use to it")
	queue.Frozen = true
	require.Equal(t, frozen+"place 1 for 2 slots held by x, y", queue.Behind("a"))
}
