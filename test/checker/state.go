package checker

import (
	"maps"
	"slices"
	"time"
)

// state is the fleet while events are replayed.
type state struct {
	at     Moment
	from   Moment
	nodes  map[string]*node
	seen   map[string]bool   // every node that ever stood
	owner  map[string]string // pod to its last node
	rolls  []*Roll
	open   map[string]*Roll // pod to its unfinished outage
	lost   map[string]bool  // pods that were deleted although they are asked for
	images map[string][]ImageChange
	holder map[string]string // Lease to holder
	out    Report
}

// node is a StatefulSet that stands.
type node struct {
	uid             string
	start, replicas int
	deleting        bool
	ordinals        map[string]int // of every pod that ever was
	pods            map[int]Pod
	wasUp           map[int]bool // ordinals that have been ready since they were last asked for
}

func newState() *state {
	return &state{
		nodes: map[string]*node{}, seen: map[string]bool{}, owner: map[string]string{}, open: map[string]*Roll{}, lost: map[string]bool{},
		images: map[string][]ImageChange{}, holder: map[string]string{},
		out: Report{Restarts: map[string]int{}},
	}
}

func (s *state) apply(e Event) {
	s.at = Moment{RV: e.RV, Time: e.Time}
	if s.from.RV == 0 {
		s.from = s.at
	}
	switch {
	case e.Set != nil:
		s.applySet(e.Change, *e.Set)
	case e.Pod != nil:
		s.applyPod(e.Change, *e.Pod)
	case e.Lease != nil:
		s.applyLease(e.Change, *e.Lease)
	}
	s.count()
}

func (s *state) applySet(change Change, set Set) {
	n := s.node(set.Name)
	if n.uid != set.UID {
		n.uid, n.wasUp = set.UID, map[int]bool{}
	}
	s.seen[set.Name] = true
	n.start, n.replicas, n.deleting = set.Start, set.Replicas, set.Deleting
	if change == Deleted {
		n.uid, n.replicas = "", 0
	}
	// What is no longer asked for starts from nothing when it is asked for again.
	for ordinal := range n.wasUp {
		if !n.wants(ordinal) {
			delete(n.wasUp, ordinal)
		}
	}
	for ordinal, pod := range n.pods {
		n.note(ordinal, pod)
	}
	for pod, ordinal := range n.ordinals {
		if !n.wants(ordinal) {
			delete(s.open, pod)
			delete(s.lost, pod)
		}
	}
}

func (s *state) applyPod(change Change, pod Pod) {
	name := pod.Node
	if name == "" {
		name = s.owner[pod.Name]
	}
	if name == "" {
		return
	}
	s.owner[pod.Name] = name
	n := s.node(name)
	n.ordinals[pod.Name] = pod.Ordinal
	before, stood := n.pods[pod.Ordinal]
	if change == Deleted {
		pod.Ready = false
		delete(n.pods, pod.Ordinal)
	} else {
		n.pods[pod.Ordinal] = pod
		s.noteImages(pod)
	}
	n.note(pod.Ordinal, pod)
	s.countRestart(name, n.wants(pod.Ordinal), pod, change)
	s.follow(name, n.wants(pod.Ordinal), before, stood, pod, change)
}

func (s *state) countRestart(name string, wanted bool, pod Pod, change Change) {
	if !wanted {
		return
	}
	if change == Deleted {
		s.lost[pod.Name] = true
	} else if s.lost[pod.Name] {
		delete(s.lost, pod.Name)
		s.out.Restarts[name]++
	}
}

// follow opens a roll when a ready pod stops being ready and closes it when one of its name is ready.
func (s *state) follow(name string, wanted bool, before Pod, stood bool, pod Pod, change Change) {
	roll := s.open[pod.Name]
	if stood && before.Ready && !pod.Ready && roll == nil && wanted {
		roll = &Roll{Node: name, Pod: pod.Name, FromImage: before.Images, FromUID: before.UID, Down: s.at, Slot: s.slotOf(name)}
		s.open[pod.Name] = roll
		s.rolls = append(s.rolls, roll)
	}
	if roll == nil {
		return
	}
	if change != Deleted && pod.UID != roll.FromUID {
		roll.ToUID = pod.UID
	}
	if change != Deleted {
		roll.ToImage = pod.Images
	}
	if pod.Ready {
		roll.Up = s.at
		delete(s.open, pod.Name)
	}
}

func (s *state) applyLease(change Change, lease Lease) {
	holder := lease.Holder
	if change == Deleted {
		holder = ""
	}
	if s.holder[lease.Name] == holder {
		return
	}
	s.holder[lease.Name] = holder
	if holder == "" {
		delete(s.holder, lease.Name)
	}
	s.out.Holders = append(s.out.Holders, HolderChange{Moment: s.at, Lease: lease.Name, Holder: holder})
	s.out.MaxHolders = max(s.out.MaxHolders, len(s.holder))
}

func (s *state) slotOf(node string) string {
	for lease, holder := range s.holder {
		if holder == node {
			return lease
		}
	}
	return ""
}

func (s *state) noteImages(pod Pod) {
	history := s.images[pod.Name]
	if len(history) > 0 && history[len(history)-1].UID == pod.UID && history[len(history)-1].Images == pod.Images {
		return
	}
	s.images[pod.Name] = append(history, ImageChange{Moment: s.at, UID: pod.UID, Images: pod.Images, Revision: pod.Revision})
}

// count takes the number of nodes that are down at this resourceVersion.
func (s *state) count() {
	var down []string
	for name, n := range s.nodes {
		if n.down() {
			down = append(down, name)
		}
	}
	slices.Sort(down)
	if last := len(s.out.Downs) - 1; last < 0 || !slices.Equal(s.out.Downs[last].Nodes, down) {
		s.out.Downs = append(s.out.Downs, Down{Moment: s.at, Nodes: down})
	}
	if len(down) > s.out.MaxDown {
		s.out.MaxDown, s.out.MaxDownAt, s.out.MaxDownNodes = len(down), s.at, down
	}
}

func (s *state) report() Report {
	out := s.out
	out.From, out.To = s.from, s.at
	out.Nodes = slices.Sorted(maps.Keys(s.seen))
	out.Images = s.images
	for _, roll := range s.rolls {
		out.Rolls = append(out.Rolls, *roll)
	}
	return out
}

func (s *state) node(name string) *node {
	if s.nodes[name] == nil {
		s.nodes[name] = &node{ordinals: map[string]int{}, pods: map[int]Pod{}, wasUp: map[int]bool{}}
	}
	return s.nodes[name]
}

// wants tells whether the node should have a pod of this ordinal.
func (n *node) wants(ordinal int) bool {
	return n.uid != "" && !n.deleting && ordinal >= n.start && ordinal < n.start+n.replicas
}

func (n *node) note(ordinal int, pod Pod) {
	if pod.Ready && n.wants(ordinal) {
		n.wasUp[ordinal] = true
	}
}

// down: a pod that is asked for and has been ready is not ready now.
func (n *node) down() bool {
	for ordinal := range n.wasUp {
		if n.wants(ordinal) && !n.pods[ordinal].Ready {
			return true
		}
	}
	return false
}

// Moment is a point of the namespace's history.
type Moment struct {
	RV   uint64
	Time time.Time // when the checker saw it
}
