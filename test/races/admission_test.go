package races

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/paceline/paceline/test/checker"
	"github.com/paceline/paceline/test/e2e/harness"
	"github.com/paceline/paceline/test/rig/controlplane"
)

// forEachNode runs a race under both gates, for a RollingUpdate node and for an OnDelete one, each time in a
// cell of its own with one slot.
func forEachNode(t *testing.T, race func(t *testing.T, r *raced)) {
	for _, gate := range []string{"native", "pin"} {
		for i, strategy := range []string{"RollingUpdate", "OnDelete"} {
			t.Run(gate+" "+strategy, func(t *testing.T) {
				cell := pair(t)
				cell.AnnotateCell(t, harness.AnnotationGate, &gate)
				race(t, &raced{cell, cell.Admission(t), cell.Nodes[i], gate})
			})
		}
	}
}

// raced is a node whose writes are held inside admission.
type raced struct {
	*harness.Cell
	admission  *harness.Admission
	node, gate string
}

// byWriter is a write of the node that is not Paceline's.
func (r *raced) byWriter(request *harness.Request) bool {
	return request.Resource.Resource == "statefulsets" && request.Name == r.node && !byPaceline(request)
}

func byPaceline(request *harness.Request) bool {
	return request.UserInfo.Username == controlplane.ControllerUser
}

// opens and releases are the writes that bring the slot annotation and take it off.
func (r *raced) opens(request *harness.Request) bool {
	before, after := slotOf(request)
	return request.Name == r.node && byPaceline(request) && before == "" && after != ""
}

func (r *raced) releases(request *harness.Request) bool {
	before, after := slotOf(request)
	return request.Name == r.node && byPaceline(request) && before != "" && after == ""
}

func slotOf(request *harness.Request) (before, after string) {
	var was, is metav1.PartialObjectMetadata
	if json.Unmarshal(request.OldObject.Raw, &was) != nil || json.Unmarshal(request.Object.Raw, &is) != nil {
		return "", ""
	}
	return was.Annotations[harness.AnnotationSlot], is.Annotations[harness.AnnotationSlot]
}

// takes is the write of a Lease that gives it a holder.
func takes(request *harness.Request) bool {
	var was, is coordinationv1.Lease
	if request.Resource.Resource != "leases" || json.Unmarshal(request.OldObject.Raw, &was) != nil || json.Unmarshal(request.Object.Raw, &is) != nil {
		return false
	}
	return was.Spec.HolderIdentity == nil && is.Spec.HolderIdentity != nil
}

// begin sends a write that is going to be held, and waits until it is.
func (r *raced) begin(t *testing.T, image string, write func(ctx context.Context, image string) error) (*harness.Held, chan error) {
	t.Helper()
	held, done := r.admission.Hold(r.byWriter), make(chan error, 1)
	go func() { done <- write(t.Context(), image) }()
	held.Wait(t, "the write of "+image)
	return held, done
}

func (r *raced) patch(ctx context.Context, image string) error {
	return r.TrySetImage(ctx, r.node, image)
}

// replace is an update without a resource version: it overwrites whatever it meets.
func (r *raced) replace(ctx context.Context, image string) error {
	return r.put(ctx, image, func(set *appsv1.StatefulSet) { set.ResourceVersion = "" })
}

// put is an update of what was read.
func (r *raced) put(ctx context.Context, image string, change func(*appsv1.StatefulSet)) error {
	sets := r.Client.AppsV1().StatefulSets(r.Name)
	set, err := sets.Get(ctx, r.node, metav1.GetOptions{})
	if err != nil {
		return err
	}
	set.Spec.Template.Spec.Containers[0].Image = image
	change(set)
	_, err = sets.Update(ctx, set, metav1.UpdateOptions{FieldManager: "writer"})
	return err
}

func (r *raced) freeze(t *testing.T, on bool) {
	t.Helper()
	var value *string
	if on {
		yes := "true"
		value = &yes
	}
	r.AnnotateCell(t, harness.AnnotationFreeze, value)
}

// waits waits until the node waits, in the way of its gate.
func (r *raced) waits(t *testing.T) {
	t.Helper()
	if r.gate == "pin" {
		r.WaitDeferred(t, r.node)
		return
	}
	r.WaitHeld(t, r.node)
}

// A write is admitted while the node holds its slot, and lands when the slot has been given back: the API
// server runs admission once more, and the wish waits for a slot of its own. A write that insists on what it read is refused.
func TestAWriteAdmittedBeforeTheReleaseLandsAfterIt(t *testing.T) {
	forEachNode(t, func(t *testing.T, r *raced) {
		writes := map[string]func(context.Context, string) error{"patch": r.patch, "replace": r.replace}
		for kind, write := range writes {
			image := "app:" + kind
			release := r.admission.Hold(r.releases)
			r.SetImage(t, image, r.node)
			release.Wait(t, "the release")
			held, done := r.begin(t, image+"-2", write)
			r.freeze(t, true)
			release.Let()
			r.WaitHolders(t)
			restarts := r.Report().Restarts[r.node]
			held.Let()
			require.NoError(t, <-done, kind)
			r.waits(t)
			require.Empty(t, r.Node(t, r.node).Annotations[harness.AnnotationSlot])
			require.Equal(t, restarts, r.Report().Restarts[r.node], kind)
			r.freeze(t, false)
			r.WaitImage(t, image+"-2", r.node)
			r.WaitHolders(t)
		}

		release := r.admission.Hold(r.releases)
		r.SetImage(t, "app:stale", r.node)
		release.Wait(t, "the release")
		held, done := r.begin(t, "app:stale-2", func(ctx context.Context, image string) error {
			return r.put(ctx, image, func(*appsv1.StatefulSet) {})
		})
		release.Let()
		r.WaitHolders(t)
		held.Let()
		require.True(t, apierrors.IsConflict(<-done))
		r.WaitImage(t, "app:stale", r.node)
		report := judge(t, r.Cell, 1)
		require.Equal(t, 2*len(writes)+1, report.Restarts[r.node])
	})
}

