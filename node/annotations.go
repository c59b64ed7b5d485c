package node

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// formatVersion is the version that every JSON annotation of Paceline carries as "v".
const formatVersion = 1

// Held is the annotation of that name: the node's wish waits for a slot.
type Held struct {
	// Running is what the node ran when it was first held.
	Running Paced
	// Partition is the last partition that a writer stated; nil: none (given back as 0).
	Partition *int32
}

// Cleared is the annotation of that name: what the node runs, as last seen.
type Cleared struct {
	// Revision is the ControllerRevision of the pods from Partition up.
	Revision string
	// Ready is false where the slot was released by Updated before the pods were ready.
	Ready bool
	// Running is what the ordinals below Partition run.
	Running Paced
	// Partition is the writer's own partition.
	Partition int32
	// Canary is what the ordinals from Partition up run; equal to Running where Partition is 0.
	Canary Paced
}

type heldJSON struct {
	Version   int    `json:"v"`
	Running   Paced  `json:"running"`
	Partition *int32 `json:"partition"`
}

type clearedJSON struct {
	Version   int    `json:"v"`
	Revision  string `json:"revision"`
	Ready     bool   `json:"ready"`
	Running   Paced  `json:"running"`
	Partition int32  `json:"partition"`
	Canary    Paced  `json:"canary"`
}

// String is the annotation's value: the same bytes for the same fact.
func (h Held) String() string {
	return mustJSON(heldJSON{Version: formatVersion, Running: h.Running, Partition: h.Partition})
}

// String is the annotation's value: the same bytes for the same fact.
func (c Cleared) String() string {
	return mustJSON(clearedJSON{formatVersion, c.Revision, c.Ready, c.Running, c.Partition, c.Canary})
}

func mustJSON(value any) string {
	text, err := json.Marshal(value)
	if err != nil { // strings, numbers and raw JSON that was parsed before: cannot fail
		return ""
	}
	return string(text)
}

// ParseHeld reads the annotation held.
func ParseHeld(value string) (*Held, error) {
	var held heldJSON
	if err := parseVersioned(AnnotationHeld, value, &held, func() int { return held.Version }); err != nil {
		return nil, err
	}
	return &Held{Running: held.Running, Partition: held.Partition}, nil
}

// ParseCleared reads the annotation cleared.
func ParseCleared(value string) (*Cleared, error) {
	var c clearedJSON
	if err := parseVersioned(AnnotationCleared, value, &c, func() int { return c.Version }); err != nil {
		return nil, err
	}
	return &Cleared{c.Revision, c.Ready, c.Running, c.Partition, c.Canary}, nil
}

func parseVersioned(name, value string, into any, version func() int) error {
	if err := json.Unmarshal([]byte(value), into); err != nil {
		return fmt.Errorf("annotation %s: %w", name, err)
	}
	if version() != formatVersion {
		return fmt.Errorf("annotation %s: version %d: this Paceline reads version %d", name, version(), formatVersion)
	}
	return nil
}

// TouchAt is the annotation touch of a moment: nanoseconds since 1970 to the base of 36.
func TouchAt(now time.Time) string { return strconv.FormatInt(now.UnixNano(), touchBase) }

// ParseTouch reads the annotation touch. Anyone may write anything there: what is no moment is none.
func ParseTouch(value string) time.Time {
	nanoseconds, err := strconv.ParseInt(value, touchBase, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(0, nanoseconds)
}

const touchBase = 36

// SlotRef is the annotation slot: the Lease that opened the gate, and its fencing token.
type SlotRef struct {
	// Lease is the slot Lease's name.
	Lease string
	// Transitions is the Lease's leaseTransitions when the slot was taken.
	Transitions int32
}

// String is the annotation's value, LEASE/TRANSITIONS.
func (s SlotRef) String() string { return s.Lease + "/" + strconv.Itoa(int(s.Transitions)) }

// ParseSlotRef reads the annotation slot.
func ParseSlotRef(value string) (*SlotRef, error) {
	name, number, found := strings.Cut(value, "/")
	transitions, err := strconv.ParseInt(number, 10, 32)
	if !found || err != nil || name == "" {
		return nil, fmt.Errorf("annotation %s: %q: want LEASE/TRANSITIONS", AnnotationSlot, value)
	}
	return &SlotRef{Lease: name, Transitions: int32(transitions)}, nil
}
