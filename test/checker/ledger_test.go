package checker

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// script writes a ledger, one resourceVersion a line.
type script struct {
	ledger Ledger
	rv     uint64
}

func (s *script) add(e Event) {
	s.rv++
	e.RV, e.Version, e.Time = s.rv, s.rv, time.Unix(int64(s.rv), 0)
	s.ledger.Add(e)
}

func (s *script) set(change Change, name string, replicas int) {
	s.add(Event{Change: change, Set: &Set{Name: name, UID: "set-" + name, Replicas: replicas}})
}

func (s *script) pod(change Change, node string, ordinal int, uid string, ready bool, image string) {
	s.add(Event{Change: change, Pod: &Pod{
		Name: fmt.Sprintf("%s-%d", node, ordinal), UID: uid, Node: node, Ordinal: ordinal, Ready: ready, Images: image,
	}})
}

func (s *script) lease(change Change, name, holder string) {
	s.add(Event{Change: change, Lease: &Lease{Name: name, UID: name, Holder: holder}})
}

// fleet is nodes of one ready pod each, whose UIDs are "old".
func fleet(names ...string) *script {
	s := &script{}
	for _, name := range names {
		s.set(Listed, name, 1)
		s.pod(Listed, name, 0, "old", true, "app:v1")
	}
	return s
}

func (s *script) goDown(node string) {
	s.pod(Modified, node, 0, "old", false, "app:v1")
	s.pod(Deleted, node, 0, "old", false, "app:v1")
}

func (s *script) comeUp(node string) {
	s.pod(Added, node, 0, "new", false, "app:v2")
	s.pod(Modified, node, 0, "new", true, "app:v2")
}

func TestOneAfterTheOther(t *testing.T) {
	s := fleet("a", "b")
	for _, name := range []string{"b", "a"} {
		s.lease(Added, "paceline-slot-"+name, name)
		s.goDown(name)
		s.comeUp(name)
		s.lease(Modified, "paceline-slot-"+name, "")
	}
	r := s.ledger.Report()
	require.NoError(t, r.Verdict(Expect{MaxDown: 1, MinRestarts: 2}))
	require.Equal(t, 1, r.MaxDown)
	require.Equal(t, []string{"b", "a"}, r.Order())
	require.Equal(t, map[string]int{"a": 1, "b": 1}, r.Restarts)
	require.Equal(t, "app:v1", r.Rolls[0].FromImage)
	require.Equal(t, "app:v2", r.Rolls[0].ToImage)
	require.True(t, r.Rolls[1].Ended())
	require.Equal(t, 3*time.Second, r.Rolls[0].Outage())
	require.Equal(t, 1, r.MaxHolders)
	require.Empty(t, r.WithoutSlot())
}

func TestTooManyDown(t *testing.T) {
	s := fleet("a", "b", "c")
	s.goDown("a")
	s.goDown("c")
	s.comeUp("a")
	s.comeUp("c")
	r := s.ledger.Report()
	require.ErrorContains(t, r.Verdict(Expect{MaxDown: 1}), "2 nodes were down at resourceVersion 9, want at most 1: a, c")
	require.NoError(t, r.Verdict(Expect{MaxDown: 2}))
	require.Len(t, r.WithoutSlot(), 2)
}

func TestNoRestartProvesNothing(t *testing.T) {
	r := fleet("a").ledger.Report()
	require.ErrorContains(t, r.Verdict(Expect{MaxDown: 1}), "saw 0 pods replaced, want at least 1")
	require.NoError(t, r.Verdict(Expect{Quiet: true}))
}

func TestQuietMeansNoRestart(t *testing.T) {
	s := fleet("a")
	s.goDown("a")
	s.comeUp("a")
	require.ErrorContains(t, s.ledger.Report().Verdict(Expect{MaxDown: 1, Quiet: true}), "1 pods were replaced, want none")
}

