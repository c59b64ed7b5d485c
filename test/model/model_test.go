package model

import (
	"flag"
	"os"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/paceline/paceline/lease"
	"github.com/paceline/paceline/node"
)

// What one run makes unless a flag says otherwise.
var defaults = map[string]string{"rapid.checks": "1000", "rapid.steps": "600", "rapid.nofailfile": "true"}

// wantSteps is how many steps a run with the defaults makes at least.
const wantSteps = 100_000

var stated bool

func TestMain(m *testing.M) {
	flag.Parse()
	set := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { set[f.Name] = true })
	for name, value := range defaults {
		if f := flag.Lookup(name); set[name] || os.Getenv("RAPID_CHECKS") != "" && name == "rapid.checks" {
			stated = true
		} else if err := f.Value.Set(value); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

func TestModel(t *testing.T) {
	var steps, runs atomic.Int64
	kinds, counts := weighted(), map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		actions := w.actions()
		t.Repeat(map[string]func(*rapid.T){
			"": func(*rapid.T) {},
			"step": func(t *rapid.T) {
				if actions[rapid.SampledFrom(kinds).Draw(t, "kind")]() {
					w.steps++
				}
				w.now = w.now.Add(1e9)
				w.check()
			},
		})
		w.finish()
		steps.Add(int64(w.steps))
		for what, n := range w.counts {
			counts[what] += n
		}
		runs.Add(1)
	})
	t.Logf("%d steps in %d runs: %v", steps.Load(), runs.Load(), counts)
	if !stated && !testing.Short() {
		require.GreaterOrEqual(t, steps.Load(), int64(wantSteps), "steps made: raise the defaults")
	}
}

// finish ends all faults, lets the writers ask for something that can run, and lets everybody work
// with fresh caches until nothing is written any more.
func (w *world) finish() {
	w.log("the end: no more faults")
	w.webhookAway, w.podWebhookAway, w.leaseUnreadable = false, false, false
	for _, r := range w.requests {
		for again, err := w.commit(r); again && err == nil; again, err = w.commit(r) {
			if w.admit(r) != nil {
				break
			}
		}
	}
	w.requests = nil
	w.cell.Frozen, w.cell.Enabled, w.cell.Percent = false, true, max(1, w.cell.Percent)
	w.webhookCell = w.cell
	for _, name := range w.names {
		s := w.sets[name]
		if s == nil {
			continue
		}
		w.update("opt in", name, func(s *set) {
			delete(s.labels, node.LabelPacing)
			delete(s.annotations, node.AnnotationPaused)
		})
		if w.sets[name].wanted().bad() {
			image := w.image("v")
			w.update("mend", name, func(s *set) { s.image = image })
		}
	}
	w.check()
	w.settle()
	w.settled()
}

// settle runs everybody in turn, with fresh caches, until two rounds write nothing.
func (w *world) settle() {
	quiet := 0
	for round := 0; quiet < 2; round++ {
		if round > 60*len(w.names) {
			w.fail("(3) the cell comes to no rest")
		}
		before := w.rv
		w.round(w.controllers[round%2])
		w.now = w.now.Add(pause)
		quiet++
		if w.rv != before {
			quiet = 0
		}
		if round > 50*len(w.names) {
			w.log("round %d", round)
		}
	}
}

func (w *world) round(c *controller) {
	w.webhookCell = w.cell
	c.restart()
	for pass := c.reconcileCell(); pass != nil; pass = pass() {
		w.tick()
	}
	c.dropCell()
	for _, name := range w.names {
		c.refreshAll()
		for pass := c.reconcileNode(name); pass != nil; pass = pass() {
			w.tick()
		}
		w.kubernetes(name)
	}
}

func (w *world) tick() {
	w.now = w.now.Add(1e9)
	w.check()
}

// settled is what is to be true in the end. Invariant 3: every node runs what its writer last asked for;
// nothing waits, no slot is held or claimed, and there are as many Leases as slots.
func (w *world) settled() {
	for _, name := range w.names {
		s := w.sets[name]
		if s == nil {
			continue
		}
		pods := w.podsOf(w.pods, name, s.uid)
		if len(pods) != int(s.replicas) {
			w.fail("(3) %s has %d pods", name, len(pods))
		}
		for _, p := range pods {
			// Nobody replaces the pods of an OnDelete node for a change that is not paced.
			other := p.revision != s.revision() && s.strategy == node.RollingUpdate
			if other || inRevision(p.revision).differs(s.template, w.cell.Pace) || !p.ready {
				w.fail("(3) %s asks for %s and %s", name, s.revision(), describePod(p))
			}
		}
		if w.asked[name] != s.template {
			w.fail("(3) %s asks for %s, its writer for %s", name, s.revision(), w.asked[name].revision())
		}
		if s.gated() || s.annotations[node.AnnotationSlot] != "" {
			w.fail("(3) %s is left with what is ours", describe(s))
		}
		// Pods of an OnDelete node that differ in what is not paced are never of one revision.
		if s.replicas > 0 && s.view().Cleared == nil && !slices.ContainsFunc(pods, func(p *pod) bool { return p.revision != pods[0].revision }) {
			w.fail("(3) %s is not known to run", name)
		}
	}
	for _, slot := range w.leases {
		if !slot.Free() {
			w.fail("(3) %s is left to %s", slot.Name, slot.Holder)
		}
	}
	if want := lease.Count(w.running(), w.cell.Percent); len(w.leases) != want {
		w.fail("(3) there are %d Leases for %d slots", len(w.leases), want)
	}
}
