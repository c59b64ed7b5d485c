package node

import (
	"encoding/json"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Strategy is a StatefulSet's update strategy.
type Strategy string

const (
	// RollingUpdate lets the StatefulSet controller replace pods from the partition up.
	RollingUpdate Strategy = "RollingUpdate"
	// OnDelete lets nobody replace pods but who deletes them.
	OnDelete Strategy = "OnDelete"
)

// Status is the part of a StatefulSet's status that decisions read.
type Status struct {
	// Observed reports that the StatefulSet controller has seen this generation.
	Observed bool
	// CurrentRevision and UpdateRevision name ControllerRevisions.
	CurrentRevision, UpdateRevision string
	// Replicas, Ready, Available and Updated count pods.
	Replicas, Ready, Available, Updated int32
}

// View is what Paceline knows of one StatefulSet. It is read-only.
type View struct {
	// Name, Namespace and UID identify the StatefulSet.
	Name, Namespace string
	// UID tells a recreated StatefulSet from its predecessor.
	UID types.UID
	// Deleting reports a deletion timestamp.
	Deleting bool
	// Replicas is spec.replicas, 1 where it is not stated.
	Replicas int32
	// Start is spec.ordinals.start: the ordinal of the first pod.
	Start int32
	// Strategy is spec.updateStrategy.type.
	Strategy Strategy
	// Partition is spec.updateStrategy.rollingUpdate.partition; nil: not there.
	Partition *int32
	// Template is the paced fields that the template asks for.
	Template Paced
	// Status is what the StatefulSet controller says.
	Status Status
	// Labels are the StatefulSet's own, for Scope.Includes.
	Labels map[string]string
	// PausedByHand reports the annotation paused "true".
	PausedByHand bool
	// ReleaseWhenUpdated reports the annotation release-slot Updated.
	ReleaseWhenUpdated bool
	// Touched is when Paceline last made admission look at the node; zero: never, or not readable.
	Touched time.Time
	// Pinned is the paced fields of the stored template where it is pinned (pin gate); Template is then what
	// it is to be. nil: nothing is deferred.
	Pinned *Paced
	// Held, Deferred and Cleared are Paceline's annotations; nil: not there or not readable.
	Held     *Held
	Deferred *Deferred
	Cleared  *Cleared
	// Slot is the annotation slot; nil: not there or not readable.
	Slot *SlotRef
	// HasHeld, HasDeferred and HasSlot report that the annotation is there, readable or not.
	HasHeld, HasDeferred, HasSlot bool
	// Problems names each annotation that could not be read, and why.
	Problems []error
}

// Meta is the part of an object's metadata that a View is made from.
type Meta struct {
	Name, Namespace     string
	UID                 types.UID
	Deleting            bool
	Labels, Annotations map[string]string
}

// Spec is the part of a StatefulSet's spec that a View is made from.
type Spec struct {
	Replicas  *int32
	Start     int32
	Strategy  Strategy
	Partition *int32
	// Template is the paced fields asked for; Pinned those that stand, where they are pinned, else nil.
	Template Paced
	Pinned   *Paced
}

// NewView makes a View. Annotations that cannot be read are named in Problems and count as there:
// a broken hold still holds.
func NewView(meta Meta, spec Spec, status Status) View {
	view := View{
		Name: meta.Name, Namespace: meta.Namespace, UID: meta.UID, Deleting: meta.Deleting,
		Replicas: 1, Start: spec.Start, Strategy: spec.Strategy, Partition: spec.Partition, Template: spec.Template, Pinned: spec.Pinned,
		Status: status, Labels: meta.Labels,
	}
	if spec.Replicas != nil {
		view.Replicas = *spec.Replicas
	}
	if view.Strategy == "" {
		view.Strategy = RollingUpdate
	}
	view.readOwned(meta.Annotations)
	view.readIntents(meta.Annotations)
	return view
}

func (v *View) readOwned(annotations map[string]string) {
	var err error
	if value, ok := annotations[AnnotationHeld]; ok {
		v.HasHeld = true
		v.Held, err = ParseHeld(value)
		v.problem(err)
	}
	if value, ok := annotations[AnnotationDeferred]; ok {
		v.HasDeferred = true
		v.Deferred, err = ParseDeferred(value)
		v.problem(err)
	}
	if value, ok := annotations[AnnotationCleared]; ok {
		v.Cleared, err = ParseCleared(value)
		v.problem(err)
	}
	v.Touched = ParseTouch(annotations[AnnotationTouch])
	if value, ok := annotations[AnnotationSlot]; ok {
		v.HasSlot = true
		v.Slot, err = ParseSlotRef(value)
		v.problem(err)
	}
}

func (v *View) readIntents(annotations map[string]string) {
	switch value := annotations[AnnotationPaused]; value {
	case "true":
		v.PausedByHand = true
	case "", "false":
	default:
		v.problem(fmt.Errorf("annotation %s: %q: want true or false", AnnotationPaused, value))
	}
	switch value := annotations[AnnotationReleaseSlot]; value {
	case "Updated":
		v.ReleaseWhenUpdated = true
	case "", "Ready":
	default:
		v.problem(fmt.Errorf("annotation %s: %q: want Ready or Updated", AnnotationReleaseSlot, value))
	}
}

func (v *View) problem(err error) {
	if err != nil {
		v.Problems = append(v.Problems, err)
	}
}

// ViewOf makes the View of a StatefulSet as client-go decodes it. revisions gives the template's
// paced fields where the StatefulSet controller has already recorded them, so that they are compared
// with other recorded ones byte for byte; else they are read from the decoded template.
func ViewOf(set *appsv1.StatefulSet, revisions Revisions) (View, error) {
	status := Status{
		Observed:        set.Status.ObservedGeneration == set.Generation && set.Generation > 0,
		CurrentRevision: set.Status.CurrentRevision, UpdateRevision: set.Status.UpdateRevision,
		Replicas: set.Status.Replicas, Ready: set.Status.ReadyReplicas,
		Available: set.Status.AvailableReplicas, Updated: set.Status.UpdatedReplicas,
	}
	template, recorded := revisions[status.UpdateRevision]
	if !recorded || !status.Observed {
		var err error
		if template, err = pacedOf(set, nil); err != nil {
			return View{}, err
		}
	}
	spec := Spec{
		Replicas: set.Spec.Replicas, Strategy: Strategy(set.Spec.UpdateStrategy.Type), Template: template,
	}
	if value, ok := set.Annotations[AnnotationDeferred]; ok {
		stands := template
		spec.Pinned = &stands
		if deferred, err := ParseDeferred(value); err == nil {
			if spec.Template, err = pacedOf(set, deferred); err != nil {
				return View{}, err
			}
		}
	}
	if set.Spec.Ordinals != nil {
		spec.Start = set.Spec.Ordinals.Start
	}
	if rolling := set.Spec.UpdateStrategy.RollingUpdate; rolling != nil {
		spec.Partition = rolling.Partition
	}
	meta := Meta{
		Name: set.Name, Namespace: set.Namespace, UID: set.UID, Deleting: set.DeletionTimestamp != nil,
		Labels: set.Labels, Annotations: set.Annotations,
	}
	return NewView(meta, spec, status), nil
}

// pacedOf reads the paced fields of a decoded template, with what is deferred in it.
func pacedOf(set *appsv1.StatefulSet, deferred *Deferred) (Paced, error) {
	text, err := json.Marshal(set.Spec.Template)
	if err == nil && deferred != nil {
		text, err = deferred.Render(text)
	}
	if err != nil {
		return Paced{}, fmt.Errorf("reading template of StatefulSet %s: %w", set.Name, err)
	}
	paced, err := PacedOfTemplate(text)
	if err != nil {
		return Paced{}, fmt.Errorf("reading StatefulSet %s: %w", set.Name, err)
	}
	return paced, nil
}
