package model

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"pgregory.net/rapid"

	"github.com/paceline/paceline/node"
)

// weights says how often each kind of step is drawn.
var weights = map[string]int{
	"kubernetes": 20, "kubelet": 10, "evict": 1, "unready": 1, "work": 6,
	"refresh": 20, "cell": 12, "node": 40, "lost": 1, "crash": 1, "fresh": 8,
	"write": 5, "admit": 2, "store": 6, "person": 1, "setting": 2, "webhook": 1, "time": 1,
}

func (w *world) actions() map[string]func() bool {
	return map[string]func() bool{
		"kubernetes": w.stepKubernetes, "kubelet": w.stepKubelet, "evict": w.stepEvict, "unready": w.stepUnready,
		"refresh": w.stepRefresh, "cell": w.stepCell, "node": w.stepNode, "lost": w.stepLost, "crash": w.stepCrash,
		"write": w.stepWrite, "admit": w.stepAdmit, "store": w.stepStore, "person": w.stepPerson, "setting": w.stepSetting,
		"webhook": w.stepWebhook, "work": w.stepWork, "fresh": w.stepFresh, "time": w.stepTime,
	}
}

func weighted() []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(weights)) {
		for range weights[name] {
			out = append(out, name)
		}
	}
	return out
}

// name draws a node; every other time the first, so that much happens to one.
func (w *world) name() string {
	if i := rapid.IntRange(0, 2*len(w.names)-1).Draw(w.draw, "node"); i < len(w.names) {
		return w.names[i]
	}
	return w.names[0]
}

func (w *world) controller() *controller {
	return w.controllers[rapid.IntRange(0, 1).Draw(w.draw, "controller")]
}

func (w *world) anyPod() *pod {
	return w.pods[podName(w.name(), rapid.IntRange(0, 2).Draw(w.draw, "ordinal"))]
}

func (w *world) stepKubernetes() bool { return w.stepSync(w.name()) }

// stepSync is one micro-step of the StatefulSet controller.
func (w *world) stepSync(name string) bool {
	if len(w.syncs[name]) == 0 {
		w.syncs[name] = w.sync(name)
	}
	if len(w.syncs[name]) == 0 {
		return false
	}
	w.syncs[name][0]()
	if len(w.syncs[name]) > 0 {
		w.syncs[name] = w.syncs[name][1:]
	}
	return true
}

// stepWork lets Kubernetes do for one node all that it has to do now.
func (w *world) stepWork() bool {
	name, before := w.name(), w.rv
	w.kubernetes(name)
	return w.rv != before
}

func (w *world) kubernetes(name string) {
	if len(w.syncs[name]) == 0 {
		w.syncs[name] = w.sync(name)
	}
	for len(w.syncs[name]) > 0 {
		w.syncs[name][0]()
		w.syncs[name] = w.syncs[name][min(1, len(w.syncs[name])):]
		w.tick()
	}
	for ordinal := range 3 {
		if w.kubelet(podName(name, ordinal)) {
			w.tick()
		}
	}
}

// stepFresh lets one controller see all there is, and look at the cell or at one node to the end.
func (w *world) stepFresh() bool {
	c, before := w.controller(), w.rv
	c.refreshAll()
	if rapid.Bool().Draw(w.draw, "cell") {
		c.dropCell()
		for c.cellPass = c.reconcileCell(); c.cellPass != nil; c.cellPass = c.cellPass() {
			w.tick()
		}
		c.dropCell()
		return w.rv != before
	}
	name := w.name()
	for c.nodes[name] = c.reconcileNode(name); c.nodes[name] != nil; c.nodes[name] = c.nodes[name]() {
		w.tick()
	}
	return w.rv != before
}

// pause is longer than what Paceline waits for before it touches a node again or takes a pod for broken.
const pause = time.Minute

func (w *world) stepTime() bool {
	w.now = w.now.Add(pause)
	w.log("%s later", pause)
	return true
}

func (w *world) stepKubelet() bool {
	p := w.anyPod()
	return p != nil && w.kubelet(p.name)
}

func (w *world) stepEvict() bool {
	p := w.anyPod()
	if p == nil || p.deleting {
		return false
	}
	w.remove(p, "evicted")
	return true
}

func (w *world) stepUnready() bool {
	p := w.anyPod()
	if p == nil || !p.ready {
		return false
	}
	w.log("%s is not ready any more", p.name)
	down := *p
	down.ready, down.since = false, w.now
	w.putPod(down)
	return true
}

func (w *world) stepRefresh() bool {
	kind := rapid.IntRange(0, kinds).Draw(w.draw, "kind")
	if kind == kinds {
		w.webhookCell = w.cell
		return true
	}
	c := w.controller()
	w.log("controller %d sees kind %d", c.id, kind)
	c.refresh(kind)
	return true
}

