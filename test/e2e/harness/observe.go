package harness

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/paceline/paceline/test/checker"
)

// WaitFor is Rig.WaitFor.
func (c *Cell) WaitFor(t testing.TB, what string, attempt func(ctx context.Context) error) {
	t.Helper()
	c.Rig.WaitFor(t, what, attempt)
}

// Node reads a node.
func (c *Cell) Node(t testing.TB, name string) *appsv1.StatefulSet {
	t.Helper()
	set, err := c.Client.AppsV1().StatefulSets(c.Name).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	return set
}

// Pods reads a node's pods, by name.
func (c *Cell) Pods(t testing.TB, node string) []corev1.Pod {
	t.Helper()
	list, err := c.Client.CoreV1().Pods(c.Name).List(t.Context(), metav1.ListOptions{LabelSelector: "app=" + node})
	require.NoError(t, err)
	return list.Items
}

// Holders reads which nodes hold a slot, sorted.
func (c *Cell) Holders(ctx context.Context) ([]string, error) {
	leases, err := c.Client.CoordinationV1().Leases(c.Name).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var holders []string
	for _, lease := range leases.Items {
		if holder := holderOf(lease); holder != "" {
			holders = append(holders, holder)
		}
	}
	slices.Sort(holders)
	return holders, nil
}

func holderOf(lease coordinationv1.Lease) string {
	if !strings.HasPrefix(lease.Name, "paceline-slot-") || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// WaitHolders waits until exactly these nodes hold a slot.
func (c *Cell) WaitHolders(t testing.TB, want ...string) {
	t.Helper()
	slices.Sort(want)
	c.WaitFor(t, fmt.Sprintf("the holders %v", want), func(ctx context.Context) error {
		got, err := c.Holders(ctx)
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("they are %v", got)
		}
		return err
	})
}

// WaitHeld waits until the named nodes wait for a slot.
func (c *Cell) WaitHeld(t testing.TB, nodes ...string) {
	t.Helper()
	c.waitNodes(t, "waiting for a slot", nodes, func(set appsv1.StatefulSet) error {
		if set.Annotations[AnnotationHeld] == "" {
			return fmt.Errorf("%s is not held", set.Name)
		}
		return nil
	})
}

// waitKnown waits until Paceline has taken note of what every node runs; only then does a node count.
func (c *Cell) waitKnown(t testing.TB) {
	t.Helper()
	if c.Options.Unpaced || c.Rig.Controller == nil {
		return
	}
	c.waitNodes(t, "known to Paceline", nil, func(set appsv1.StatefulSet) error {
		if set.Annotations[AnnotationCleared] == "" && (set.Spec.Replicas == nil || *set.Spec.Replicas > 0) {
			return fmt.Errorf("%s carries no %s", set.Name, AnnotationCleared)
		}
		return nil
	})
}

func (c *Cell) waitNodes(t testing.TB, what string, nodes []string, check func(appsv1.StatefulSet) error) {
	t.Helper()
	nodes = c.orAll(nodes)
	c.WaitFor(t, fmt.Sprintf("%v to be %s", nodes, what), func(ctx context.Context) error {
		sets, err := c.Client.AppsV1().StatefulSets(c.Name).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		found := 0
		for _, set := range sets.Items {
			if !slices.Contains(nodes, set.Name) {
				continue
			}
			found++
			if err := check(set); err != nil {
				return err
			}
		}
		if found != len(nodes) {
			return fmt.Errorf("%d of %d nodes exist", found, len(nodes))
		}
		return nil
	})
}

// WaitImage waits until every pod that the named nodes ask for is ready on an image, no other pod of
// theirs stands, and they hold no slot; without names, of all nodes.
func (c *Cell) WaitImage(t testing.TB, image string, nodes ...string) {
	t.Helper()
	nodes = c.orAll(nodes)
	replicas := map[string]int{}
	c.WaitFor(t, fmt.Sprintf("%v to run %s", nodes, image), func(ctx context.Context) error {
		sets, err := c.Client.AppsV1().StatefulSets(c.Name).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, set := range sets.Items {
			replicas[set.Name] = int(*set.Spec.Replicas)
		}
		pods, err := c.Client.CoreV1().Pods(c.Name).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		ready := map[string]int{}
		for _, pod := range pods.Items {
			node := pod.Labels["app"]
			if !slices.Contains(nodes, node) {
				continue
			}
			if got := pod.Spec.Containers[0].Image; got != image || !podReady(pod) {
				return fmt.Errorf("%s runs %s, ready %t", pod.Name, got, podReady(pod))
			}
			ready[node]++
		}
		holders, err := c.Holders(ctx)
		if err != nil {
			return err
		}
		for _, node := range nodes {
			if ready[node] != replicas[node] {
				return fmt.Errorf("%s has %d of %d pods", node, ready[node], replicas[node])
			}
			if slices.Contains(holders, node) {
				return fmt.Errorf("%s still holds a slot", node)
			}
		}
		return nil
	})
}

func podReady(pod corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil
		}
	}
	return false
}

// Report is what the checker has seen so far.
func (c *Cell) Report() checker.Report { return c.checker.Report() }

// Finish waits until the checker has seen everything up to now, judges it and returns it.
func (c *Cell) Finish(t testing.TB, want checker.Expect) checker.Report {
	t.Helper()
	report := c.checker.Finish(context.WithoutCancel(t.Context()))
	require.NoError(t, report.Verdict(want))
	return report
}

// AssertMaxDown is Finish for a roll: at most this many nodes were down at once, and at least one
// pod was replaced.
func (c *Cell) AssertMaxDown(t testing.TB, most int) checker.Report {
	t.Helper()
	return c.Finish(t, checker.Expect{MaxDown: most})
}

// WaitRolled waits until every pod of every node is ready with a container of this image, and no
// node holds a slot.
func (c *Cell) WaitRolled(t testing.TB, image string) {
	t.Helper()
	c.WaitFor(t, "all pods to run "+image, func(ctx context.Context) error {
		pods, err := c.Client.CoreV1().Pods(c.Name).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, pod := range pods.Items {
			has := slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Image == image })
			if !has || !podReady(pod) {
				return fmt.Errorf("%s has it: %t, ready: %t", pod.Name, has, podReady(pod))
			}
		}
		holders, err := c.Holders(ctx)
		if err == nil && len(holders) > 0 {
			err = fmt.Errorf("%v still hold slots", holders)
		}
		return err
	})
}
