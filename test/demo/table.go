package main

import (
	"fmt"
	"strings"
	"time"
)

const layout = "%-7s %-7s %-7s %-8s %-15s %s"

// table is the lines of the table, each cut to width (0: any) and coloured by state if wanted.
func table(rows []row, width int, colour bool) []string {
	lines := []string{cut(fmt.Sprintf(layout, "NODE", "WANTED", "RUNNING", "STATE", "SLOT", "WAITS BEHIND"), width)}
	for _, r := range rows {
		line := fmt.Sprintf(layout, r.node, r.wanted, dash(r.running), r.state, dash(r.slot), behind(r.behind))
		line = cut(strings.TrimRight(line, " "), width)
		if colour {
			line = paint(line, r.state)
		}
		lines = append(lines, line)
	}
	return lines
}

// fit leaves out the last lines of a table that is higher than the terminal (0: any height).
func fit(lines []string, height int) []string {
	if height <= 0 || len(lines) < height { // the cursor needs a line too
		return lines
	}
	keep := max(height-2, 0)
	return append(lines[:keep:keep], "...")[:min(keep+1, height)]
}

// status is the line above the table.
func status(rows []row, elapsed time.Duration) string {
	done, busy := 0, 0
	for _, r := range rows {
		if r.settled() {
			done++
		}
		if r.state == down || r.state == rolling {
			busy++
		}
	}
	return fmt.Sprintf("%5.1f s  %d of %d run what is wanted, %d rolling or down", elapsed.Seconds(), done, len(rows), busy)
}

// changes is a line for each node that stands elsewhere than before.
func changes(before, after []row) []string {
	old := map[string]row{}
	for _, r := range before {
		old[r.node] = r
	}
	var lines []string
	for _, r := range after {
		o := old[r.node]
		if o.state == r.state && o.wanted == r.wanted && o.slot == r.slot && (o.running == r.running || r.running == "") {
			continue
		}
		lines = append(lines, sentence(r))
	}
	return lines
}

// sentence says where one node stands.
func sentence(r row) string {
	line := fmt.Sprintf("%-7s %-8s %s", r.node, r.state, dash(r.running))
	if r.running != r.wanted {
		line += ", wants " + r.wanted
	}
	switch {
	case r.slot != "":
		line += ", holds " + r.slot
	case len(r.behind) > 0:
		line += ", behind " + behind(r.behind)
	}
	return line
}

// behind names at most three.
func behind(names []string) string {
	const most = 3
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// cut shortens a line to width characters.
func cut(line string, width int) string {
	characters := []rune(line)
	if width <= 0 || len(characters) <= width {
		return line
	}
	return string(characters[:width])
}

func paint(line string, s state) string {
	code := map[state]string{ready: "32", waiting: "36", rolling: "33", down: "31"}[s]
	return "\x1b[" + code + "m" + line + "\x1b[0m"
}
