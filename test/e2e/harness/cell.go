package harness

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/kubernetes"

	"github.com/paceline/paceline/test/checker"
)

// CellOptions say what a cell consists of.
type CellOptions struct {
	// Budget is the annotation's text; empty leaves it to the configuration file.
	Budget string
	// Unpaced leaves out the label that makes the namespace a cell.
	Unpaced bool
	// Annotations of the namespace.
	Annotations map[string]string

	// Nodes is how many StatefulSets there are: rpc-00 and so on. Default 4.
	Nodes int
	// Replicas of each. Default 1.
	Replicas int32
	// Strategy of each. Default RollingUpdate.
	Strategy appsv1.StatefulSetUpdateStrategyType
	// Image of each. Default app:v1.
	Image string
	// ReadyAfter is how long each pod takes until it is ready. Default: the rig's.
	ReadyAfter time.Duration
	// Change is applied to each set before it is created.
	Change func(i int, set *appsv1.StatefulSet)
	// Empty waits for nothing: the nodes may never become ready.
	Empty bool
}

// Cell is a namespace that belongs to one scenario.
type Cell struct {
	Rig     *Rig
	Name    string
	Nodes   []string
	Client  kubernetes.Interface
	Options CellOptions

	checker *checker.Checker
}

// NewCell creates a cell, waits until its nodes are ready (and, if it is paced, known to Paceline) and
// starts to check it. The namespace is deleted at the end; a failed scenario prints what stands in it.
func (r *Rig) NewCell(t testing.TB, options CellOptions) *Cell {
	t.Helper()
	options = options.withDefaults()
	c := &Cell{Rig: r, Name: cellName(t), Client: r.Client(), Options: options}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: c.Name, Labels: map[string]string{}, Annotations: map[string]string{},
	}}
	maps.Copy(namespace.Annotations, options.Annotations)
	if !options.Unpaced {
		namespace.Labels[LabelPacing] = "enabled"
	}
	if options.Budget != "" {
		namespace.Annotations[AnnotationBudget] = options.Budget
	}
	_, err := c.Client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { c.remove(t) })
	for i := range options.Nodes {
		c.AddNode(t, i)
	}
	if !options.Empty {
		c.WaitImage(t, options.Image)
		c.waitKnown(t)
	}
	c.checker, err = checker.Start(context.WithoutCancel(t.Context()), r.AdminConfig(), c.Name)
	require.NoError(t, err)
	return c
}

func (o CellOptions) withDefaults() CellOptions {
	if o.Nodes == 0 {
		o.Nodes = 4
	}
	if o.Replicas == 0 {
		o.Replicas = 1
	}
	if o.Strategy == "" {
		o.Strategy = appsv1.RollingUpdateStatefulSetStrategyType
	}
	if o.Image == "" {
		o.Image = "app:v1"
	}
	return o
}

// AddNode creates node number i and returns its name.
func (c *Cell) AddNode(t testing.TB, i int) string {
	t.Helper()
	set := c.Set(i)
	c.CreateNode(t, set)
	return set.Name
}

// CreateNode creates a node that Set made and a scenario changed.
func (c *Cell) CreateNode(t testing.TB, set *appsv1.StatefulSet) {
	t.Helper()
	_, err := c.Client.AppsV1().StatefulSets(c.Name).Create(t.Context(), set, metav1.CreateOptions{})
	require.NoError(t, err)
	c.Nodes = append(c.Nodes, set.Name)
}

// Set is node number i as it is created.
func (c *Cell) Set(i int) *appsv1.StatefulSet {
	name := fmt.Sprintf("rpc-%02d", i)
	labels := map[string]string{"app": name}
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: c.Name, Labels: map[string]string{"app": name}},
		Spec: appsv1.StatefulSetSpec{
			Replicas:       &c.Options.Replicas,
			ServiceName:    "rpc",
			Selector:       &metav1.LabelSelector{MatchLabels: labels},
			UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: c.Options.Strategy},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: Container, Image: c.Options.Image}}},
			},
		},
	}
	if c.Options.ReadyAfter != 0 {
		set.Spec.Template.Annotations[AnnotationReadyAfter] = c.Options.ReadyAfter.String()
	}
	if c.Options.Change != nil {
		c.Options.Change(i, set)
	}
	return set.DeepCopy()
}

// cellName is made of the test's name, so that a log line leads to its scenario.
func cellName(t testing.TB) string {
	name := regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(strings.TrimPrefix(t.Name(), "Test")), "-")
	return strings.Trim(name[:min(len(name), 50)], "-") + "-" + utilrand.String(5)
}

func (c *Cell) remove(t testing.TB) {
	ctx := context.WithoutCancel(t.Context())
	if t.Failed() {
		c.dump(ctx, t)
	}
	if c.checker != nil {
		c.checker.Stop()
	}
	if err := c.Client.CoreV1().Namespaces().Delete(ctx, c.Name, metav1.DeleteOptions{}); err != nil {
		t.Errorf("deleting %s: %v", c.Name, err)
	}
}

func (c *Cell) dump(ctx context.Context, t testing.TB) {
	for _, args := range [][]string{
		{"get", "statefulsets,pods,leases", "-n", c.Name, "-o", "wide"},
		{"get", "statefulsets", "-n", c.Name, "-o", "yaml"},
		{"get", "leases", "-n", c.Name, "-o", "yaml"},
		{"get", "events", "-n", c.Name, "--sort-by=.metadata.creationTimestamp"},
	} {
		output, err := c.Rig.Kubectl(ctx, "", args...)
		t.Logf("kubectl %s\n%s%s (%v)", strings.Join(args, " "), output.Stdout, output.Stderr, err)
	}
}
