package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// state is where a node stands.
type state string

const (
	ready   state = "ready"
	waiting state = "waiting" // for a slot
	rolling state = "rolling" // holds a slot
	down    state = "down"    // without a slot
)

// row is one node in the table.
type row struct {
	node, wanted, running string
	state                 state
	slot                  string   // the Lease that the node holds
	behind                []string // the holders, then the nodes that wait before it
	known                 bool     // Paceline has taken note of what it runs
}

// settled: the node runs what is asked for, is ready and holds nothing.
func (r row) settled() bool { return r.state == ready && r.running == r.wanted }

// readRows reads the fleet as everyone can see it.
func readRows(ctx context.Context, client kubernetes.Interface) ([]row, error) {
	sets, err := client.AppsV1().StatefulSets(cell).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing the nodes: %w", err)
	}
	pods, err := client.CoreV1().Pods(cell).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing the pods: %w", err)
	}
	leases, err := client.CoordinationV1().Leases(cell).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing the slots: %w", err)
	}
	return makeRows(sets.Items, pods.Items, leases.Items), nil
}

// makeRows makes one row for each node, by name. A node has one pod.
func makeRows(sets []appsv1.StatefulSet, pods []corev1.Pod, leases []coordinationv1.Lease) []row {
	slots := map[string]string{} // holder to Lease
	var queue []string
	for _, lease := range leases {
		if holder := lease.Spec.HolderIdentity; holder != nil && *holder != "" {
			slots[*holder] = lease.Name
			queue = append(queue, *holder)
		}
	}
	slices.Sort(queue)
	pod := map[string]corev1.Pod{}
	for _, p := range pods {
		pod[strings.TrimSuffix(p.Name, "-0")] = p
	}
	rows := make([]row, 0, len(sets))
	for _, set := range sets {
		rows = append(rows, makeRow(set, pod[set.Name], slots[set.Name]))
	}
	slices.SortFunc(rows, func(a, b row) int { return cmp.Compare(a.node, b.node) })
	for i := range rows {
		if rows[i].state == waiting {
			rows[i].behind = slices.Clone(queue)
			queue = append(queue, rows[i].node)
		}
	}
	return rows
}

func makeRow(set appsv1.StatefulSet, pod corev1.Pod, slot string) row {
	r := row{
		node: set.Name, wanted: set.Spec.Template.Spec.Containers[0].Image, state: down, slot: slot,
		known: set.Annotations[annotationCleared] != "",
	}
	if len(pod.Spec.Containers) > 0 {
		r.running = pod.Spec.Containers[0].Image
	}
	switch {
	case slot != "":
		r.state = rolling
	case !isReady(pod):
	case set.Annotations[annotationHeld] != "":
		r.state = waiting
	default:
		r.state = ready
	}
	return r
}

func isReady(pod corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
