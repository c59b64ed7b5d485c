package planner

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paceline/paceline/node"
)

// outcomeCase is one look of a task at a node.
type outcomeCase struct {
	facts   Facts
	done    bool
	effect  Effect
	waiting string
}

func checkOutcomes(t *testing.T, look task, cases map[string]outcomeCase) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := look(c.facts)
			require.Equal(t, c.done, got.Done)
			require.Equal(t, c.effect, got.Effect)
			require.Equal(t, c.waiting, got.Waiting)
			require.Equal(t, got, look(c.facts), "asked again, it says the same")
		})
	}
}

func deletes(ordinal int, pods node.Fleet) Effect {
	for _, p := range pods {
		if p.Ordinal == ordinal {
			return DeletePod{p}
		}
	}
	return nil
}

func TestApplyStatefulSet(t *testing.T) {
	t.Parallel()
	const opening, looking = "opening the gate", "waiting for the webhook to open the gate"
	held := resting(asks("v2"), gated, holds)
	checkOutcomes(t, applyStatefulSet, map[string]outcomeCase{
		"no slot annotation: written":                                  {facts: held, effect: Open{}, waiting: opening},
		"OnDelete: written too":                                        {facts: resting(onDelete, asks("v2"), gated, holds), effect: Open{}, waiting: opening},
		"the annotation of an earlier slot: written anew":              {facts: held.but(open, func(f *Facts) { f.View.Slot.Transitions-- }), effect: Open{}, waiting: opening},
		"an annotation that is unreadable: written anew":               {facts: held.but(func(f *Facts) { f.HasSlot = true }), effect: Open{}, waiting: opening},
		"written, still gated: a touch makes the webhook look":         {facts: held.but(open), effect: Touch{}, waiting: looking},
		"OnDelete, written, still held: a touch":                       {facts: resting(onDelete, asks("v2"), gated, holds, open), effect: Touch{}, waiting: looking},
		"not gated and not annotated: written, for the webhook to see": {facts: resting(asks("v2"), holds), effect: Open{}, waiting: opening},
		"seen open in the object: done":                                {facts: rolling(), done: true},
		"paused meanwhile: the same":                                   {facts: rolling(replicas(0)), done: true},
	})
}
