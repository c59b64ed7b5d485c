package model

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paceline/paceline/node"
)

// These scripts are what random steps came upon, or seldom do: each a fault that was, or is still, in known.

// verdict is a tb that remembers a failure.
type verdict struct{ failure string }

func (v *verdict) Helper() {}

func (v *verdict) Fatalf(format string, args ...any) {
	v.failure = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// play runs a script over a cell of settled nodes of one replica at one slot. No invariant breaks in it.
func play(t *testing.T, script func(*world)) {
	t.Helper()
	playKnown(t, false, "", script)
}

// playKnown is play of a fault that is known: while it is, it has to show, as a breach of the invariant with
// this number.
func playKnown(t *testing.T, known bool, number string, script func(*world)) {
	t.Helper()
	t.Parallel()
	result := &verdict{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		w := newWorld(result, 1)
		w.names = []string{"n0", "n1", "n2"}
		for i, name := range w.names {
			w.create(name, 1, i == 1)
		}
		w.settle()
		for _, c := range w.controllers {
			c.restart()
		}
		script(w)
		w.settle()
		w.settled()
	}()
	<-done
	if known {
		require.True(t, strings.HasPrefix(result.failure, number), "the fault is gone: take it off the list of known ones; got %q", result.failure)
		return
	}
	require.Empty(t, result.failure)
}

func (w *world) bump(name, image string) {
	w.update("bump", name, func(s *set) { s.image = image })
}

// state is a writer that states its own partition.
func state(partition int32) func(*set) {
	return func(s *set) { s.partition = &partition }
}

func (w *world) run(pass op) {
	for ; pass != nil; pass = pass() {
		w.tick()
	}
}

// grant lets a controller that sees all give what there is to give.
func (w *world) grant(c *controller) {
	c.refreshAll()
	w.run(c.reconcileCell())
	c.dropCell()
}

func (w *world) look(c *controller, name string) {
	c.refreshAll()
	w.run(c.reconcileNode(name))
}

// A controller whose StatefulSets are older than its Leases sees a wish as withdrawn that was asked for
// again, and gives the slot back that another has opened the gate with.
func TestStaleFree(t *testing.T) {
	play(t, func(w *world) {
		first, second := w.controllers[0], w.controllers[1]
		was := w.sets["n0"].image
		w.bump("n0", "v100")
		w.grant(first)
		w.bump("n0", was)
		second.refresh(kindSets)
		w.bump("n0", "v100")
		w.look(first, "n0")
		second.refresh(kindLeases)
		w.run(second.reconcileNode("n0"))
		w.kubernetes("n0")
	})
}

// The same with a live read of the StatefulSet before the slot is given back: what opens the gate has to
// change the Lease first, or the read and the giving back have it in between.
func TestFreeBesideOpen(t *testing.T) {
	play(t, func(w *world) {
		first, second := w.controllers[0], w.controllers[1]
		was := w.sets["n0"].image
		w.bump("n0", "v100")
		w.grant(first)
		first.refreshAll()
		pass := first.reconcileNode("n0")()() // its plan is written, its gate not opened yet
		w.bump("n0", was)
		w.run(pass)
		second.refreshAll()
		pass = second.reconcileNode("n0")()() // it has read Lease and StatefulSet live
		w.bump("n0", "v100")
		w.look(first, "n0")
		w.run(pass)
		w.kubernetes("n0")
	})
}

// A slot that is given back when the pods are updated, not ready yet: a pod that is lost while the next
// wish waits comes back on what the node ran, never on the version before.
func TestLostAfterEarlyRelease(t *testing.T) {
	playKnown(t, known.lostToOlder, "(2)", func(w *world) {
		w.update("early", "n0", toggle(node.AnnotationReleaseSlot, "Updated"))
		w.bump("n0", "bad100")
		for range 8 {
			w.round(w.controllers[0])
		}
		w.bump("n0", "v101")
		w.remove(w.pods["n0-0"], "evicted")
		w.kubernetes("n0")
		w.kubernetes("n0")
	})
}

// The same after a node that waits on OnDelete becomes a RollingUpdate one.
func TestLostAfterSwitch(t *testing.T) {
	playKnown(t, known.lostToOlder, "(2)", func(w *world) {
		w.bump("n1", "v100")
		w.settle()
		w.bump("n1", "v101")
		w.update("strategy", "n1", func(s *set) { s.strategy = node.RollingUpdate })
		w.remove(w.pods["n1-0"], "evicted")
		w.kubernetes("n1")
		w.kubernetes("n1")
	})
}

// canary makes n0 a node of two pods with a writer's own partition of 1, that runs v100 above it. The
// second controller has seen its pods before.
func (w *world) canary() {
	w.scale("n0", 2)
	w.settle()
	w.update("partition", "n0", state(1))
	w.settle()
	w.controllers[1].restart()
	w.bump("n0", "v100")
	for range 20 {
		w.round(w.controllers[0])
	}
}

// A writer's own partition is lowered while the two parts differ: that is drift of its own, and waits.
func TestCanaryLowered(t *testing.T) {
	play(t, func(w *world) {
		w.canary()
		w.update("lower", "n0", state(0))
		w.kubernetes("n0")
	})
}

// A controller whose pods are older than its StatefulSets must not say that a node runs what it ran
// before: the gate would let the wish for that pass.
func TestStaleStamp(t *testing.T) {
	play(t, func(w *world) {
		w.canary()
		second := w.controllers[1]
		was := w.past["n0"][0]
		w.bump("n0", "v101")
		w.kubernetes("n0")
		for _, kind := range []int{kindSets, kindRevisions, kindLeases} {
			second.refresh(kind)
		}
		w.run(second.reconcileNode("n0"))
		w.bump("n0", was)
		w.kubernetes("n0")
		w.kubernetes("n0")
		w.update("whole", "n0", state(0))
	})
}

// A node that was never ready gets a new wish at once and rolls; a controller that has not seen its pod
// must not grant beside it.
func TestGrantBesideUnknownRoll(t *testing.T) {
	play(t, func(w *world) {
		c := w.controllers[0]
		w.erase("n2", false)
		w.kubernetes("n2")
		w.create("n2", 1, false)
		c.refreshAll()
		w.stepSync("n2") // its pod is created
		w.bump("n2", "v100")
		w.bump("n0", "v100")
		c.refresh(kindSets)
		w.run(c.reconcileCell())
	})
}

// A controller that has not seen that a wish was withdrawn must not delete a pod for it.
func TestStaleDelete(t *testing.T) {
	play(t, func(w *world) {
		c := w.controllers[0]
		was := w.sets["n1"].image
		w.bump("n1", "v100")
		w.grant(c)
		w.look(c, "n1") // opens
		w.kubernetes("n1")
		c.refreshAll()
		w.bump("n1", was)
		w.run(c.reconcileNode("n1"))
	})
}

// An OnDelete node that never ran gets a wish that can run.
func TestStrandedOnDelete(t *testing.T) {
	play(t, func(w *world) {
		w.erase("n2", false)
		w.kubernetes("n2")
		w.create("n2", 1, true)
		w.bump("n2", "bad100")
		w.kubernetes("n2")
		w.bump("n2", "v101")
	})
}

// While the webhook is away, a node that waits on OnDelete becomes a RollingUpdate one: it rolls, though
// it carries held.
func TestHeldButOpen(t *testing.T) {
	play(t, func(w *world) {
		w.bump("n1", "v100")
		w.webhookAway = true
		w.update("strategy", "n1", func(s *set) { s.strategy = node.RollingUpdate })
		w.webhookAway = false
		w.bump("n0", "v100")
		w.grant(w.controllers[0])
	})
}
