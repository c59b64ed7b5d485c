package model

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/paceline/paceline/lease"
	"github.com/paceline/paceline/node"
	"github.com/paceline/paceline/planner"
)

// op is one micro-step of a pass: one read or one write. It returns the next one, nil at the end.
type op func() op

// controller is one active Paceline: its caches, refreshed kind by kind, and its passes under way.
type controller struct {
	id       int
	w        *world
	cache    store
	cellPass op
	nodes    map[string]op
	memory   map[string]*memory
	window   *window
}

// memory is planner's: what the last look at a node of this name left behind. Here no gate is refused to open,
// so no try is put off.
type memory struct {
	plan    string
	high    int
	deleted types.UID
}

// The kinds of objects that a controller caches, each on its own.
const (
	kindSets = iota
	kindPods
	kindRevisions
	kindLeases
	kindCell
	kinds
)

func (c *controller) refresh(kind int) {
	switch kind {
	case kindSets:
		c.cache.sets = maps.Clone(c.w.sets)
	case kindPods:
		c.cache.pods = maps.Clone(c.w.pods)
	case kindRevisions:
		c.cache.revisions = maps.Clone(c.w.revisions)
	case kindLeases:
		c.cache.leases = maps.Clone(c.w.leases)
	case kindCell:
		c.cache.cell = c.w.cell
	}
}

func (c *controller) refreshAll() {
	for kind := range kinds {
		c.refresh(kind)
	}
}

// restart is a crash and the start after it: nothing in memory is left, all caches are filled anew.
func (c *controller) restart() {
	c.dropCell()
	c.nodes, c.memory = map[string]op{}, map[string]*memory{}
	c.refreshAll()
}

func (c *controller) dropCell() {
	c.cellPass = nil
	c.w.windows = slices.DeleteFunc(c.w.windows, func(x *window) bool { return x == c.window })
	c.window = nil
}

// facts is planner.Fleet.Facts: pods and revisions always come from the cache.
func (c *controller) facts(s *set, cell node.Cell) planner.Facts {
	revisions := make(node.Revisions, len(c.cache.revisions[s.uid]))
	for _, r := range c.cache.revisions[s.uid] {
		revisions[r] = inRevision(r).paced()
	}
	return planner.Facts{
		View: s.view(), Pods: c.w.fleet(c.cache.pods, s), Revisions: revisions, Cell: cell, Now: c.w.now, Paced: c.w.paces(s, cell),
	}
}

func (w *world) fleet(from map[string]*pod, s *set) node.Fleet {
	var fleet node.Fleet
	for _, p := range w.podsOf(from, s.name, s.uid) {
		fleet = append(fleet, node.Pod{
			Name: p.name, UID: p.uid, Ordinal: p.ordinal, Revision: p.revision,
			Ready: p.ready, UnreadySince: p.since, Deleting: p.deleting,
		})
	}
	return fleet
}

// look is Fleet.Nodes: what a list of sets makes, with pods and revisions from the cache.
func (c *controller) look(sets map[string]*set, cell node.Cell) []lease.Node {
	var nodes []lease.Node
	for _, name := range c.w.names {
		s := sets[name]
		if s == nil {
			continue
		}
		f := c.facts(s, cell)
		nodes = append(nodes, lease.Node{
			View: f.View, Paced: f.Paced,
			InFlight: f.InFlight(f.Pods, f.Revisions, cell.Pace), Outdated: f.Outdated(f.Pods, f.Revisions, cell.Pace), Unsure: unsure(f),
		})
	}
	return nodes
}

// unsure is Facts.unsure.
func unsure(f planner.Facts) bool {
	if f.Closed(f.Cell.Pace) || f.Cleared != nil || f.Replicas == 0 {
		return false
	}
	for _, p := range f.Pods {
		if _, ok := f.Revisions.Of(p.Revision, nil); !ok && p.Revision != f.Status.UpdateRevision {
			return true
		}
	}
	return !f.Status.Observed || int(f.Status.Replicas) != len(f.Pods)
}

// readingLasts is planner's, longer: a step takes a second here.
const readingLasts = 20 * time.Second

// touchEvery is planner's: how long a node that was touched is left alone.
const touchEvery = 5 * time.Second

// leaving is planner's pass.leaving.
func leaving(cell node.Cell, nodes []lease.Node, slots []lease.Slot, now time.Time) []lease.Node {
	var held []lease.Node
	room := max(1, len(slots))
	for _, n := range nodes {
		gated, since := n.HasWish() || (cell.Enabled && n.Gated()), now.Sub(n.Touched)
		rolls := !n.Status.Observed || n.Status.Updated < n.Replicas-n.OwnPartition() || n.Status.Ready < n.Replicas
		switch {
		case n.Paced || n.Deleting:
		case gated && since >= 0 && since < touchEvery:
			room--
		case gated:
			held = append(held, n)
		case n.Strategy == node.RollingUpdate && (n.HasSlot || since < deadline) && rolls:
			room--
		}
	}
	return held[:max(0, min(room, len(held)))]
}

