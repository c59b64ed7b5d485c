package controlplane

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// furnish creates what a cluster has before Paceline comes: cluster nodes, Paceline's namespace and
// the viewer's rights.
func (cp *ControlPlane) furnish(ctx context.Context, clusterNodes int) error {
	for i := range clusterNodes {
		if err := cp.addClusterNode(ctx, fmt.Sprintf("cluster-node-%d", i)); err != nil {
			return err
		}
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}}
	if _, err := cp.client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating namespace %s: %w", Namespace, err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "rig-viewer"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "viewer"}},
	}
	if _, err := cp.client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("giving the viewer its rights: %w", err)
	}
	return nil
}

// addClusterNode creates a ready cluster node. The API server taints each new one as not ready, and
// here no controller would take that away.
func (cp *ControlPlane) addClusterNode(ctx context.Context, name string) error {
	nodes := cp.client.CoreV1().Nodes()
	node, err := nodes.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name:   name,
		Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64"},
	}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating cluster node %s: %w", name, err)
	}
	node.Spec.Taints = nil
	if node, err = nodes.Update(ctx, node, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("removing the taint of cluster node %s: %w", name, err)
	}
	room := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("10000"),
		corev1.ResourceMemory:           resource.MustParse("100Ti"),
		corev1.ResourceEphemeralStorage: resource.MustParse("100Ti"),
		corev1.ResourcePods:             resource.MustParse("10000"),
	}
	now := metav1.Now()
	node.Status.Capacity, node.Status.Allocatable = room, room
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.1.0.1"}}
	node.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady",
		LastHeartbeatTime: now, LastTransitionTime: now,
	}}
	if _, err := nodes.UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("making cluster node %s ready: %w", name, err)
	}
	return nil
}

// probe sees one pod from its creation to Running: admission, scheduler and kubelets work.
func (cp *ControlPlane) probe(ctx context.Context) error {
	pods := cp.client.CoreV1().Pods(metav1.NamespaceDefault)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "rig-probe"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "probe", Image: "probe:v1"}}},
	}
	err := cp.poll(ctx, "a pod to be created", func() error {
		_, err := pods.Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	err = cp.poll(ctx, "a pod to run", func() error {
		now, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		if err == nil && now.Status.Phase != corev1.PodRunning {
			err = fmt.Errorf("it is %s on cluster node %q", now.Status.Phase, now.Spec.NodeName)
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := pods.Delete(ctx, pod.Name, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("deleting the probe: %w", err)
	}
	return nil
}
