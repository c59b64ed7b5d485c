package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paceline/paceline/test/checker"
)

func at(second float64) checker.Moment {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return checker.Moment{RV: uint64(second*100) + 1, Time: start.Add(time.Duration(second * float64(time.Second)))}
}

func aRoll(node string, from, to float64) checker.Roll {
	return checker.Roll{
		Node: node, Pod: node + "-0", ToImage: image(4), FromUID: "old", ToUID: "new",
		Down: at(from), Up: at(to), Slot: "paceline-slot-0",
	}
}

// aGoodRun has four waves of three in 14 s, and a single roll of 3 s.
func aGoodRun() seen {
	s := seen{
		single:  checker.Report{MaxDown: 1, Rolls: []checker.Roll{aRoll("rpc-00", 0, 3)}, Restarts: map[string]int{"rpc-00": 1}},
		unpaced: checker.Report{MaxDown: 12, Restarts: map[string]int{}},
		paced: checker.Report{
			MaxDown: 3, MaxHolders: 3, Restarts: map[string]int{},
			Holders: []checker.HolderChange{{Moment: at(0), Holder: "rpc-00"}, {Moment: at(14)}},
		},
	}
	for i := range nodes {
		wave := float64(i / 3 * 3)
		s.paced.Nodes = append(s.paced.Nodes, nodeName(i))
		s.paced.Rolls = append(s.paced.Rolls, aRoll(nodeName(i), wave+0.5, wave+3.5))
		s.paced.Restarts[nodeName(i)], s.unpaced.Restarts[nodeName(i)] = 1, 1
	}
	return s
}

func TestResultIsMadeOfWhatTheCheckerSaw(t *testing.T) {
	s := aGoodRun()
	raw, err := json.Marshal(s.result())
	require.NoError(t, err)
	require.JSONEq(t, `{"nodes":12,"slots":3,"unpacedMaxDown":12,"pacedMaxDown":3,"rolled":12,"makespanSeconds":14,"idealSeconds":12}`, string(raw))
	require.NoError(t, s.verdict(s.result()))
}

func TestARunThatDoesNotShowItFails(t *testing.T) {
	for message, change := range map[string]func(*seen){
		"unpaced, 9 nodes were down at once":                   func(s *seen) { s.unpaced.MaxDown = 9 },
		"paced, 2 nodes were down":                             func(s *seen) { s.paced.MaxDown = 2 },
		"paced, 4 nodes were down":                             func(s *seen) { s.paced.MaxDown = 4 },
		"and 4 slots taken":                                    func(s *seen) { s.paced.MaxHolders = 4 },
		"paced, 11 of 12 nodes rolled":                         func(s *seen) { s.paced.Rolls[5].ToImage = image(3) },
		"1 nodes rolled without a slot, rpc-04 first":          func(s *seen) { s.paced.Rolls[4].Slot = "" },
		"the checker saw 11 nodes":                             func(s *seen) { s.paced.Nodes = s.paced.Nodes[1:] },
		"part 2: missed: a pod":                                func(s *seen) { s.paced.Missed = []string{"a pod"} },
		"part 1: missed: a pod":                                func(s *seen) { s.unpaced.Missed = []string{"a pod"} },
		"part 0: saw 0 pods replaced":                          func(s *seen) { s.single.Restarts = nil },
		"took 18.1 s, want at most 1.5 times the ideal 12.0 s": func(s *seen) { s.paced.Holders[1].Moment = at(18.1) },
	} {
		t.Run(message, func(t *testing.T) {
			s := aGoodRun()
			change(&s)
			require.ErrorContains(t, s.verdict(s.result()), message)
		})
	}
}

func TestANodeThatIsNotBackHasNotRolled(t *testing.T) {
	never := aRoll("a", 1, 2)
	never.Up = checker.Moment{}
	same := aRoll("b", 1, 2)
	same.ToUID = ""
	require.Equal(t, 1, rolled(checker.Report{Rolls: []checker.Roll{never, same, aRoll("c", 1, 2), aRoll("c", 3, 4)}}, image(4)))
}

func TestMakespanRunsFromTheFirstSlotTakenToTheLastGivenBack(t *testing.T) {
	report := checker.Report{
		Holders: []checker.HolderChange{{Moment: at(1)}, {Moment: at(9)}},
		Rolls:   []checker.Roll{aRoll("a", 2, 8), {Down: at(3)}},
	}
	require.Equal(t, 8*time.Second, makespan(report))
	require.Zero(t, makespan(checker.Report{}))
}

func TestSummaryIsInWords(t *testing.T) {
	summary := aGoodRun().result().summary("build/demo.json")
	for _, words := range []string{
		"12 nodes: 12 of them were down at the same moment", "25 %, which is 3 slots: never more than 3",
		"12 of 12 rolled", "in 14.0 s", "4 waves of one unpaced roll (3.0 s) each would be 12.0 s", "build/demo.json", "README.md",
	} {
		require.Contains(t, summary, words)
	}
}
