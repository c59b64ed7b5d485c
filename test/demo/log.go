package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// log prints a line for each thing that is begun, with the seconds since the start.
type log struct {
	out     io.Writer
	started time.Time
}

func newLog(out io.Writer) *log { return &log{out: out, started: time.Now()} }

func (l *log) say(format string, args ...any) {
	fmt.Fprintf(l.out, "%4.0f s  %s\n", time.Since(l.started).Seconds(), fmt.Sprintf(format, args...))
}

// Write takes the progress lines of the rig's builds.
func (l *log) Write(text []byte) (int, error) {
	for line := range strings.Lines(string(text)) {
		l.say("%s", strings.TrimSuffix(line, "\n"))
	}
	return len(text), nil
}

// heading begins a part.
func (l *log) heading(format string, args ...any) {
	fmt.Fprintf(l.out, "\n%s\n", fmt.Sprintf(format, args...))
}

// echo shows a command as a person would type it.
func (l *log) echo(args ...string) {
	fmt.Fprintf(l.out, "$ %s\n", strings.Join(args, " "))
}

// warnings prints the first and the last of the warnings that a command gave.
func (l *log) warnings(stderr string) {
	var lines []string
	for line := range strings.Lines(stderr) {
		if strings.HasPrefix(line, "Warning:") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	for i, line := range lines {
		switch {
		case i == 0 || i == len(lines)-1:
			fmt.Fprintln(l.out, line)
		case i == 1:
			fmt.Fprintf(l.out, "(%d more)\n", len(lines)-2)
		}
	}
}