func (w *world) stepCell() bool {
	c := w.controller()
	if c.cellPass == nil {
		c.cellPass = c.reconcileCell()
		return c.cellPass != nil
	}
	c.cellPass = c.cellPass()
	if c.cellPass == nil {
		c.dropCell()
	}
	return true
}

func (w *world) stepNode() bool {
	c, name := w.controller(), w.name()
	if c.nodes[name] == nil {
		c.nodes[name] = c.reconcileNode(name)
		return c.nodes[name] != nil
	}
	c.nodes[name] = c.nodes[name]()
	return true
}

// stepLost: the answer to the last write is lost; the pass that waited for it ends, and runs again.
func (w *world) stepLost() bool {
	c, name := w.controller(), w.name()
	if rapid.Bool().Draw(w.draw, "cell") {
		c.dropCell()
		return true
	}
	c.nodes[name] = nil
	return true
}

func (w *world) stepCrash() bool {
	switch rapid.IntRange(0, 2).Draw(w.draw, "who") {
	case 0:
		w.log("the StatefulSet controller crashes")
		w.syncs = map[string][]func(){}
	default:
		c := w.controller()
		w.log("controller %d crashes", c.id)
		c.restart()
	}
	return true
}

func (w *world) stepWebhook() bool {
	switch rapid.IntRange(0, 6).Draw(w.draw, "fault") {
	case 0:
		w.webhookAway = true
	case 1:
		w.leaseUnreadable = true
	case 2:
		w.podWebhookAway = true
	default:
		w.webhookAway, w.podWebhookAway, w.leaseUnreadable = false, false, false
	}
	w.log("webhook away: %t, that of pods: %t, Lease unreadable: %t", w.webhookAway, w.podWebhookAway, w.leaseUnreadable)
	return true
}

// stepPerson: somebody with the right to do it deletes or empties a Lease.
func (w *world) stepPerson() bool {
	slots := sortedSlots(w.leases)
	if len(slots) == 0 {
		return false
	}
	slot := rapid.SampledFrom(slots).Draw(w.draw, "slot")
	if s := w.sets[slot.Holder]; s != nil && s.uid == slot.HolderUID {
		w.excuse(s, "a person took its slot")
	}
	if rapid.Bool().Draw(w.draw, "delete") {
		w.log("a person deletes %s", slot.Name)
		delete(w.leases, slot.Name)
		w.nextRV()
		return true
	}
	w.log("a person empties %s", slot.Name)
	emptied := slot
	emptied.Holder, emptied.HolderUID, emptied.Plan, emptied.Transitions, emptied.Deadline = "", "", "", 0, 0
	emptied.ResourceVersion = strconv.FormatInt(w.nextRV(), 10)
	w.leases[slot.Name] = emptied
	return true
}

func (w *world) stepSetting() bool {
	switch rapid.SampledFrom([]string{"percent", "freeze", "zero", "enabled", "gate", "pace"}).Draw(w.draw, "setting") {
	case "percent":
		w.cell.Percent = rapid.SampledFrom([]int{25, 1, 34, 50, 67, 100}).Draw(w.draw, "percent")
	case "zero":
		w.cell.Percent = 0
	case "freeze":
		w.cell.Frozen = !w.cell.Frozen
	case "enabled":
		w.cell.Enabled = !w.cell.Enabled
	case "gate":
		w.cell.Gate = other(w.cell.Gate, node.GateNative, node.GatePin)
	case "pace":
		w.cell.Pace = other(w.cell.Pace, node.PaceImages, node.PaceTemplate)
		w.excuseLabels()
	}
	w.nextRV()
	w.log("cell: %+v", w.cell)
	return true
}

// wish is what a writer may do to a node, as one update.
func (w *world) wish(name string) (string, func(*set)) {
	s := w.sets[name]
	to := func(image string) func(*set) {
		return func(s *set) { s.image = image }
	}
	kind := rapid.SampledFrom([]string{
		"bump", "bump", "revert", "bad", "again", "label", "both", byRender, byRender, byApply, byApplier,
		"replicas", "opt", "strategy", "pause", "early",
	}).Draw(w.draw, "wish")
	switch kind {
	case "bump":
		return kind, to(w.image("v"))
	case "bad":
		return kind, to(w.image("bad"))
	case "revert":
		if past := w.past[name]; len(past) > 0 {
			return kind, to(past[len(past)-1])
		}
	case "label":
		return kind, func(s *set) { s.label = other(s.label, "l0", "l1") }
	case "both":
		t := template{w.image("v"), other(s.label, "l0", "l1")}
		return kind, func(s *set) { s.template = t }
	case byRender, byApply, byApplier:
		return kind, w.states(kind, s)
	case "replicas":
		n := int32(rapid.IntRange(0, 3).Draw(w.draw, "replicas"))
		return kind, func(s *set) { s.replicas = n }
	case "opt":
		return kind, func(s *set) {
			if s.labels[node.LabelPacing] == "" {
				s.labels[node.LabelPacing] = node.PacingDisabled
			} else {
				delete(s.labels, node.LabelPacing)
			}
		}
	case "strategy":
		return kind, func(s *set) {
			if s.strategy == node.RollingUpdate {
				s.strategy = node.OnDelete
			} else {
				s.strategy = node.RollingUpdate
			}
		}
	case "pause":
		return kind, toggle(node.AnnotationPaused, "true")
	case "early":
		return kind, toggle(node.AnnotationReleaseSlot, "Updated")
	}
	return "again", func(*set) {}
}

