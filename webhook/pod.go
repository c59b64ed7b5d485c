package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/paceline/paceline/node"
)

// PodPath is where the pod webhook is served.
const PodPath = "/mutate-pod"

// Sets reads what a new pod belongs to.
type Sets interface {
	// SetLive reads a StatefulSet from the API server.
	SetLive(ctx context.Context, namespace, name string) (*appsv1.StatefulSet, error)
	// LivePods reads the pods of a StatefulSet from the API server.
	LivePods(ctx context.Context, set *appsv1.StatefulSet) (node.Fleet, error)
	// LiveRevision reads a ControllerRevision from the API server, whole.
	LiveRevision(ctx context.Context, namespace, name string) (*appsv1.ControllerRevision, error)
}

// Pod serves the admission of pods over HTTP. It refuses none: what cannot be read or judged passes as it was
// asked for.
type Pod struct {
	// Scope says which StatefulSets are nodes.
	Scope node.Scope
	Cells Cells
	Slots Slots
	Sets  Sets
	// Timeout is this side's deadline for one request; it stays under the API server's.
	Timeout time.Duration
	// Observe is told of each request's end, for metrics; nil: nobody is.
	Observe func(reason Reason, took time.Duration)
}

// podReview is an AdmissionReview of a pod's creation. The pod stays raw until something has to change it.
type podReview struct {
	Request *struct {
		UID       types.UID       `json:"uid"`
		Namespace string          `json:"namespace"`
		Object    json.RawMessage `json:"object"`
	} `json:"request"`
}

type newPod struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
}

// ServeHTTP reads a review, decides, and answers. Only what is no review at all is answered with an
// HTTP error; the API server then lets the pod pass.
func (h Pod) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	ctx, cancel := context.WithTimeout(r.Context(), h.Timeout)
	defer cancel()
	var review podReview
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err == nil {
		err = json.Unmarshal(body, &review)
	}
	if err == nil && review.Request == nil {
		err = errNotReview
	}
	if err != nil {
		h.done(ctx, newPod{}, ReasonInvalid, start)
		code := http.StatusBadRequest
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			code = http.StatusRequestEntityTooLarge
		}
		http.Error(w, "paceline: reading the review: "+err.Error(), code)
		return
	}
	pod := newPod{}
	reason, text := ReasonUnread, []byte(nil)
	if err = json.Unmarshal(review.Request.Object, &pod); err == nil {
		pod.Metadata.Namespace = review.Request.Namespace
		reason, text, err = h.admit(ctx, pod, review.Request.Object)
	}
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "a pod comes as it was asked for", "namespace", review.Request.Namespace, "pod", pod.Metadata.Name)
		reason, text = ReasonUnread, nil
	}
	h.done(ctx, pod, reason, start)
	answer, err := reply(allow(review.Request.UID, text))
	if err != nil {
		http.Error(w, "paceline: writing the answer: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer) // a client that hung up is told nothing
}

func (h Pod) done(ctx context.Context, pod newPod, reason Reason, start time.Time) {
	took := time.Since(start)
	if h.Observe != nil {
		h.Observe(reason, took)
	}
	ctrl.LoggerFrom(ctx).V(1).Info("admitted Pod", "namespace", pod.Metadata.Namespace, "pod", pod.Metadata.Name,
		"reason", reason, "took", took)
}

// admit says at which revision a pod comes, and what patch makes it so. What it depends on is read live: a cache
// that is behind would let a pod come at what its node waits for.
func (h Pod) admit(ctx context.Context, pod newPod, raw []byte) (Reason, []byte, error) {
	owner := metav1.GetControllerOfNoCopy(&pod.Metadata)
	if owner == nil || owner.Kind != "StatefulSet" || pod.Metadata.Labels[node.LabelRevision] == "" {
		return ReasonPass, nil, nil
	}
	set, err := h.Sets.SetLive(ctx, pod.Metadata.Namespace, owner.Name)
	if err != nil {
		return "", nil, fmt.Errorf("reading StatefulSet %s: %w", owner.Name, err)
	}
	if _, held := set.Annotations[node.AnnotationHeld]; !held || set.UID != owner.UID {
		return ReasonPass, nil, nil
	}
	recreated, err := h.recreated(ctx, set, pod)
	if err != nil {
		return "", nil, err
	}
	at, reason := recreated.At()
	if at == "" {
		return reason, nil, nil
	}
	text, err := h.patch(ctx, pod, raw, at)
	return reason, text, err
}

func (h Pod) recreated(ctx context.Context, set *appsv1.StatefulSet, pod newPod) (Recreated, error) {
	view, err := node.ViewOf(set, nil)
	if err != nil {
		return Recreated{}, err
	}
	cell, err := h.Cells.CellLive(ctx, set.Namespace)
	if err != nil {
		return Recreated{}, fmt.Errorf("reading namespace %s: %w", set.Namespace, err)
	}
	pods, err := h.Sets.LivePods(ctx, set)
	if err != nil {
		return Recreated{}, err
	}
	return Recreated{
		Paced: cell.Paces() && h.Scope.Includes(set.Labels), Node: view,
		Slot: prove(ctx, h.Slots, view), Revision: pod.Metadata.Labels[node.LabelRevision], Pods: pods,
	}, nil
}

// patch makes the JSON patch that turns the pod into one of another revision.
func (h Pod) patch(ctx context.Context, pod newPod, raw []byte, at string) ([]byte, error) {
	made, err := h.Sets.LiveRevision(ctx, pod.Metadata.Namespace, pod.Metadata.Labels[node.LabelRevision])
	if err != nil {
		return nil, fmt.Errorf("reading the revision that the pod was made of: %w", err)
	}
	ran, err := h.Sets.LiveRevision(ctx, pod.Metadata.Namespace, at)
	if err != nil {
		return nil, fmt.Errorf("reading the revision that the node runs: %w", err)
	}
	rendered, err := render(raw, made, ran)
	if err != nil {
		return nil, err
	}
	metadata := child(rendered, "metadata")
	operations := []operation{
		{Op: "add", Path: "/metadata/labels", Value: metadata["labels"]},
		{Op: "add", Path: "/spec", Value: rendered["spec"]},
	}
	switch annotations := child(rendered, "metadata")["annotations"]; {
	case annotations != nil:
		operations = append(operations, operation{Op: "add", Path: "/metadata/annotations", Value: annotations})
	case pod.Metadata.Annotations != nil:
		operations = append(operations, operation{Op: "remove", Path: "/metadata/annotations"})
	}
	return json.Marshal(operations)
}
