package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/paceline/paceline/lease"
	"github.com/paceline/paceline/node"
)

// Path is where the StatefulSet webhook is served.
const Path = "/mutate-statefulset"

// maxBody bounds a review: the API server takes objects of up to 3 MiB, and an update's review
// carries two of them. What is longer is answered with 413.
const maxBody = 7 << 20

// Cells reads what a namespace says of its pacing.
type Cells interface {
	// Cell may be stale; it is cheap.
	Cell(ctx context.Context, namespace string) (node.Cell, error)
	// CellLive asks the API server.
	CellLive(ctx context.Context, namespace string) (node.Cell, error)
}

// Slots reads slot Leases live.
type Slots interface {
	Get(ctx context.Context, namespace, name string) (lease.Slot, error)
}

// Lines says who holds slots and who waits, from a cache: for warnings alone.
type Lines interface {
	Line(ctx context.Context, namespace string) (lease.Queue, error)
}

// Orphans finds what the pods run that a new StatefulSet of this name would adopt.
type Orphans interface {
	Orphans(ctx context.Context, namespace, name string) ([]node.Paced, error)
}

// Options makes a StatefulSet webhook.
type Options struct {
	// Account is the user name of Paceline's own account.
	Account string
	// Scope says which StatefulSets are nodes.
	Scope node.Scope
	Cells Cells
	Slots Slots
	Lines Lines
	// Orphans; nil: none are looked for.
	Orphans Orphans
	// Later names the webhook configurations that are asked about a namespace's StatefulSets after Paceline's,
	// which is called Own; nil: nobody looks.
	Later func(ctx context.Context, namespace string) []string
	Own   string
	// Timeout is this side's deadline for one request; it stays under the API server's.
	Timeout time.Duration
	// Observe is told of each request's end, for metrics; nil: nobody is.
	Observe func(reason Reason, took time.Duration)
}

// StatefulSet serves the admission of StatefulSets over HTTP.
type StatefulSet struct{ Options }

// ServeHTTP reads a review, decides, and answers. Only what is no review at all is answered with an
// HTTP error; the API server then does what its failurePolicy says.
func (h StatefulSet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	ctx, cancel := context.WithTimeout(r.Context(), h.Timeout)
	defer cancel()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		h.fail(ctx, w, err, start)
		return
	}
	request, err := decode(body)
	if request == nil {
		h.fail(ctx, w, err, start)
		return
	}
	reason, response := h.judge(ctx, request, err)
	text, err := reply(response)
	if err != nil {
		h.fail(ctx, w, err, start)
		return
	}
	h.done(ctx, request, reason, start)
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // a client that hung up is told nothing
}

func (h StatefulSet) judge(ctx context.Context, r *request, unreadable error) (Reason, response) {
	if unreadable != nil {
		return ReasonInvalid, invalid(r.UID, unreadable)
	}
	return h.admit(ctx, r)
}

func (h StatefulSet) fail(ctx context.Context, w http.ResponseWriter, err error, start time.Time) {
	code := http.StatusBadRequest
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		code = http.StatusRequestEntityTooLarge
		err = fmt.Errorf("the review is longer than %d bytes", tooLarge.Limit)
	}
	h.done(ctx, &request{}, ReasonInvalid, start)
	http.Error(w, "paceline: "+err.Error(), code)
}

func (h StatefulSet) done(ctx context.Context, r *request, reason Reason, start time.Time) {
	took := time.Since(start)
	if h.Observe != nil {
		h.Observe(reason, took)
	}
	ctrl.LoggerFrom(ctx).V(1).Info("admitted StatefulSet", "namespace", r.Namespace, "node", r.Name,
		"operation", r.Operation, "user", r.UserInfo.Username, "reason", reason, "took", took)
}