// The release is held, and a new wish lands first: it joins the roll under the same slot.
func TestABumpLandsBeforeTheRelease(t *testing.T) {
	forEachNode(t, func(t *testing.T, r *raced) {
		release := r.admission.Hold(r.releases)
		r.SetImage(t, "app:v2", r.node)
		release.Wait(t, "the release")
		r.SetImage(t, "app:v3", r.node)
		release.Let()
		r.WaitImage(t, "app:v3", r.node)
		r.WaitHolders(t)
		report := judge(t, r.Cell, 1)
		require.Equal(t, 2, report.Restarts[r.node])
		require.Equal(t, 1, takings(report, r.node))
	})
}

// A write is admitted while the node waits, and lands when its slot has been taken and its gate is open.
func TestAWriteAdmittedWhileWaitingLandsInTheRoll(t *testing.T) {
	forEachNode(t, func(t *testing.T, r *raced) {
		r.freeze(t, true)
		r.SetImage(t, "app:v2", r.node)
		r.waits(t)
		held, done := r.begin(t, "app:v3", r.patch)
		release := r.admission.Hold(r.releases)
		r.freeze(t, false)
		release.Wait(t, "the release") // opened, and rolled
		held.Let()
		require.NoError(t, <-done)
		release.Let()
		r.WaitImage(t, "app:v3", r.node)
		r.WaitHolders(t)
		report := judge(t, r.Cell, 1)
		require.Equal(t, 2, report.Restarts[r.node])
		require.Equal(t, 1, takings(report, r.node))
	})
}

// The slot is taken, the write that opens the gate is held, and the node changes meanwhile.
func TestBetweenTakeAndOpen(t *testing.T) {
	forEachNode(t, func(t *testing.T, r *raced) {
		take := func(image string) *harness.Held {
			open := r.admission.Hold(r.opens)
			r.SetImage(t, image, r.node)
			open.Wait(t, "the opening of "+r.node)
			r.WaitHolders(t, r.node)
			return open
		}
		open := take("app:v2")
		r.SetImage(t, "app:v3", r.node)
		open.Let()
		r.WaitImage(t, "app:v3", r.node)
		r.WaitHolders(t)
		require.Equal(t, 1, r.Report().Restarts[r.node], "one roll, to what was asked for last")

		open = take("app:v4")
		require.NoError(t, r.put(t.Context(), "app:v3", func(set *appsv1.StatefulSet) {
			set.ResourceVersion, set.Annotations = "", nil // a whole render; the pin gate withdraws by rule W3
		}))
		open.Let()
		r.WaitHolders(t)
		r.WaitImage(t, "app:v3", r.node)
		require.False(t, r.Rolling(t.Context()), "nothing waits any more")
		judge(t, r.Cell, 1)
		require.Equal(t, 1, r.Report().Restarts[r.node], "what was withdrawn does not roll")
	})
}

// A grant is held while the percentage falls, or the cell is frozen: it is the last one.
func TestAGrantWhileTheBudgetFalls(t *testing.T) {
	for name, brake := range map[string]func(*testing.T, *harness.Cell){
		"percentage": func(t *testing.T, cell *harness.Cell) { cell.SetBudget(t, "12") },
		"freeze": func(t *testing.T, cell *harness.Cell) {
			yes := "true"
			cell.AnnotateCell(t, harness.AnnotationFreeze, &yes)
		},
	} {
		t.Run(name, func(t *testing.T) {
			cell := newCell(t, "50", 8)
			cell.WaitSlots(t, 4)
			admission := cell.Admission(t)
			yes := "true"
			cell.AnnotateCell(t, harness.AnnotationFreeze, &yes)
			bump(t, cell, "app:v2")
			cell.WaitReason(t, "NodeUpdateInProgress", "UpdateDeferred")
			grant := admission.Hold(takes)
			cell.AnnotateCell(t, harness.AnnotationFreeze, nil)
			grant.Wait(t, "a grant")
			brake(t, cell)
			grant.Let()
			cell.WaitRestarts(t, cell.Nodes[0], 1)
			if name == "freeze" {
				cell.WaitHolders(t)
				require.Equal(t, 1, cell.Report().TotalRestarts(), "nothing is granted any more")
				cell.SetBudget(t, "12")
				cell.AnnotateCell(t, harness.AnnotationFreeze, nil)
			}
			cell.WaitImage(t, "app:v2")
			report := judge(t, cell, 1)
			require.Equal(t, 8, report.TotalRestarts())
		})
	}
}

// takings is how often a node took a slot.
func takings(report checker.Report, node string) int {
	n := 0
	for _, change := range report.Holders {
		if change.Holder == node {
			n++
		}
	}
	return n
}