// states is a writer that states what it wants: what stands, what waits, or something new.
func (w *world) states(kind string, s *set) func(*set) {
	t := rapid.SampledFrom([]template{s.template, s.wanted(), {w.image("v"), s.label}}).Draw(w.draw, "states")
	return func(s *set) {
		s.template = t
		switch kind {
		case byRender:
			if s.strategy == node.RollingUpdate {
				s.partition = new(int32)
			}
			for _, name := range node.Owned() {
				delete(s.annotations, name)
			}
		case byApply:
			s.applied = string(t.text())
		}
	}
}

func other[T comparable](is, a, b T) T {
	if is == a {
		return b
	}
	return a
}

func toggle(key, value string) func(*set) {
	return func(s *set) {
		if s.annotations[key] == "" {
			s.annotations[key] = value
		} else {
			delete(s.annotations, key)
		}
	}
}

func (w *world) stepWrite() bool {
	switch rapid.SampledFrom([]string{"wish", "wish", "wish", "wish", "all", "scale", "scale", "delete", "create"}).Draw(w.draw, "write") {
	case "wish":
		name := w.name()
		if w.sets[name] == nil {
			return false
		}
		by, change := w.wish(name)
		w.update(by, name, change)
	case "all":
		image := w.image(rapid.SampledFrom([]string{"v", "v", "bad"}).Draw(w.draw, "kind"))
		for _, name := range w.names {
			if w.sets[name] != nil {
				w.update("bump of all", name, func(s *set) { s.image = image })
			}
		}
	case "scale":
		return w.scale(w.name(), int32(rapid.IntRange(0, 3).Draw(w.draw, "replicas")))
	case "delete":
		return w.erase(w.name(), rapid.Bool().Draw(w.draw, "foreground"))
	case "create":
		name := w.name()
		if w.sets[name] != nil {
			return false
		}
		w.create(name, rapid.IntRange(0, 3).Draw(w.draw, "replicas"), rapid.Bool().Draw(w.draw, "onDelete"))
	}
	return true
}

// scale is /scale: it reaches no webhook.
func (w *world) scale(name string, replicas int32) bool {
	s := w.sets[name]
	if s == nil || s.replicas == replicas {
		return false
	}
	c := s.clone()
	c.replicas = replicas
	c.generation++
	c.rv = w.nextRV()
	w.sets[name] = c
	w.log("scale: %s", describe(c))
	if replicas == 0 || s.replicas == 0 {
		w.excuse(c, "it is paused")
	}
	return true
}

func (w *world) erase(name string, foreground bool) bool {
	s := w.sets[name]
	if s == nil || s.deleting {
		return false
	}
	w.log("delete %s, foreground: %t", name, foreground)
	pods := w.podsOf(w.pods, name, s.uid)
	if foreground && len(pods) > 0 {
		c := s.clone()
		c.deleting = true
		c.rv = w.nextRV()
		w.sets[name] = c
	} else {
		w.drop(s)
	}
	for _, p := range pods {
		w.remove(p, "its set is deleted")
	}
	return true
}

// stepAdmit starts a write that stays in admission for a while.
func (w *world) stepAdmit() bool {
	name := w.name()
	if w.sets[name] == nil || len(w.requests) > 3 {
		return false
	}
	by, change := w.wish(name)
	r := &request{by: by, name: name, uid: w.sets[name].uid, change: change}
	if w.admit(r) != nil {
		return false
	}
	w.log("%s of %s is in admission", by, name)
	w.requests = append(w.requests, r)
	return true
}

func (w *world) stepStore() bool {
	if len(w.requests) == 0 {
		return false
	}
	i := rapid.IntRange(0, len(w.requests)-1).Draw(w.draw, "request")
	r := w.requests[i]
	if again, _ := w.commit(r); again && w.admit(r) == nil {
		return true
	}
	w.requests = slices.Delete(w.requests, i, i+1)
	return true
}
