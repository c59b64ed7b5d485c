package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func someRows() []row {
	return []row{
		{node: "rpc-00", wanted: "rpc:v2", running: "rpc:v2", state: ready},
		{node: "rpc-01", wanted: "rpc:v2", running: "", state: rolling, slot: "paceline-slot-0"},
		{node: "rpc-02", wanted: "rpc:v2", running: "rpc:v1", state: waiting, behind: []string{"rpc-01"}},
		{node: "rpc-03", wanted: "rpc:v2", running: "rpc:v1", state: down},
	}
}

func TestTable(t *testing.T) {
	require.Equal(t, []string{
		"NODE    WANTED  RUNNING STATE    SLOT            WAITS BEHIND",
		"rpc-00  rpc:v2  rpc:v2  ready    -",
		"rpc-01  rpc:v2  -       rolling  paceline-slot-0",
		"rpc-02  rpc:v2  rpc:v1  waiting  -               rpc-01",
		"rpc-03  rpc:v2  rpc:v1  down     -",
	}, table(someRows(), 0, false))
}

func TestNarrowTableKeepsWithinTheWidth(t *testing.T) {
	for width := 1; width < 100; width++ {
		for _, line := range table(someRows(), width, false) {
			require.LessOrEqual(t, len(line), width)
		}
	}
}

func TestColourIsAroundTheCutLine(t *testing.T) {
	lines := table(someRows(), 6, true)
	require.Equal(t, "\x1b[32mrpc-00\x1b[0m", lines[1])
	for _, line := range table(someRows(), 6, false) {
		require.NotContains(t, line, "\x1b")
	}
}

func TestATableHigherThanTheTerminalEndsInDots(t *testing.T) {
	lines := []string{"a", "b", "c", "d"}
	require.Equal(t, lines, fit(lines, 0), "height unknown")
	require.Equal(t, lines, fit(lines, 5))
	require.Equal(t, []string{"a", "b", "..."}, fit(lines, 4))
	require.Equal(t, []string{"..."}, fit(lines, 1))
	require.Equal(t, []string{"a", "b", "c", "d"}, lines, "left as it was")
}

func TestStatusCounts(t *testing.T) {
	require.Equal(t, "  1.5 s  1 of 4 run what is wanted, 2 rolling or down", status(someRows(), 1500*time.Millisecond))
}

func TestOnlyChangesArePrinted(t *testing.T) {
	before, after := someRows(), someRows()
	require.Empty(t, changes(before, after))
	after[1].running = "rpc:v2"
	after[2].behind = []string{"rpc-00", "rpc-01"}
	after[3].state, after[3].running = rolling, ""
	after[3].slot = "paceline-slot-1"
	require.Equal(t, []string{
		"rpc-01  rolling  rpc:v2, holds paceline-slot-0",
		"rpc-03  rolling  -, wants rpc:v2, holds paceline-slot-1",
	}, changes(before, after), "who waits behind whom follows from the others")
	require.Len(t, changes(nil, after), 4)
}

func TestAtMostThreeNamesAreListed(t *testing.T) {
	require.Empty(t, behind(nil))
	require.Equal(t, "a, b, c", behind([]string{"a", "b", "c"}))
	require.Equal(t, "a, b, c and 2 more", behind([]string{"a", "b", "c", "d", "e"}))
}

func TestLiveViewDrawsOverTheLastTable(t *testing.T) {
	var out strings.Builder
	width, height := 80, 24
	v := &liveView{out: &out, size: func() (int, int) { return width, height }}
	v.begin()
	v.show(someRows())
	require.Equal(t, 6, strings.Count(out.String(), "\n"))
	require.NotContains(t, out.String(), "\x1b[6A")
	out.Reset()
	width, height = 10, 4
	v.show(someRows())
	require.True(t, strings.HasPrefix(out.String(), "\x1b[6A\r\x1b[J"), "%q", out.String())
	for _, line := range strings.Split(strings.TrimPrefix(out.String(), "\x1b[6A\r\x1b[J"), "\n") {
		require.LessOrEqual(t, len(line), width)
	}
	out.Reset()
	v.show(someRows())
	require.True(t, strings.HasPrefix(out.String(), "\x1b[3A"), "the terminal became lower: %q", out.String())
}

func TestLineViewComparesWithWhatWasNoted(t *testing.T) {
	var out strings.Builder
	v := &lineView{out: &out}
	v.note(someRows())
	v.begin()
	v.show(someRows())
	require.Empty(t, out.String())
	after := someRows()
	after[0].state = down
	v.show(after)
	require.Equal(t, 1, strings.Count(out.String(), "\n"))
	require.NotContains(t, out.String(), "\x1b")
}

func TestFirstAndLastWarningArePrinted(t *testing.T) {
	for stderr, want := range map[string]string{
		"":                       "",
		"note\nWarning: a\n":     "Warning: a\n",
		"Warning: a\nWarning: b": "Warning: a\nWarning: b\n",
		"Warning: a\nWarning: b\nWarning: c\nWarning: d\n": "Warning: a\n(2 more)\nWarning: d\n",
	} {
		var out strings.Builder
		(&log{out: &out}).warnings(stderr)
		require.Equal(t, want, out.String())
	}
}