func empty(m lease.Moves) bool {
	return len(m.Adopt)+len(m.Free)+len(m.Grant)+len(m.Create)+len(m.Delete) == 0
}

// reconcileCell is CellReconciler.Reconcile: it decides on the cache; where there is something to do it
// reads Leases, namespace and StatefulSets live, one after the other, decides again and writes.
func (c *controller) reconcileCell() op {
	nodes, slots := c.look(c.cache.sets, c.cache.cell), sortedSlots(c.cache.leases)
	if empty(lease.Decide(c.cache.cell, nodes, slots)) && len(leaving(c.cache.cell, nodes, slots, c.w.now)) == 0 {
		return nil
	}
	return func() op { // live: Leases
		c.window = c.w.open()
		live := sortedSlots(c.w.leases)
		return func() op { // live: namespace
			cell := c.w.cell
			return func() op { // live: StatefulSets
				nodes := c.look(c.w.sets, cell)
				c.w.log("controller %d: cell decided on live reads", c.id)
				return c.move(nodes, live, lease.Decide(cell, nodes, live), cell)
			}
		}
	}
}

// move is CellReconciler.move: one write after the other; the first that fails ends the pass.
func (c *controller) move(nodes []lease.Node, slots []lease.Slot, m lease.Moves, cell node.Cell) op {
	var writes []func() bool
	at := c.w.now
	for _, pairing := range m.Adopt {
		writes = append(writes, func() bool { return c.give(pairing, cell, "adopt") })
	}
	for _, slot := range m.Free {
		writes = append(writes, func() bool { return c.free(slot, "its holder is gone") })
	}
	for _, pairing := range m.Grant {
		writes = append(writes, func() bool { return c.stillSo(cell, at) }, func() bool { return c.give(pairing, cell, "grant") })
	}
	for _, index := range m.Create {
		writes = append(writes, func() bool { return c.createLease(lease.Slot{Index: index}) })
	}
	for _, slot := range m.Delete {
		writes = append(writes, func() bool { return c.deleteLease(slot) })
	}
	return c.series(writes, func() op { return c.letGo(leaving(cell, nodes, slots, c.w.now)) })
}

// stillSo is CellReconciler.stillSo: a live read of the namespace.
func (c *controller) stillSo(cell node.Cell, at time.Time) bool {
	if c.w.now.Sub(at) > readingLasts || c.w.cell != cell {
		return false
	}
	c.window.recheck(c.w)
	return true
}

func (c *controller) series(writes []func() bool, after op) op {
	if len(writes) == 0 {
		return after
	}
	return func() op {
		if !writes[0]() {
			return nil
		}
		return c.series(writes[1:], after)
	}
}

func (c *controller) letGo(nodes []lease.Node) op {
	if len(nodes) == 0 {
		return nil
	}
	return func() op {
		s := c.w.sets[nodes[0].Name]
		if s == nil {
			return nil
		}
		return c.write("let go", s, touch(c.w.now), func() op { return c.letGo(nodes[1:]) })
	}
}

// give is CellReconciler.give: Take or CreateHeld, with the plan.
func (c *controller) give(pairing lease.Pairing, cell node.Cell, why string) bool {
	slot, n := pairing.Slot, pairing.Node
	plan := planner.NewPlan(n.View, cell.Pace, slot.Transitions+1, c.w.now).String()
	create := slot.ResourceVersion == ""
	slot.Holder, slot.HolderUID, slot.Plan = n.Name, n.UID, plan
	slot.Transitions++
	slot.Acquired, slot.Renewed, slot.Deadline = c.w.now, c.w.now, deadline
	if create && !c.createLease(slot) || !create && !c.updateLease(slot) {
		return false
	}
	c.w.counts[why]++
	c.w.log("controller %d: %s %s to %s", c.id, why, lease.Name(slot.Index), n.Name)
	if why == "grant" {
		c.w.granted(c.window, n)
	} else {
		c.w.adopts(n)
	}
	return true
}

func (c *controller) free(slot lease.Slot, why string) bool {
	holder := slot.Holder
	slot.Holder, slot.HolderUID, slot.Plan = "", "", ""
	slot.Acquired, slot.Renewed = time.Time{}, time.Time{}
	ok := c.updateLease(slot)
	if ok {
		c.w.counts["free: "+why]++
	}
	c.w.log("controller %d: free %s of %s, %s: %t", c.id, slot.Name, holder, why, ok)
	return ok
}

