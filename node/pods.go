package node

import (
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Pod is what Paceline knows of one pod of a node.
type Pod struct {
	Name string
	UID  types.UID
	// Ordinal is the number that ends its name, -1 where there is none.
	Ordinal int
	// Revision is its controller-revision-hash.
	Revision string
	// Ready reports the condition Ready, UnreadySince when it was lost, or never won.
	Ready        bool
	UnreadySince time.Time
	// Deleting reports a deletion timestamp.
	Deleting bool
}

// PodOf reads a pod. False: no StatefulSet owns it.
func PodOf(pod *corev1.Pod) (Pod, types.UID, bool) {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || owner.Kind != "StatefulSet" {
		return Pod{}, "", false
	}
	out := Pod{
		Name: pod.Name, UID: pod.UID, Ordinal: ordinal(pod.Name), Revision: pod.Labels[LabelRevision],
		Deleting: pod.DeletionTimestamp != nil,
	}
	out.UnreadySince = pod.CreationTimestamp.Time
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			out.Ready = condition.Status == corev1.ConditionTrue
			out.UnreadySince = condition.LastTransitionTime.Time
		}
	}
	return out, owner.UID, true
}

func ordinal(name string) int {
	number, err := strconv.Atoi(name[strings.LastIndexByte(name, '-')+1:])
	if err != nil {
		return -1
	}
	return number
}

// Fleet is the pods of one node, highest ordinal first.
type Fleet []Pod

// Sort puts the highest ordinal first: the order in which pods are replaced.
func (f Fleet) Sort() { slices.SortFunc(f, func(a, b Pod) int { return b.Ordinal - a.Ordinal }) }

// From returns the pods from this ordinal up.
func (f Fleet) From(ordinal int32) Fleet {
	var out Fleet
	for _, pod := range f {
		if pod.Ordinal >= int(ordinal) {
			out = append(out, pod)
		}
	}
	return out
}

// InFlight reports a node that nothing holds and whose pods are being replaced for a paced change:
// some run other paced fields than its template. It is judged by the pods' own revisions, never by
// status.currentRevision. On OnDelete nothing restarts by itself: a node none of whose pods has begun
// is not in flight. Ordinals below the writer's own partition do not count.
func (v View) InFlight(pods Fleet, revisions Revisions, pace Pace) bool {
	if v.Deleting || v.Replicas == 0 {
		return false
	}
	if v.Closed(pace) {
		return v.Strategy == RollingUpdate && v.HasDeferred && v.Pinned != nil && v.others(*v.Pinned, pods, revisions, pace) > 0
	}
	old := v.outdated(pods, revisions, pace)
	if v.Strategy == OnDelete && old == int(v.Replicas) {
		return false
	}
	return old > 0 || v.Drift(pace)
}

// Outdated reports an OnDelete node that nothing holds and some of whose pods run other paced fields
// than its template: somebody has to replace them, whatever cleared says of it, or although nothing does.
func (v View) Outdated(pods Fleet, revisions Revisions, pace Pace) bool {
	return v.Strategy == OnDelete && !v.Gated() && !v.Deleting && v.outdated(pods, revisions, pace) > 0
}

func (v View) outdated(pods Fleet, revisions Revisions, pace Pace) int {
	return v.others(v.Template, pods, revisions, pace)
}

// others counts the pods that run other paced fields than these.
func (v View) others(template Paced, pods Fleet, revisions Revisions, pace Pace) int {
	count := 0
	for _, pod := range pods.From(v.FirstUpdated()) {
		if paced, known := revisions.Of(pod.Revision, v.Cleared); known && !paced.Equal(template, pace) {
			count++
		}
	}
	return count
}
