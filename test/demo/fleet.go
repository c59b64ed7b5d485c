package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	cell      = "demo"
	nodes     = 12
	percent   = 25
	container = "app"
	// readyAfter is how long a new pod takes until it is ready.
	readyAfter = 3 * time.Second

	labelPacing       = "paceline.io/pacing"
	annotationBudget  = "paceline.io/drift-update-budget-percent"
	annotationHeld    = "paceline.io/held"
	annotationCleared = "paceline.io/cleared"
)

func nodeName(i int) string { return fmt.Sprintf("rpc-%02d", i) }

// image is the image of version n.
func image(n int) string { return fmt.Sprintf("rpc:v%d", n) }

// createFleet creates the cell, with a budget of 0, and its nodes.
func (d *demo) createFleet(ctx context.Context) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: cell, Labels: map[string]string{labelPacing: "enabled"}, Annotations: map[string]string{annotationBudget: "0"},
	}}
	if _, err := d.Client().CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the cell: %w", err)
	}
	for i := range nodes {
		if _, err := d.Client().AppsV1().StatefulSets(cell).Create(ctx, newNode(nodeName(i)), metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating node %s: %w", nodeName(i), err)
		}
	}
	return nil
}

func newNode(name string) *appsv1.StatefulSet {
	labels := map[string]string{"app": name}
	replicas := int32(1)
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, ServiceName: "rpc", Selector: &metav1.LabelSelector{MatchLabels: labels},
			UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: container, Image: image(1)}}},
			},
		},
	}
}

// halfOnDelete makes every second node OnDelete, so that each wave has both kinds.
func (d *demo) halfOnDelete(ctx context.Context) error {
	patch := []byte(`{"spec":{"updateStrategy":{"type":"OnDelete","rollingUpdate":null}}}`)
	for i := 1; i < nodes; i += 2 {
		_, err := d.Client().AppsV1().StatefulSets(cell).Patch(ctx, nodeName(i), types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			return fmt.Errorf("making node %s OnDelete: %w", nodeName(i), err)
		}
	}
	return nil
}

// setBudget gives the cell its budget, as a person does.
func (d *demo) setBudget(ctx context.Context, percent int) error {
	return d.kubectl(ctx, "annotate", "namespace", cell, "--overwrite", annotationBudget+"="+strconv.Itoa(percent))
}

// bump asks for an image on all nodes, or on those that are named.
func (d *demo) bump(ctx context.Context, image string, names ...string) error {
	if len(names) == 0 {
		names = []string{"--all"}
	}
	args := append([]string{"-n", cell, "set", "image", "statefulset"}, names...)
	return d.kubectl(ctx, append(args, container+"="+image)...)
}

// kubectl runs a command and shows it with the warnings that it gave.
func (d *demo) kubectl(ctx context.Context, args ...string) error {
	d.log.echo(append([]string{"kubectl"}, args...)...)
	output, err := d.Kubectl(ctx, "", args...)
	d.log.warnings(output.Stderr)
	return err
}
