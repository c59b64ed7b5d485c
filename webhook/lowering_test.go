package webhook

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"

	"github.com/paceline/paceline/node"
)

// stage is one StatefulSet of which one request after the other is judged.
type stage struct {
	stored set
	gate   node.Gate
}

// ask judges a request that makes the set asked, and keeps what comes of it.
func (s *stage) ask(proof Proof, own bool, changes ...change) Decision {
	asked := s.stored.with(changes...)
	owned := maps.Clone(asked.owned)
	if !own {
		owned = maps.Clone(s.stored.owned)
	}
	judged := asked
	judged.owned = owned
	old, now := s.stored.view(), judged.view()
	d := Decide(Facts{
		Old: &old, New: now, Owned: owned, Own: own, Paced: true, Pace: node.PaceImages, Gate: s.gate, Slot: proof,
	})
	s.stored = asked
	s.stored.owned = d.Owned
	if d.Partition != nil {
		s.stored.partition = d.Partition
	}
	return d
}

// A canary inside the set: ordinals from 2 up run v2, those below v1. Lowering the partition would roll the ones
// between, so it is a wish of its own: held where it was, each part at what it runs, until the slot comes.
func TestALoweredPartitionIsHeld(t *testing.T) {
	t.Parallel()
	inside := func(gate node.Gate) *stage {
		return &stage{gate: gate, stored: set{image: "v2", replicas: 3, strategy: node.RollingUpdate, partition: ptr.To(int32(2))}.with(canary("v1", "v2", 2))}
	}
	for _, gate := range []node.Gate{node.GateNative, node.GatePin} {
		t.Run(string(gate), func(t *testing.T) {
			t.Parallel()
			s := inside(gate)
			d := s.ask(ProofNone, false, partition(1))
			require.Equal(t, ReasonHeld, d.Reason)
			require.True(t, d.Freshly)
			require.False(t, d.Pin, "a partition cannot be deferred by the template")
			require.EqualValues(t, 2, *s.stored.partition)
			require.Equal(t, heldText("v2", ptr.To(int32(1))), s.stored.owned[node.AnnotationHeld])
			view := s.stored.view()
			require.True(t, view.Lowering())
			require.True(t, view.Closed(node.PaceImages))
			require.True(t, view.Drift(node.PaceImages), "it waits for a slot")
			require.EqualValues(t, 1, view.OwnPartition())

			d = s.ask(ProofNone, false, scale(4))
			require.Equal(t, ReasonHeld, d.Reason, "a write of what it has read states no partition")
			require.False(t, d.Freshly)
			require.EqualValues(t, 1, s.stored.view().OwnPartition())
			d = s.ask(ProofNone, true, annotate(node.AnnotationTouch, "x"))
			require.Equal(t, ReasonHeld, d.Reason)
			require.EqualValues(t, 1, s.stored.view().OwnPartition())

			s.ask(ProofNone, false, partition(0))
			require.EqualValues(t, 0, s.stored.view().OwnPartition(), "lowered further")
			require.EqualValues(t, 2, *s.stored.partition)

			d = s.ask(ProofTrue, true, hasSlot)
			require.Equal(t, ReasonOpened, d.Reason)
			require.EqualValues(t, 0, *s.stored.partition, "the slot opens it")
			require.NotContains(t, s.stored.owned, node.AnnotationHeld)
		})
	}
	t.Run("raised again: lifted", func(t *testing.T) {
		t.Parallel()
		s := inside(node.GateNative)
		s.ask(ProofNone, false, partition(1))
		require.Equal(t, ReasonLifted, s.ask(ProofNone, false, partition(3)).Reason)
		require.EqualValues(t, 3, *s.stored.partition)
	})
	t.Run("a new image meanwhile: held as a whole, then where it was", func(t *testing.T) {
		t.Parallel()
		s := inside(node.GateNative)
		s.ask(ProofNone, false, partition(1))
		require.Equal(t, ReasonHeld, s.ask(ProofNone, false, image("v3")).Reason)
		require.Equal(t, node.HeldPartition, *s.stored.partition)
		require.EqualValues(t, 1, s.stored.view().OwnPartition())
		require.Equal(t, ReasonHeld, s.ask(ProofNone, false, image("v2")).Reason)
		require.EqualValues(t, 2, *s.stored.partition)
		require.EqualValues(t, 1, s.stored.view().OwnPartition())
	})
	t.Run("both parts run the same: nothing to hold", func(t *testing.T) {
		t.Parallel()
		s := &stage{gate: node.GateNative, stored: set{image: "v2", replicas: 3, strategy: node.RollingUpdate, partition: ptr.To(int32(2))}.with(canary("v2", "v2", 2))}
		require.Equal(t, ReasonPass, s.ask(ProofNone, false, partition(0)).Reason)
		require.EqualValues(t, 0, *s.stored.partition)
	})
	t.Run("it left pacing: given back", func(t *testing.T) {
		t.Parallel()
		s := inside(node.GateNative)
		s.ask(ProofNone, false, partition(1))
		old := s.stored.view()
		d := Decide(Facts{Old: &old, New: old, Owned: maps.Clone(s.stored.owned), Own: true, Pace: node.PaceImages})
		require.Equal(t, ReasonLeft, d.Reason)
		require.EqualValues(t, 1, *d.Partition)
	})
}