func (c *controller) createLease(slot lease.Slot) bool {
	slot.Namespace, slot.Name = namespace, lease.Name(slot.Index)
	if _, there := c.w.leases[slot.Name]; there {
		return false
	}
	slot.UID, slot.Deadline = c.w.uid("l"), deadline
	slot.ResourceVersion = strconv.FormatInt(c.w.nextRV(), 10)
	c.w.leases[slot.Name] = slot
	c.w.log("controller %d: create %s", c.id, slot.Name)
	return true
}

func (c *controller) updateLease(slot lease.Slot) bool {
	if live, there := c.w.leases[slot.Name]; !there || live.ResourceVersion != slot.ResourceVersion {
		return false
	}
	if c.w.leases[slot.Name] == slot {
		return true // the API server stores no update that changes nothing
	}
	slot.ResourceVersion = strconv.FormatInt(c.w.nextRV(), 10)
	c.w.leases[slot.Name] = slot
	return true
}

func (c *controller) deleteLease(slot lease.Slot) bool {
	if live, there := c.w.leases[slot.Name]; !there || live.ResourceVersion != slot.ResourceVersion {
		return false
	}
	delete(c.w.leases, slot.Name)
	c.w.nextRV()
	c.w.log("controller %d: delete %s", c.id, slot.Name)
	return true
}

// reconcileNode is NodeReconciler.Reconcile without what it says to people.
func (c *controller) reconcileNode(name string) op {
	s := c.cache.sets[name]
	if s == nil {
		delete(c.memory, name)
		return nil
	}
	f := c.facts(s, c.cache.cell)
	for _, slot := range sortedSlots(c.cache.leases) {
		if slot.HeldBy(f.Name, f.UID) && (f.Slot == nil || slot.Proves(f.View.Slot, f.Name, f.UID)) {
			f.Slot = &slot
		}
	}
	step := planner.Next(f)
	c.remember(f, &step)
	switch {
	case f.Slot == nil && step.Effect == nil:
		return nil
	case f.Slot == nil:
		return c.atRest(s, step.Effect)
	}
	return c.holding(s, f, step)
}

// remember is NodeReconciler.remember: progress that the plan does not show renews the slot.
func (c *controller) remember(f planner.Facts, step *planner.Step) {
	if step.Running == nil {
		return
	}
	remembered, now := c.memoryOf(f.Name), progress(f)
	moved := remembered.plan == step.Running.ID && now > remembered.high
	if remembered.plan != step.Running.ID || moved {
		remembered.plan, remembered.high = step.Running.ID, now
	}
	if moved && step.Plan == nil && step.Effect == nil {
		step.Plan = step.Running
	}
}

// progress is Facts.progress.
func progress(f planner.Facts) int {
	updated, ready := 0, 0
	for _, p := range f.Pods.From(f.FirstUpdated()) {
		if p.Revision != f.Status.UpdateRevision || p.Deleting {
			continue
		}
		updated++
		if p.Ready {
			ready++
		}
	}
	return updated*(len(f.Pods)+1) + ready
}

func (c *controller) memoryOf(name string) *memory {
	if c.memory[name] == nil {
		c.memory[name] = &memory{}
	}
	return c.memory[name]
}

// atRest is NodeReconciler.performAtRest.
func (c *controller) atRest(s *set, effect planner.Effect) op {
	switch effect := effect.(type) {
	case planner.Stamp:
		return func() op { // live: pods
			if !c.w.shows(s, effect.Cleared, true) {
				return nil
			}
			return c.write("stamp", s, annotate(node.AnnotationCleared, effect.Cleared.String()), nil)
		}
	case planner.Touch:
		return c.write("touch", s, touch(c.w.now), nil)
	case planner.Forget:
		return c.write("forget", s, forget(s, c.w.now), nil)
	}
	c.w.fail("effect %T at rest", effect)
	return nil
}

// holding is NodeReconciler.perform of a node with a slot.
func (c *controller) holding(s *set, f planner.Facts, step planner.Step) op {
	if step.Plan == nil && step.Effect == nil {
		return nil // a live read alone changes nothing
	}
	return func() op { // live: the Lease
		slot, there := c.w.leases[f.Slot.Name]
		if !there || slot.UID != f.Slot.UID || slot.Transitions != f.Slot.Transitions || !slot.HeldBy(f.Name, f.UID) || slot.Plan != f.Slot.Plan {
			return nil
		}
		plan, progress := step.Plan, true
		if _, opens := step.Effect.(planner.Open); opens && plan == nil && step.Running != nil {
			plan, progress = another(*step.Running), false
		}
		if plan == nil {
			return c.effect(s, slot, step.Effect)
		}
		return func() op { // write: the plan
			slot.Plan = plan.String()
			if progress {
				slot.Renewed = c.w.now
			}
			if !c.updateLease(slot) {
				return nil
			}
			c.w.log("controller %d: plan of %s on %s", c.id, s.name, slot.Name)
			slot = c.w.leases[slot.Name]
			return c.effect(s, slot, step.Effect)
		}
	}
}