func (h StatefulSet) admit(ctx context.Context, r *request) (Reason, response) {
	q, unread, err := h.judged(ctx, r)
	if err != nil {
		return ReasonInvalid, invalid(r.UID, err)
	}
	decision := Decide(q.Facts)
	if decision.Reason == ReasonRefused {
		if unread == nil {
			unread = errors.New("reading its slot Lease failed")
		}
		return h.unreadable(r, unread)
	}
	if q.wishes != nil {
		if decision, err = q.wishes.Apply(decision, r.Object.Metadata.Annotations); err != nil {
			return ReasonInvalid, invalid(r.UID, err)
		}
	}
	text, err := patch(r.Object, decision)
	if err != nil {
		return ReasonInvalid, invalid(r.UID, err)
	}
	warnings := h.warnings(ctx, q, decision)
	if q.Paced && !q.Own && q.Old != nil && h.Later != nil && !bytes.Equal(r.Object.Spec.Template, r.OldObject.Spec.Template) {
		if later := h.Later(ctx, r.Namespace); len(later) > 0 {
			warnings = append(warnings, overwrites(h.Own, later))
		}
	}
	return decision.Reason, allow(r.UID, text, warnings...)
}

// judged reads what the decision depends on. A change of the template passes as "budget off" or as not
// paced only after a live read of the namespace. One that cannot be read (unread says why) is treated like a Lease that
// cannot be: no gate moves, and what may be a paced change is refused.
func (h StatefulSet) judged(ctx context.Context, r *request) (q question, unread, err error) {
	cell, unread := h.Cells.Cell(ctx, r.Namespace)
	if unread == nil {
		q, err = h.question(ctx, r, cell)
		if err != nil || !q.mayDependOn(cell, r) {
			return q, nil, err
		}
		cached := cell
		if cell, unread = h.Cells.CellLive(ctx, r.Namespace); unread == nil && cell == cached {
			return q, nil, nil
		}
	}
	if unread == nil {
		q, err = h.question(ctx, r, cell)
		return q, nil, err
	}
	unread = fmt.Errorf("reading namespace %s: %w", r.Namespace, unread)
	q, err = h.question(ctx, r, node.Cell{Pace: node.PaceTemplate})
	q.Paced, q.Slot = true, ProofUnknown
	return q, unread, err
}

func (h StatefulSet) unreadable(r *request, err error) (Reason, response) {
	return ReasonRefused, refuse(r.UID, fmt.Sprintf(
		"paceline: StatefulSet %s: cannot tell whether it may roll: %v; nothing was changed, try again", r.Name, err))
}

// question is what a request asks, and all that its answer depends on.
type question struct {
	Facts
	// wishes are the templates; nil where nothing is or may be pinned.
	wishes *Wishes
}

// question reads what the decision depends on; the Lease live, and only where a slot annotation is.
func (h StatefulSet) question(ctx context.Context, r *request, cell node.Cell) (question, error) {
	own := r.UserInfo.Username == h.Account
	owned := r.owned(own)
	q := question{Facts: Facts{
		Owned: owned, Own: own, Pace: cell.Pace, Gate: cell.Gate,
		Paced: cell.Paces() && h.Scope.Includes(r.Object.Metadata.Labels),
	}}
	_, hasCleared := owned[node.AnnotationCleared]
	digest := cell.Pace == node.PaceTemplate || !hasCleared
	stored, asked, err := r.templates(digest)
	if err != nil {
		return question{}, err
	}
	var pinned *node.Paced
	_, deferred := owned[node.AnnotationDeferred]
	if r.OldObject != nil && (deferred || cell.Gate == node.GatePin) {
		if q.wishes, err = r.wishes(own, owned[node.AnnotationDeferred], cell); err != nil {
			return question{}, err
		}
		if deferred {
			stands := stored
			pinned = &stands
			if stored, asked, err = q.wishes.Paced(digest); err != nil {
				return question{}, err
			}
		}
	}
	q.New = r.Object.view(r.Namespace, r.Object.annotations(owned), asked, pinned)
	if r.OldObject != nil {
		old := r.OldObject.view(r.Namespace, r.OldObject.Metadata.Annotations, stored, pinned)
		q.Old = &old
	}
	switch {
	case q.Paced && q.Old != nil:
		q.Slot = prove(ctx, h.Slots, q.New)
	case q.Paced && h.Orphans != nil:
		if q.Orphans, err = h.Orphans.Orphans(ctx, r.Namespace, r.Object.Metadata.Name); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "looking for orphaned pods", "namespace", r.Namespace, "node", r.Name)
		}
	}
	return q, nil
}

