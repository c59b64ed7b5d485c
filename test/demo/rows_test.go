package main

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func aSet(name, image string, annotations ...string) appsv1.StatefulSet {
	set := *newNode(name)
	set.Spec.Template.Spec.Containers[0].Image = image
	set.Annotations = map[string]string{}
	for _, key := range annotations {
		set.Annotations[key] = "{}"
	}
	return set
}

func aPod(node, image string, isReady bool) corev1.Pod {
	status := corev1.ConditionFalse
	if isReady {
		status = corev1.ConditionTrue
	}
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: node + "-0"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: container, Image: image}}},
		Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}},
	}
}

func aSlot(name, holder string) coordinationv1.Lease {
	return coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder},
	}
}

func TestRowSaysWhereANodeStands(t *testing.T) {
	deleted := aPod("a", "rpc:v1", true)
	deleted.DeletionTimestamp = &metav1.Time{}
	for name, c := range map[string]struct {
		set  appsv1.StatefulSet
		pods []corev1.Pod
		slot []coordinationv1.Lease
		want row
	}{
		"ready": {
			set: aSet("a", "rpc:v1", annotationCleared), pods: []corev1.Pod{aPod("a", "rpc:v1", true)},
			slot: []coordinationv1.Lease{aSlot("paceline-slot-0", "")},
			want: row{node: "a", wanted: "rpc:v1", running: "rpc:v1", state: ready, known: true},
		},
		"held and ready: waiting, behind nobody": {
			set: aSet("a", "rpc:v2", annotationHeld), pods: []corev1.Pod{aPod("a", "rpc:v1", true)},
			want: row{node: "a", wanted: "rpc:v2", running: "rpc:v1", state: waiting},
		},
		"a holder rolls": {
			set: aSet("a", "rpc:v2", annotationHeld), pods: []corev1.Pod{aPod("a", "rpc:v1", true)},
			slot: []coordinationv1.Lease{aSlot("paceline-slot-2", "a")},
			want: row{node: "a", wanted: "rpc:v2", running: "rpc:v1", state: rolling, slot: "paceline-slot-2"},
		},
		"not ready without a slot: down": {
			set: aSet("a", "rpc:v2"), pods: []corev1.Pod{aPod("a", "rpc:v2", false)},
			want: row{node: "a", wanted: "rpc:v2", running: "rpc:v2", state: down},
		},
		"a pod that is being deleted is down": {
			set: aSet("a", "rpc:v2"), pods: []corev1.Pod{deleted},
			want: row{node: "a", wanted: "rpc:v2", running: "rpc:v1", state: down},
		},
		"no pod: down": {
			set: aSet("a", "rpc:v2"), want: row{node: "a", wanted: "rpc:v2", state: down},
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, []row{c.want}, makeRows([]appsv1.StatefulSet{c.set}, c.pods, c.slot))
		})
	}
}

func TestAWaitingNodeIsBehindTheHoldersAndThoseBeforeItByName(t *testing.T) {
	var sets []appsv1.StatefulSet
	var pods []corev1.Pod
	for _, name := range []string{"d", "b", "a", "c"} {
		sets = append(sets, aSet(name, "rpc:v2", annotationHeld))
		pods = append(pods, aPod(name, "rpc:v1", true))
	}
	rows := makeRows(sets, pods, []coordinationv1.Lease{aSlot("paceline-slot-0", "c"), aSlot("paceline-slot-1", "a")})
	got := map[string][]string{}
	for _, r := range rows {
		got[r.node] = r.behind
	}
	require.Equal(t, map[string][]string{"a": nil, "b": {"a", "c"}, "c": nil, "d": {"a", "c", "b"}}, got)
}

func TestOnlyANodeThatRunsItsWishAndHoldsNothingIsSettled(t *testing.T) {
	require.True(t, row{wanted: "v2", running: "v2", state: ready}.settled())
	require.False(t, row{wanted: "v2", running: "v1", state: ready}.settled())
	require.False(t, row{wanted: "v2", running: "v2", state: rolling}.settled())
	require.False(t, all(row.settled)(nil), "no node at all is not all nodes")
}
