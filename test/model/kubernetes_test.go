package model

import (
	"slices"

	"github.com/paceline/paceline/node"
)

// sync is one pass of the StatefulSet controller over one set, as in
// pkg/controller/statefulset/stateful_set_control.go with OrderedReady: it decides on what it sees now and
// leaves its writes as micro-steps: at most one pod, then the status.
func (w *world) sync(name string) []func() {
	s := w.sets[name]
	if s == nil {
		return nil
	}
	update := s.revision()
	w.record(s, update)
	current := s.status.current
	if !slices.Contains(w.revisions[s.uid], current) {
		current = update
	}
	pods := w.podsOf(w.pods, name, s.uid)
	next := status{observed: s.generation, current: current, update: update}
	for _, p := range pods {
		next.replicas++
		if p.ready {
			next.ready++
			next.available++
		}
		if !p.deleting && p.revision == update {
			next.updated++
		}
	}
	if next.updated == s.replicas && next.ready == s.replicas && next.replicas == s.replicas && (s.strategy == node.RollingUpdate || w.promotes) {
		next.current = update
	}
	var steps []func()
	if act := w.replace(s, pods, current, update); act != nil && !s.deleting {
		steps = append(steps, act)
	}
	if next != s.status {
		steps = append(steps, func() { w.report(s, next) })
	}
	return steps
}

// replace is what the StatefulSet controller does to one pod, nil: nothing.
func (w *world) replace(s *set, pods []*pod, current, update string) func() {
	byOrdinal := map[int]*pod{}
	for _, p := range pods {
		byOrdinal[p.ordinal] = p
	}
	for ordinal := range int(s.replicas) {
		p := byOrdinal[ordinal]
		if p == nil {
			revision := update
			if s.strategy == node.RollingUpdate && ordinal < int(s.from()) {
				revision = current
			}
			return func() { w.start(s, ordinal, revision) }
		}
		if p.deleting || !p.ready {
			return nil // OrderedReady waits
		}
	}
	for _, p := range pods { // highest ordinal first
		if p.ordinal >= int(s.replicas) {
			if p.deleting {
				return nil
			}
			return func() { w.remove(p, "scale in") }
		}
	}
	if s.strategy == node.OnDelete {
		return nil
	}
	for ordinal := int(s.replicas) - 1; ordinal >= int(s.from()); ordinal-- {
		if p := byOrdinal[ordinal]; p.revision != update {
			return func() {
				if live := w.pods[p.name]; live != nil && live.uid == p.uid && !live.deleting {
					w.mayDisrupt(s, p, "the StatefulSet controller's update")
					w.remove(p, "update")
				}
			}
		}
	}
	return nil
}

// record keeps the ControllerRevision, and drops those over the history limit that nothing names.
func (w *world) record(s *set, update string) {
	all := slices.DeleteFunc(slices.Clone(w.revisions[s.uid]), func(r string) bool { return r == update })
	live := func(r string) bool {
		return r == s.status.current || slices.ContainsFunc(w.podsOf(w.pods, s.name, s.uid), func(p *pod) bool { return p.revision == r })
	}
	idle := 0
	for _, r := range all {
		if !live(r) {
			idle++
		}
	}
	all = slices.DeleteFunc(all, func(r string) bool {
		if idle > w.historyLimit && !live(r) {
			idle--
			return true
		}
		return false
	})
	w.revisions[s.uid] = append(all, update)
}

func (w *world) start(s *set, ordinal int, revision string) {
	name := podName(s.name, ordinal)
	if w.pods[name] != nil {
		return // another set's pod of this name is still there
	}
	if live := w.sets[s.name]; live == nil || live.uid != s.uid {
		return
	}
	w.log("StatefulSet controller: create %s at %s", name, revision)
	revision = w.admitPod(s, revision)
	w.mayStart(s, name, revision)
	w.putPod(pod{name: name, uid: w.uid("p"), owner: s.uid, set: s.name, ordinal: ordinal, revision: revision, since: w.now})
}

func (w *world) remove(p *pod, why string) {
	live := w.pods[p.name]
	if live == nil || live.uid != p.uid || live.deleting {
		return
	}
	w.log("pod %s (%s) is being deleted: %s", p.name, p.revision, why)
	gone := *live
	gone.deleting = true
	w.putPod(gone)
}

// report writes the status. It is not conditional: the StatefulSet controller reads again and writes over.
func (w *world) report(s *set, next status) {
	live := w.sets[s.name]
	if live == nil || live.uid != s.uid || live.status == next {
		return
	}
	c := live.clone()
	c.status = next
	if c.strategy == node.RollingUpdate && next.current == next.update {
		delete(w.switched, c.uid)
	}
	c.rv = w.nextRV()
	w.sets[s.name] = c
	w.log("StatefulSet controller: status of %s: %+v", s.name, next)
}

// kubelet lets one pod go or become ready.
func (w *world) kubelet(name string) bool {
	p := w.pods[name]
	switch {
	case p == nil:
		return false
	case p.deleting:
		w.log("kubelet: %s is gone", name)
		delete(w.pods, name)
		w.nextRV()
		if s := w.sets[p.set]; s != nil && s.deleting && s.uid == p.owner && len(w.podsOf(w.pods, s.name, s.uid)) == 0 {
			w.drop(s)
		}
		return true
	case !p.ready && !p.broken():
		w.log("kubelet: %s is ready", name)
		up := *p
		up.ready, up.since = true, w.now
		w.putPod(up)
		return true
	}
	return false
}

func (w *world) drop(s *set) {
	w.log("%s (%s) is gone", s.name, s.uid)
	delete(w.sets, s.name)
	delete(w.revisions, s.uid)
	delete(w.syncs, s.name)
	w.nextRV()
}
