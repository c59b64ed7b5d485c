// Package webhooktest is what the StatefulSet webhook reads beside a review, out of a file: the
// surroundings of an AdmissionReview fixture. The recorder of the fixtures writes it, their replay
// reads it, and both run the handler that it makes.
package webhooktest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/paceline/paceline/lease"
	"github.com/paceline/paceline/node"
	"github.com/paceline/paceline/webhook"
)

// Account is Paceline's own account in every fixture: the chart's default.
const Account = "system:serviceaccount:paceline-system:paceline"

// State is the surroundings of one request.
type State struct {
	// Labels and Annotations are the namespace's.
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Slots       []Slot            `json:"slots,omitempty"`
	// SlotError makes every read of a Lease fail with this text.
	SlotError string `json:"slotError,omitempty"`
	Queue     Queue  `json:"queue"`
}

// Slot is a slot Lease.
type Slot struct {
	Name        string    `json:"name"`
	Holder      string    `json:"holder"`
	HolderUID   types.UID `json:"holderUID"`
	Transitions int32     `json:"transitions"`
}

// Queue is what warnings name.
type Queue struct {
	Slots   int      `json:"slots"`
	Holders []string `json:"holders"`
	Waiting []string `json:"waiting"`
}

// Read reads a state file.
func Read(path string) (State, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return State{}, fmt.Errorf("reading fixture: %w", err)
	}
	var state State
	if err := json.Unmarshal(text, &state); err != nil {
		return State{}, fmt.Errorf("reading fixture %s: %w", path, err)
	}
	return state, nil
}

// SlotOf is the part of a slot that a proof needs.
func SlotOf(slot lease.Slot) Slot {
	return Slot{Name: slot.Name, Holder: slot.Holder, HolderUID: slot.HolderUID, Transitions: slot.Transitions}
}

// Handler is the real handler in these surroundings. Observe is told each request's reason.
func (s State) Handler(observe func(webhook.Reason)) webhook.StatefulSet {
	r := reader{s}
	return webhook.StatefulSet{Options: webhook.Options{
		Account: Account, Cells: r, Slots: r, Lines: r, Timeout: time.Minute,
		Observe: func(reason webhook.Reason, _ time.Duration) { observe(reason) },
	}}
}

type reader struct{ state State }

// Cell implements webhook.Cells.
func (r reader) Cell(_ context.Context, namespace string) (node.Cell, error) {
	scope := node.Scope{Defaults: node.Cell{Pace: node.PaceImages, Gate: node.GateNative}}
	cell, problems := scope.Cell(namespace, r.state.Labels, r.state.Annotations)
	return cell, errors.Join(problems...)
}

// CellLive implements webhook.Cells.
func (r reader) CellLive(ctx context.Context, namespace string) (node.Cell, error) {
	return r.Cell(ctx, namespace)
}

// Get implements webhook.Slots.
func (r reader) Get(_ context.Context, namespace, name string) (lease.Slot, error) {
	if r.state.SlotError != "" {
		return lease.Slot{}, errors.New(r.state.SlotError)
	}
	for _, slot := range r.state.Slots {
		if slot.Name == name {
			return lease.Slot{
				Namespace: namespace, Name: name, Holder: slot.Holder, HolderUID: slot.HolderUID, Transitions: slot.Transitions,
			}, nil
		}
	}
	return lease.Slot{}, apierrors.NewNotFound(coordinationv1.Resource("leases"), name)
}

// Line implements webhook.Lines.
func (r reader) Line(context.Context, string) (lease.Queue, error) {
	return lease.Queue{Slots: r.state.Queue.Slots, Holders: r.state.Queue.Holders, Waiting: r.state.Queue.Waiting}, nil
}