// another is Plan.another, without a new id.
func another(p planner.Plan) *planner.Plan {
	p.Tasks = slices.Clone(p.Tasks)
	p.Tasks[0].Attempt++
	return &p
}

func (c *controller) effect(s *set, slot lease.Slot, effect planner.Effect) op {
	switch effect := effect.(type) {
	case nil:
		return nil
	case planner.Open:
		return c.write("open", s, annotate(node.AnnotationSlot, slot.Ref().String()), nil)
	case planner.Touch:
		return c.write("touch", s, touch(c.w.now), nil)
	case planner.Forget:
		return c.write("forget", s, forget(s, c.w.now), nil)
	case planner.DeletePod:
		if c.memoryOf(s.name).deleted == effect.Pod.UID {
			return nil
		}
		return func() op { // live: the StatefulSet
			live := c.w.sets[s.name]
			if live == nil || live.uid != s.uid || live.generation != s.generation || live.status.update != s.status.update {
				return nil
			}
			was := c.w.mayReplace(s, effect.Pod)
			return func() op {
				c.deletePod(s, effect.Pod, was)
				return nil
			}
		}
	case planner.Free:
		return c.write("touch before free", s, touch(c.w.now), func() op {
			c.free(slot, "nothing to roll")
			return nil
		})
	case planner.Release:
		return c.release(s, slot, effect.Cleared)
	}
	c.w.fail("effect %T of a holder", effect)
	return nil
}

// release is NodeReconciler.release: live pods, then the StatefulSet, then the Lease.
func (c *controller) release(s *set, slot lease.Slot, cleared node.Cleared) op {
	return func() op { // live: pods
		if !c.w.shows(s, cleared, !s.view().ReleaseWhenUpdated) {
			return nil
		}
		change := func(s *set) {
			delete(s.annotations, node.AnnotationSlot)
			s.annotations[node.AnnotationCleared] = cleared.String()
		}
		return c.write("release", s, change, func() op {
			c.free(slot, "released")
			return nil
		})
	}
}

// shows reports that the live pods are what cleared says: NodeReconciler.seesLive.
func (w *world) shows(s *set, cleared node.Cleared, ready bool) bool {
	from := s.view().OwnPartition()
	pods := w.fleet(w.pods, s)
	staged := from >= s.replicas // by the writer's own partition: no pod is to be replaced
	if !staged {
		pods = pods.From(from)
	}
	if len(pods) == 0 || !staged && len(pods) != int(s.replicas-from) {
		return false
	}
	for _, p := range pods {
		if ready && !p.Ready || p.Deleting && (ready || !staged) || !staged && p.Revision != cleared.Revision {
			return false
		}
	}
	return true
}

func (c *controller) deletePod(s *set, p node.Pod, was bool) {
	live := c.w.pods[p.Name]
	if live == nil || live.uid != p.UID {
		return
	}
	c.memoryOf(s.name).deleted = p.UID
	if live.deleting {
		return
	}
	// Invariant 9: only pods of another revision than is asked for, or broken ones of it; so by what was
	// true at the live read of the Lease or is true now: nothing makes a pod and its set change in one.
	if !was && !c.w.mayReplace(s, p) {
		c.w.fail("(9) controller %d deletes %s, which runs what its set asks for", c.id, describePod(live))
	}
	c.w.counts["replace-pod"]++
	c.w.mayDisrupt(s, live, "replace-pod")
	c.w.remove(live, "replace-pod of controller "+strconv.Itoa(c.id))
}

func (w *world) mayReplace(s *set, p node.Pod) bool {
	now, live := w.sets[s.name], w.pods[p.Name]
	return now != nil && now.uid == s.uid && live != nil && live.uid == p.UID && live.revision != now.revision()
}

// write is one conditional update by Paceline's account: admission, then storage.
func (c *controller) write(what string, s *set, change func(*set), then op) op {
	r := &request{
		by: "controller " + strconv.Itoa(c.id) + " " + what, name: s.name, uid: s.uid, rv: s.rv, own: true, change: change,
	}
	return func() op {
		if c.w.admit(r) != nil {
			return nil
		}
		return func() op {
			if _, err := c.w.commit(r); err != nil {
				return nil
			}
			return then
		}
	}
}

func annotate(key, value string) func(*set) {
	return func(s *set) { s.annotations[key] = value }
}

func touch(now time.Time) func(*set) {
	return annotate(node.AnnotationTouch, node.TouchAt(now))
}

func forget(s *set, now time.Time) func(*set) {
	held := s.annotations[node.AnnotationHeld]+s.annotations[node.AnnotationDeferred] != ""
	return func(s *set) {
		delete(s.annotations, node.AnnotationSlot)
		delete(s.annotations, node.AnnotationCleared)
		if held {
			touch(now)(s)
		}
	}
}
