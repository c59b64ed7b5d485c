package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// view shows the fleet while it rolls.
type view interface {
	// begin starts a part: what follows is compared with the fleet as it was noted last.
	begin()
	// note takes the fleet as it stands and shows nothing.
	note(rows []row)
	// show is called again and again with the fleet as it stands.
	show(rows []row)
}

// newView redraws a table on a terminal, and prints changes alone elsewhere.
func newView(out *os.File) view {
	if !term.IsTerminal(int(out.Fd())) || os.Getenv("TERM") == "dumb" {
		return &lineView{out: out}
	}
	size := func() (width, height int) {
		width, height, err := term.GetSize(int(out.Fd()))
		if err != nil || width <= 0 {
			return 80, 24
		}
		return width, height
	}
	return &liveView{out: out, size: size, colour: os.Getenv("NO_COLOR") == ""}
}

// liveView draws the table over the one before.
type liveView struct {
	out     io.Writer
	size    func() (width, height int)
	colour  bool
	started time.Time
	drawn   int // lines that stand
}

func (v *liveView) begin() { v.started, v.drawn = time.Now(), 0 }

func (v *liveView) note([]row) {}

func (v *liveView) show(rows []row) {
	width, height := v.size()
	lines := append([]string{cut(status(rows, time.Since(v.started)), width)}, table(rows, width, v.colour)...)
	lines = fit(lines, height)
	var frame strings.Builder
	if v.drawn > 0 {
		fmt.Fprintf(&frame, "\x1b[%dA", v.drawn) // up to the first line
	}
	frame.WriteString("\r\x1b[J") // nothing is left of the old one
	for _, line := range lines {
		frame.WriteString(line + "\n")
	}
	v.drawn = len(lines)
	fmt.Fprint(v.out, frame.String())
}

// lineView prints a line for each node that changed.
type lineView struct {
	out     io.Writer
	started time.Time
	last    []row
}

func (v *lineView) begin() { v.started = time.Now() }

func (v *lineView) note(rows []row) { v.last = rows }

func (v *lineView) show(rows []row) {
	for _, line := range changes(v.last, rows) {
		fmt.Fprintf(v.out, "%5.1f s  %s\n", time.Since(v.started).Seconds(), line)
	}
	v.last = rows
}
