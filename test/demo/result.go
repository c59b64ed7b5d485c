package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/paceline/paceline/test/checker"
	"github.com/paceline/paceline/test/rig/binary"
)

// What a good run shows.
const (
	minUnpacedDown = 10
	maxOverIdeal   = 1.5
)

// seen is what the checker saw in each part.
type seen struct{ single, unpaced, paced checker.Report }

// result is build/demo.json.
type result struct {
	Nodes          int `json:"nodes"`
	Slots          int `json:"slots"`
	UnpacedMaxDown int `json:"unpacedMaxDown"`
	PacedMaxDown   int `json:"pacedMaxDown"`
	// Rolled is how many nodes came back ready on the new image in the paced part.
	Rolled int `json:"rolled"`
	// MakespanSeconds is from the first slot taken (or pod down) to the last slot given back.
	MakespanSeconds float64 `json:"makespanSeconds"`
	// IdealSeconds is the number of waves times the outage of the one node that rolled alone.
	IdealSeconds float64 `json:"idealSeconds"`
}

func (s seen) result() result {
	count := len(s.paced.Nodes)
	slots := max(1, count*percent/100)
	waves := (count + slots - 1) / slots
	return result{
		Nodes: count, Slots: slots,
		UnpacedMaxDown: s.unpaced.MaxDown, PacedMaxDown: s.paced.MaxDown,
		Rolled:          rolled(s.paced, image(4)),
		MakespanSeconds: seconds(makespan(s.paced)),
		IdealSeconds:    seconds(time.Duration(waves) * longestOutage(s.single)),
	}
}

// rolled counts the nodes of which a new pod became ready on the image.
func rolled(report checker.Report, image string) int {
	names := map[string]bool{}
	for _, roll := range report.Rolls {
		if roll.Ended() && roll.ToUID != "" && roll.ToImage == image {
			names[roll.Node] = true
		}
	}
	return len(names)
}

// makespan is from the first thing that happened to a slot or a pod to the last.
func makespan(report checker.Report) time.Duration {
	var first, last time.Time
	note := func(m checker.Moment) {
		if m.RV == 0 {
			return
		}
		if first.IsZero() || m.Time.Before(first) {
			first = m.Time
		}
		if m.Time.After(last) {
			last = m.Time
		}
	}
	for _, change := range report.Holders {
		note(change.Moment)
	}
	for _, roll := range report.Rolls {
		note(roll.Down)
		note(roll.Up)
	}
	return last.Sub(first)
}

func longestOutage(report checker.Report) time.Duration {
	var longest time.Duration
	for _, roll := range report.Rolls {
		if roll.Ended() {
			longest = max(longest, roll.Outage())
		}
	}
	return longest
}

func seconds(d time.Duration) float64 { return math.Round(d.Seconds()*100) / 100 }

// verdict is nil if the checker missed nothing and the run shows what it is meant to show.
func (s seen) verdict(r result) error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	complete := func(part string, report checker.Report, want checker.Expect) {
		if err := report.Verdict(want); err != nil {
			fail("%s: %w", part, err)
		}
	}
	complete("part 0", s.single, checker.Expect{MaxDown: 1})
	complete("part 1", s.unpaced, checker.Expect{MaxDown: r.Nodes, MinRestarts: r.Nodes})
	complete("part 2", s.paced, checker.Expect{MaxDown: r.Slots, MinRestarts: r.Nodes})
	if r.Nodes != nodes {
		fail("the checker saw %d nodes, want %d", r.Nodes, nodes)
	}
	if r.UnpacedMaxDown < minUnpacedDown {
		fail("unpaced, %d nodes were down at once, want at least %d", r.UnpacedMaxDown, minUnpacedDown)
	}
	if r.PacedMaxDown != r.Slots || s.paced.MaxHolders > r.Slots {
		fail("paced, %d nodes were down and %d slots taken at once, want %d down and no more taken", r.PacedMaxDown, s.paced.MaxHolders, r.Slots)
	}
	if without := s.paced.WithoutSlot(); len(without) > 0 {
		fail("paced, %d nodes rolled without a slot, %s first", len(without), without[0].Node)
	}
	if r.Rolled != r.Nodes {
		fail("paced, %d of %d nodes rolled", r.Rolled, r.Nodes)
	}
	if r.MakespanSeconds > maxOverIdeal*r.IdealSeconds {
		fail("paced, the roll took %.1f s, want at most %.1f times the ideal %.1f s", r.MakespanSeconds, maxOverIdeal, r.IdealSeconds)
	}
	return errors.Join(errs...)
}

// write writes build/demo.json in the repository and returns its path there.
func (r result) write() (string, error) {
	root, err := binary.SourceRoot()
	if err != nil {
		return "", err
	}
	raw, err := json.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("encoding the result: %w", err)
	}
	if err := os.MkdirAll(filepath.Join(root, "build"), 0o755); err != nil {
		return "", fmt.Errorf("making the folder of the result: %w", err)
	}
	path := filepath.Join("build", "demo.json")
	if err := os.WriteFile(filepath.Join(root, path), append(raw, '\n'), 0o644); err != nil {
		return "", fmt.Errorf("writing the result: %w", err)
	}
	return path, nil
}

// summary says in words what happened.
func (r result) summary(path string) string {
	waves := (r.Nodes + r.Slots - 1) / r.Slots
	var out strings.Builder
	fmt.Fprintf(&out, "\nWhat happened\n")
	fmt.Fprintf(&out, "  Unpaced  One command changed the image of %d nodes: %d of them were down at the same moment.\n", r.Nodes, r.UnpacedMaxDown)
	fmt.Fprintf(&out, "  Paced    The same command with a budget of %d %%, which is %d slots: never more than %d were down.\n", percent, r.Slots, r.PacedMaxDown)
	fmt.Fprintf(&out, "           %d of %d rolled, RollingUpdate and OnDelete alike, in %.1f s;\n", r.Rolled, r.Nodes, r.MakespanSeconds)
	fmt.Fprintf(&out, "           %d waves of one unpaced roll (%.1f s) each would be %.1f s.\n", waves, r.IdealSeconds/float64(waves), r.IdealSeconds)
	fmt.Fprintf(&out, "  Judge    A checker that shares no code with Paceline and watches the API; its figures: %s\n", path)
	fmt.Fprintf(&out, "  Next     \"Quick start on a cluster\" in README.md, or a control plane to play with:\n")
	fmt.Fprintf(&out, "           cd test && go run ./rig up --dir /tmp/rig\n")
	return out.String()
}
