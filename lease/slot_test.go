package lease

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/paceline/paceline/node"
)

func TestNameAndIndex(t *testing.T) {
	t.Parallel()
	require.Equal(t, "paceline-slot-0", Name(0))
	require.Equal(t, "paceline-slot-12", Name(12))
	cases := map[string]struct {
		name  string
		index int // -1: no slot
	}{
		"the first":           {"paceline-slot-0", 0},
		"many digits":         {"paceline-slot-123", 123},
		"no index":            {"paceline-slot-", -1},
		"no digits":           {"paceline-slot-x", -1},
		"a sign":              {"paceline-slot--1", -1},
		"a suffix":            {"paceline-slot-1-a", -1},
		"a prefix":            {"my-paceline-slot-1", -1},
		"a line more":         {"paceline-slot-1\n", -1},
		"another Lease":       {"kube-scheduler", -1},
		"an index beyond int": {"paceline-slot-99999999999999999999", -1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			index, err := indexOf(c.name)
			if c.index < 0 {
				require.ErrorContains(t, err, c.name)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.index, index)
			require.True(t, IsName(c.name))
		})
	}
}

func TestHeldByAndProves(t *testing.T) {
	t.Parallel()
	slot := Slot{Name: Name(3), Holder: "rpc-1", HolderUID: "u1", Transitions: 7}
	ref := &node.SlotRef{Lease: Name(3), Transitions: 7}
	require.Equal(t, *ref, slot.Ref())
	cases := map[string]struct {
		slot         Slot
		ref          *node.SlotRef
		name         string
		uid          types.UID
		held, proven bool
	}{
		"its holder":                       {slot, ref, "rpc-1", "u1", true, true},
		"no annotation proves nothing":     {slot, nil, "rpc-1", "u1", true, false},
		"another node":                     {slot, ref, "rpc-2", "u1", false, false},
		"recreated under its name":         {slot, ref, "rpc-1", "u2", false, false},
		"an earlier transition":            {slot, &node.SlotRef{Lease: Name(3), Transitions: 6}, "rpc-1", "u1", true, false},
		"another Lease":                    {slot, &node.SlotRef{Lease: Name(4), Transitions: 7}, "rpc-1", "u1", true, false},
		"a free slot is nobody's":          {Slot{Name: Name(3), Transitions: 7}, ref, "", "", false, false},
		"a holder without a UID is nobody": {Slot{Name: Name(3), Transitions: 7, Holder: "rpc-1"}, ref, "rpc-1", "", false, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.held, c.slot.HeldBy(c.name, c.uid))
			require.Equal(t, c.proven, c.slot.Proves(c.ref, c.name, c.uid))
		})
	}
}

func TestStuck(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	cases := map[string]struct {
		slot Slot
		want bool
	}{
		"past the deadline":            {Slot{Holder: "a", Renewed: now.Add(-11 * time.Minute), Deadline: 10 * time.Minute}, true},
		"at the deadline, not yet":     {Slot{Holder: "a", Renewed: now.Add(-10 * time.Minute), Deadline: 10 * time.Minute}, false},
		"no deadline, never":           {Slot{Holder: "a"}, false},
		"nobody holds it: nobody is":   {Slot{Renewed: now.Add(-time.Hour), Deadline: time.Minute}, false},
		"renewed by a faster clock":    {Slot{Holder: "a", Renewed: now.Add(time.Hour), Deadline: time.Minute}, false},
		"a renewal that is gone stuck": {Slot{Holder: "a", Deadline: time.Minute}, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, c.slot.Stuck(now))
		})
	}
}
