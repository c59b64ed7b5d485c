package checker

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Ledger collects events in whatever order the watches deliver them.
type Ledger struct {
	mu     sync.Mutex
	events []Event
	missed []string
}

// Add notes an event.
func (l *Ledger) Add(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
}

// Miss notes that something was not seen.
func (l *Ledger) Miss(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.missed = append(l.missed, fmt.Sprintf(format, args...))
}

// Report replays what was noted so far, in the order of the resourceVersions.
func (l *Ledger) Report() Report {
	events, missed := l.snapshot()
	missed = append(missed, gaps(events)...)
	s := newState()
	for _, e := range events {
		s.apply(e)
	}
	report := s.report()
	report.Missed = missed
	return report
}

func (l *Ledger) snapshot() (events []Event, missed []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	events, missed = slices.Clone(l.events), slices.Clone(l.missed)
	slices.SortStableFunc(events, func(a, b Event) int {
		switch {
		case a.RV < b.RV:
			return -1
		case a.RV > b.RV:
			return 1
		}
		return 0
	})
	return events, missed
}

// stateAt is which objects of a kind (the prefix of their keys) stood at a resourceVersion, in which
// version.
func (l *Ledger) stateAt(kind string, rv uint64) map[string]string {
	events, _ := l.snapshot()
	standing := map[string]string{}
	for _, e := range events {
		if e.RV > rv || !strings.HasPrefix(e.key(), kind) {
			continue
		}
		if e.Change == Deleted {
			delete(standing, e.key())
		} else {
			standing[e.key()] = e.version()
		}
	}
	return standing
}

// gaps finds events that do not fit the history of their object.
func gaps(events []Event) []string {
	var missed []string
	standing := map[string]string{}
	for _, e := range events {
		key := e.key()
		uid, stands := standing[key]
		switch e.Change {
		case Listed, Added:
			if stands {
				missed = append(missed, fmt.Sprintf("%s appears at %d although it stood already: its deletion was not seen", key, e.RV))
			}
		default:
			if !stands || uid != e.uid() {
				missed = append(missed, fmt.Sprintf("%s is %s at %d but its creation was not seen", key, e.Change, e.RV))
			}
		}
		if e.Change == Deleted {
			delete(standing, key)
		} else {
			standing[key] = e.uid()
		}
	}
	return missed
}