func TestWhatDoesNotCountAsDown(t *testing.T) {
	for name, play := range map[string]func(s *script){
		"a first start": func(s *script) {
			s.set(Added, "b", 1)
			s.pod(Added, "b", 0, "x", false, "app:v1")
		},
		"scaling out": func(s *script) {
			s.set(Modified, "a", 2)
			s.pod(Added, "a", 1, "x", false, "app:v1")
		},
		"scaling in": func(s *script) {
			s.set(Modified, "a", 2)
			s.pod(Added, "a", 1, "x", true, "app:v1")
			s.set(Modified, "a", 1)
			s.pod(Deleted, "a", 1, "x", false, "app:v1")
		},
		"scaling in and out again": func(s *script) {
			s.set(Modified, "a", 0)
			s.pod(Deleted, "a", 0, "old", false, "app:v1")
			s.set(Modified, "a", 1)
			s.pod(Added, "a", 0, "x", false, "app:v1")
		},
		"deleting the set": func(s *script) {
			s.set(Deleted, "a", 1)
			s.pod(Deleted, "a", 0, "old", false, "app:v1")
		},
		"a set of the same name": func(s *script) {
			s.set(Deleted, "a", 1)
			s.pod(Deleted, "a", 0, "old", false, "app:v1")
			s.add(Event{Change: Added, Set: &Set{Name: "a", UID: "another", Replicas: 1}})
			s.pod(Added, "a", 0, "x", false, "app:v1")
		},
		"ordinals below the start": func(s *script) {
			s.add(Event{Change: Modified, Set: &Set{Name: "a", UID: "set-a", Start: 5, Replicas: 1}})
			s.pod(Deleted, "a", 0, "old", false, "app:v1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := fleet("a")
			play(s)
			r := s.ledger.Report()
			require.Empty(t, r.Missed)
			require.Zero(t, r.MaxDown)
			require.Zero(t, r.TotalRestarts())
		})
	}
}

func TestTwoPodsOfANodeAreOneNode(t *testing.T) {
	s := fleet("a")
	s.set(Modified, "a", 2)
	s.pod(Added, "a", 1, "old", true, "app:v1")
	s.goDown("a")
	s.pod(Deleted, "a", 1, "old", false, "app:v1")
	require.Equal(t, 1, s.ledger.Report().MaxDown)
}

func TestAPodThatFlapsIsDownButNotReplaced(t *testing.T) {
	s := fleet("a")
	s.pod(Modified, "a", 0, "old", false, "app:v1")
	s.pod(Modified, "a", 0, "old", true, "app:v1")
	r := s.ledger.Report()
	require.Equal(t, 1, r.MaxDown)
	require.Zero(t, r.TotalRestarts())
	require.True(t, r.Rolls[0].Ended())
}

func TestABrokenPodIsDownUntilAGoodOneComes(t *testing.T) {
	s := fleet("a")
	s.goDown("a")
	s.pod(Added, "a", 0, "bad", false, "app:bad")
	s.pod(Deleted, "a", 0, "bad", false, "app:bad")
	s.comeUp("a")
	r := s.ledger.Report()
	require.Len(t, r.Rolls, 1)
	require.Equal(t, 2, r.Restarts["a"])
	require.Equal(t, "app:v2", r.Rolls[0].ToImage)
	require.Len(t, r.Images["a-0"], 3)
}

func TestOrderIsThatOfResourceVersions(t *testing.T) {
	s := fleet("a", "b")
	s.goDown("a")
	s.comeUp("a")
	s.goDown("b")
	s.comeUp("b")
	shuffled := &Ledger{}
	for _, e := range slices.Backward(s.ledger.events) {
		shuffled.Add(e)
	}
	want, got := s.ledger.Report(), shuffled.Report()
	require.Equal(t, want, got)
	require.Equal(t, 1, got.MaxDown)
}

func TestGapIsMissed(t *testing.T) {
	for name, play := range map[string]func(s *script){
		"a change of an unknown pod": func(s *script) { s.pod(Modified, "a", 7, "x", true, "app:v1") },
		"another UID":                func(s *script) { s.pod(Modified, "a", 0, "x", true, "app:v1") },
		"created while it stands":    func(s *script) { s.pod(Added, "a", 0, "x", true, "app:v1") },
		"a deletion of nothing":      func(s *script) { s.lease(Deleted, "paceline-slot-0", "") },
		"a watch that was too old":   func(s *script) { s.ledger.Miss("pod/: watch from 5: too old") },
	} {
		t.Run(name, func(t *testing.T) {
			s := fleet("a")
			s.goDown("a")
			s.comeUp("a")
			require.NoError(t, s.ledger.Report().Verdict(Expect{MaxDown: 1}))
			s = fleet("a", "b")
			s.goDown("b")
			s.comeUp("b")
			play(s)
			require.ErrorContains(t, s.ledger.Report().Verdict(Expect{MaxDown: 2}), "missed: ")
		})
	}
}

func TestHolders(t *testing.T) {
	s := fleet("a", "b")
	s.lease(Added, "paceline-slot-0", "a")
	s.lease(Added, "paceline-slot-1", "b")
	s.lease(Modified, "paceline-slot-0", "a")
	s.lease(Deleted, "paceline-slot-1", "b")
	r := s.ledger.Report()
	require.Equal(t, 2, r.MaxHolders)
	require.Len(t, r.Holders, 3)
	require.Empty(t, r.Holders[2].Holder)
}
