package checker

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

func sources(client kubernetes.Interface, namespace string) []source {
	sets := client.AppsV1().StatefulSets(namespace)
	pods := client.CoreV1().Pods(namespace)
	leases := client.CoordinationV1().Leases(namespace)
	return []source{
		{
			kind:  "statefulset/",
			list:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return sets.List(ctx, o) },
			watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return sets.Watch(ctx, o) },
			read:  readSet,
		},
		{
			kind:  "pod/",
			list:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return pods.List(ctx, o) },
			watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return pods.Watch(ctx, o) },
			read:  readPod,
		},
		{
			kind:  "lease/",
			list:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return leases.List(ctx, o) },
			watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return leases.Watch(ctx, o) },
			read:  readLease,
		},
	}
}

// listAll lists what stands, and at which resourceVersion.
func listAll(ctx context.Context, s source) ([]runtime.Object, uint64, error) {
	list, err := s.list(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, 0, fmt.Errorf("listing %s: %w", s.kind, err)
	}
	about, err := meta.ListAccessor(list)
	if err != nil {
		return nil, 0, fmt.Errorf("reading a list of %s: %w", s.kind, err)
	}
	rv, err := strconv.ParseUint(about.GetResourceVersion(), 10, 64)
	if err != nil {
		return nil, 0, fmt.Errorf("reading the resourceVersion of a list of %s: %w", s.kind, err)
	}
	objects, err := meta.ExtractList(list)
	if err != nil {
		return nil, 0, fmt.Errorf("reading a list of %s: %w", s.kind, err)
	}
	return objects, rv, nil
}

// version is an object's resourceVersion. One that is no number becomes 0, which fits no list.
func version(o metav1.Object) uint64 {
	n, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func readSet(o runtime.Object) (Event, bool) {
	set, ok := o.(*appsv1.StatefulSet)
	if !ok {
		return Event{}, false
	}
	out := &Set{Name: set.Name, UID: string(set.UID), Replicas: 1, Deleting: set.DeletionTimestamp != nil}
	if set.Spec.Replicas != nil {
		out.Replicas = int(*set.Spec.Replicas)
	}
	if set.Spec.Ordinals != nil {
		out.Start = int(set.Spec.Ordinals.Start)
	}
	return Event{Version: version(set), Set: out}, true
}

func readPod(o runtime.Object) (Event, bool) {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return Event{}, false
	}
	out := &Pod{
		Name: pod.Name, UID: string(pod.UID), Images: images(pod.Spec),
		Revision: pod.Labels[appsv1.ControllerRevisionHashLabelKey],
	}
	if owner := metav1.GetControllerOf(pod); owner != nil && owner.Kind == "StatefulSet" {
		out.Node = owner.Name
	}
	cut := strings.LastIndexByte(pod.Name, '-')
	ordinal, err := strconv.Atoi(pod.Name[cut+1:])
	if err != nil {
		return Event{}, false // no pod of a StatefulSet
	}
	out.Ordinal = ordinal
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			out.Ready = condition.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil
		}
	}
	return Event{Version: version(pod), Pod: out}, true
}

func images(spec corev1.PodSpec) string {
	var all []string
	for _, container := range spec.InitContainers {
		all = append(all, container.Image)
	}
	for _, container := range spec.Containers {
		all = append(all, container.Image)
	}
	return strings.Join(all, ",")
}

func readLease(o runtime.Object) (Event, bool) {
	lease, ok := o.(*coordinationv1.Lease)
	if !ok || !regexp.MustCompile(`^paceline-slot-[0-9]+$`).MatchString(lease.Name) {
		return Event{}, false
	}
	out := &Lease{Name: lease.Name, UID: string(lease.UID)}
	if lease.Spec.HolderIdentity != nil {
		out.Holder = *lease.Spec.HolderIdentity
	}
	return Event{Version: version(lease), Lease: out}, true
}
