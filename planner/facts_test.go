package planner

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/paceline/paceline/lease"
	"github.com/paceline/paceline/node"
)

var moment = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func paced(image string) node.Paced {
	return node.Paced{
		Containers: map[string]string{"app": image}, InitContainers: map[string]string{}, Volumes: map[string]string{},
		Isolation: []byte("{}"), Template: "sha256:" + image,
	}
}

func cleared(image string) node.Cleared {
	return node.Cleared{Revision: "r-" + image, Ready: true, Running: paced(image), Canary: paced(image)}
}

// pod is what a table says of a pod: its image, and whether it is ready or going.
type pod struct {
	image string
	state string // "": ready
}

const (
	notReady = "not ready"
	going    = "going"
)

// fleet makes pods of a node, ordinal 0 first; a pod without an image is not there.
func fleet(pods ...pod) node.Fleet {
	var out node.Fleet
	for i, p := range pods {
		if p.image == "" {
			continue
		}
		out = append(out, node.Pod{
			Name: fmt.Sprintf("rpc-0-%d", i), UID: types.UID(fmt.Sprintf("pod-%d-%s", i, p.image)), Ordinal: i,
			Revision: "r-" + p.image, Ready: p.state == "", Deleting: p.state == going,
		})
	}
	out.Sort()
	return out
}

type with func(*Facts)

// plan is another text in the slot's annotation.
func plan(text string) with {
	return func(f *Facts) {
		slot := *f.Slot
		slot.Plan = text
		f.Slot = &slot
	}
}

// resting is a node of one replica that runs v1, is known to, and holds no slot.
func resting(changes ...with) Facts {
	f := Facts{
		View: node.View{
			Name: "rpc-0", Namespace: "cell", UID: "u", Replicas: 1, Strategy: node.RollingUpdate,
			Template: paced("v1"), Cleared: ptr.To(cleared("v1")),
			Status: node.Status{
				Observed: true, CurrentRevision: "r-v1", UpdateRevision: "r-v1", Replicas: 1, Ready: 1, Available: 1, Updated: 1,
			},
		},
		Pods:      fleet(pod{"v1", ""}),
		Revisions: node.Revisions{"r-v1": paced("v1"), "r-v2": paced("v2")},
		Cell:      node.Cell{Enabled: true, Percent: 25, Pace: node.PaceImages, Gate: node.GateNative},
		Paced:     true, Now: moment,
	}
	return f.but(changes...)
}

func (f Facts) but(changes ...with) Facts {
	for _, change := range changes {
		change(&f)
	}
	return f
}

// asks is a template of another image: what the StatefulSet controller has seen of it is r-v2.
func asks(image string) with {
	return func(f *Facts) {
		f.Template, f.Status.UpdateRevision = paced(image), "r-"+image
		f.Status.Updated = 0
	}
}

func gated(f *Facts) {
	f.HasHeld, f.Held = true, &node.Held{Running: paced("v1")}
	if f.Strategy == node.RollingUpdate {
		f.Partition = ptr.To(node.HeldPartition)
	}
}

func onDelete(f *Facts) { f.Strategy, f.Partition = node.OnDelete, nil }

// holds is a slot taken for what the node asks for, with a fresh plan.
func holds(f *Facts) {
	f.Slot = &lease.Slot{
		Namespace: "cell", Name: "paceline-slot-0", UID: "l", ResourceVersion: "1", Holder: f.Name, HolderUID: f.UID, Transitions: 3,
		Acquired: moment, Renewed: moment, Deadline: 10 * time.Minute,
	}
	f.Slot.Plan = NewPlan(f.View, f.Cell.Pace, f.Slot.Transitions, moment).String()
}

// open is the slot annotation that the slot proves.
func open(f *Facts) { f.HasSlot, f.View.Slot = true, ptr.To(f.Slot.Ref()) }

func replicas(n int32) with { return func(f *Facts) { f.Replicas = n } }

func runsPods(pods ...pod) with { return func(f *Facts) { f.Pods = fleet(pods...) } }

func counts(updated, available int32) with {
	return func(f *Facts) { f.Status.Updated, f.Status.Available = updated, available }
}

func current(revision string) with { return func(f *Facts) { f.Status.CurrentRevision = revision } }

func ownPartition(p int32) with { return func(f *Facts) { f.Partition = &p } }

func unobserved(f *Facts)   { f.Status.Observed = false }
func whenUpdated(f *Facts)  { f.ReleaseWhenUpdated = true }
func leftPacing(f *Facts)   { f.Paced = false }
func neverCleared(f *Facts) { f.Cleared = nil }
func beingDeleted(f *Facts) { f.Deleting = true }
func pausedByHand(f *Facts) { f.PausedByHand = true }
func hasStaleSlot(f *Facts) {
	f.HasSlot, f.View.Slot = true, &node.SlotRef{Lease: "paceline-slot-0", Transitions: 3}
}
func forgetsRevs(f *Facts)          { f.Revisions = node.Revisions{} }
func clearedAt(c node.Cleared) with { return func(f *Facts) { f.Cleared = &c } }

// rolling is a node that holds a slot and whose gate is open.
func rolling(changes ...with) Facts {
	return resting(asks("v2"), holds, open).but(changes...)
}

// pins is a wish for v2 that is deferred: the stored template, and all that Kubernetes knows, is v1.
func pins(f *Facts) {
	stands := paced("v1")
	f.HasDeferred, f.Pinned, f.Template = true, &stands, paced("v2")
	f.Deferred = &node.Deferred{Fields: map[string]node.Wish{"containers/app": {Want: []byte(`"v2"`)}}}
}