// mayDependOn reports a request that passes by what a cache says of the cell: a paced change where nothing
// is paced, or a change of the template that pace images leaves alone: under the pin gate it passes beside the
// images too, and while they wait, and so does what of a whole template waits since the pace was template.
func (f Facts) mayDependOn(cell node.Cell, r *request) bool {
	switch {
	case !f.Paced:
		return f.changesPaced()
	case cell.Pace != node.PaceImages || f.Old == nil:
		return false
	case f.New.Deferred != nil && f.New.Deferred.Whole():
		return true
	}
	return (cell.Gate == node.GatePin || !f.changesPaced()) && !bytes.Equal(r.Object.Spec.Template, r.OldObject.Spec.Template)
}

func (f Facts) changesPaced() bool {
	return f.Old != nil && (f.Old.Gated() || !f.New.Template.Equal(f.Old.Template, f.Pace))
}

// prove reads the Lease that a slot annotation names; nothing is read where there is none.
func prove(ctx context.Context, slots Slots, v node.View) Proof {
	if !v.HasSlot {
		return ProofNone
	}
	if v.Slot == nil || !lease.IsName(v.Slot.Lease) {
		return ProofFalse
	}
	slot, err := slots.Get(ctx, v.Namespace, v.Slot.Lease)
	switch {
	case apierrors.IsNotFound(err):
		return ProofFalse
	case err != nil:
		ctrl.LoggerFrom(ctx).Error(err, "reading slot Lease", "namespace", v.Namespace, "node", v.Name)
		return ProofUnknown
	case slot.Proves(v.Slot, v.Name, v.UID):
		return ProofTrue
	}
	return ProofFalse
}

// maxWarning bounds a warning: some clients cut it at 256 characters.
const maxWarning = 255

// warnings says what waits, behind whom, and how to see it and cancel it: the holders first.
func (h StatefulSet) warnings(ctx context.Context, q question, d Decision) []string {
	if d.Reason != ReasonHeld || q.Own || h.Lines == nil {
		return nil
	}
	var warnings []string
	if d.Freshly {
		warnings = append(warnings, h.waits(ctx, q.New, d.Pin))
	}
	if q.wishes != nil && q.New.Strategy == node.RollingUpdate && q.wishes.restarts(d) {
		warnings = append(warnings, fit("paceline: "+q.New.Name+": only the images wait (pin gate): "+
			"other fields of the template apply now, and its pods restart for them"))
	}
	return warnings
}

func (h StatefulSet) waits(ctx context.Context, v node.View, pinned bool) string {
	cancel := "; to cancel, set the image back"
	if pinned { // the image is back already, as far as the object says: some writers then send nothing
		cancel = "; to cancel, kubectl apply the old image"
	}
	if v.PausedByHand {
		return fit("paceline: "+v.Name+" is paused (annotation "+node.AnnotationPaused+"): the change waits, not queued, until that is removed", cancel)
	}
	see := "; see: kubectl get leases -n " + v.Namespace
	line, err := h.Lines.Line(ctx, v.Namespace)
	if err != nil {
		return fit("paceline: "+v.Name+" waits for a slot", see)
	}
	return fit("paceline: "+v.Name+" waits, "+line.Behind(v.Name), see, cancel)
}

// fit adds to text what fits as a whole; a text that is too long by itself is cut.
func fit(text string, more ...string) string {
	if len(text) > maxWarning {
		return text[:maxWarning-len("...")] + "..."
	}
	for _, part := range more {
		if len(text)+len(part) > maxWarning {
			break
		}
		text += part
	}
	return text
}
