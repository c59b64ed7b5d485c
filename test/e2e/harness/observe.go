package harness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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
	if c.Options.Unpaced || c.Options.Budget == "0" || c.Rig.Controller == nil {
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
	c.WaitFor(t, fmt.Sprintf("%v to run %s", c.orAll(nodes), image), func(ctx context.Context) error {
		return c.Rolled(ctx, image, nodes...)
	})
}

// Rolled is nil when what WaitImage waits for is there, and says what is missing.
func (c *Cell) Rolled(ctx context.Context, image string, nodes ...string) error {
	nodes = c.orAll(nodes)
	sets, err := c.Client.AppsV1().StatefulSets(c.Name).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	replicas := map[string]int{}
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

// WaitSlots waits until there are this many slot Leases.
func (c *Cell) WaitSlots(t testing.TB, want int) {
	t.Helper()
	c.WaitFor(t, fmt.Sprintf("%d slots", want), func(ctx context.Context) error {
		leases, err := c.Client.CoordinationV1().Leases(c.Name).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		got := 0
		for _, lease := range leases.Items {
			if strings.HasPrefix(lease.Name, "paceline-slot-") {
				got++
			}
		}
		if got != want {
			return fmt.Errorf("there are %d", got)
		}
		return nil
	})
}

// WaitUnmarked waits until no node carries anything that Paceline wrote for pacing it.
func (c *Cell) WaitUnmarked(t testing.TB, nodes ...string) {
	t.Helper()
	c.waitNodes(t, "unmarked", nodes, func(set appsv1.StatefulSet) error {
		for _, key := range []string{AnnotationHeld, AnnotationDeferred, AnnotationSlot, AnnotationCleared} {
			if value := set.Annotations[key]; value != "" {
				return fmt.Errorf("%s carries %s: %s", set.Name, key, value)
			}
		}
		rolling := set.Spec.UpdateStrategy.RollingUpdate
		if rolling != nil && rolling.Partition != nil && *rolling.Partition == HeldPartition {
			return fmt.Errorf("%s is still held by its partition", set.Name)
		}
		return nil
	})
}

// WaitCondition waits until a node has a condition with this reason and a message that contains text.
func (c *Cell) WaitCondition(t testing.TB, node, condition, reason, text string) {
	t.Helper()
	c.waitNodes(t, condition+" "+reason, []string{node}, func(set appsv1.StatefulSet) error {
		got := conditionOf(set, condition)
		if got.Reason != reason || !strings.Contains(got.Message, text) {
			return fmt.Errorf("it is %q, reason %q: %s", got.Status, got.Reason, got.Message)
		}
		return nil
	})
}

// WaitReason waits until every node has a condition with one of these reasons.
func (c *Cell) WaitReason(t testing.TB, condition string, reasons ...string) {
	t.Helper()
	c.waitNodes(t, fmt.Sprintf("%s %v", condition, reasons), nil, func(set appsv1.StatefulSet) error {
		if got := conditionOf(set, condition); !slices.Contains(reasons, got.Reason) {
			return fmt.Errorf("%s says %q", set.Name, got.Reason)
		}
		return nil
	})
}

// conditionOf is the condition of this type; an empty one: there is none.
func conditionOf(set appsv1.StatefulSet, condition string) appsv1.StatefulSetCondition {
	at := slices.IndexFunc(set.Status.Conditions, func(c appsv1.StatefulSetCondition) bool { return string(c.Type) == condition })
	if at < 0 {
		return appsv1.StatefulSetCondition{}
	}
	return set.Status.Conditions[at]
}

// WaitPodImage waits until a pod is ready on an image, with another UID than before where one is given.
func (c *Cell) WaitPodImage(t testing.TB, pod, image string, before types.UID) {
	t.Helper()
	c.WaitFor(t, fmt.Sprintf("%s to run %s", pod, image), func(ctx context.Context) error {
		got, err := c.Client.CoreV1().Pods(c.Name).Get(ctx, pod, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if got.UID == before || !podReady(*got) || got.Spec.Containers[0].Image != image {
			return fmt.Errorf("uid %s, ready %t, image %s", got.UID, podReady(*got), got.Spec.Containers[0].Image)
		}
		return nil
	})
}

// Pod reads a pod.
func (c *Cell) Pod(t testing.TB, name string) corev1.Pod {
	t.Helper()
	pod, err := c.Client.CoreV1().Pods(c.Name).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	return *pod
}

// UID is a pod's UID.
func (c *Cell) UID(t testing.TB, pod string) types.UID {
	t.Helper()
	return c.Pod(t, pod).UID
}

// WaitEvent waits for an Event with this reason about a node, and with a note that contains text.
func (c *Cell) WaitEvent(t testing.TB, node, reason, text string) {
	t.Helper()
	c.WaitFor(t, "Event "+reason, func(ctx context.Context) error {
		events, err := c.Client.EventsV1().Events(c.Name).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, event := range events.Items {
			if event.Regarding.Name == node && event.Reason == reason && strings.Contains(event.Note, text) {
				return nil
			}
		}
		return fmt.Errorf("none among %d Events", len(events.Items))
	})
}

// WaitFleet waits until a node has exactly this many pods, all ready.
func (c *Cell) WaitFleet(t testing.TB, node string, want int) {
	t.Helper()
	c.WaitFor(t, fmt.Sprintf("%s to have %d pods", node, want), func(ctx context.Context) error {
		list, err := c.Client.CoreV1().Pods(c.Name).List(ctx, metav1.ListOptions{LabelSelector: "app=" + node})
		if err != nil {
			return err
		}
		for _, pod := range list.Items {
			if !podReady(pod) {
				return fmt.Errorf("%s is not ready", pod.Name)
			}
		}
		if len(list.Items) != want {
			return fmt.Errorf("it has %d", len(list.Items))
		}
		return nil
	})
}

// WaitGone waits until a node and its pods are gone.
func (c *Cell) WaitGone(t testing.TB, node string) {
	t.Helper()
	c.WaitFor(t, node+" to be gone", func(ctx context.Context) error {
		_, err := c.Client.AppsV1().StatefulSets(c.Name).Get(ctx, node, metav1.GetOptions{})
		if err == nil {
			return errors.New("it is there")
		}
		if !apierrors.IsNotFound(err) {
			return err
		}
		list, err := c.Client.CoreV1().Pods(c.Name).List(ctx, metav1.ListOptions{LabelSelector: "app=" + node})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%d pods are there", len(list.Items))
		}
		return err
	})
}

// WaitLifted waits until no node is held any more.
func (c *Cell) WaitLifted(t testing.TB, nodes ...string) {
	t.Helper()
	c.waitNodes(t, "lifted", nodes, func(set appsv1.StatefulSet) error {
		rolling := set.Spec.UpdateStrategy.RollingUpdate
		if set.Annotations[AnnotationHeld] != "" || (rolling != nil && rolling.Partition != nil && *rolling.Partition == HeldPartition) {
			return fmt.Errorf("%s is held", set.Name)
		}
		return nil
	})
}

// WaitPodStarted waits until a pod of this image runs, ready or not.
func (c *Cell) WaitPodStarted(t testing.TB, pod, image string) {
	t.Helper()
	c.WaitFor(t, fmt.Sprintf("%s to start %s", pod, image), func(ctx context.Context) error {
		got, err := c.Client.CoreV1().Pods(c.Name).Get(ctx, pod, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if got.Spec.Containers[0].Image != image || got.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("it is %s with %s", got.Status.Phase, got.Spec.Containers[0].Image)
		}
		return nil
	})
}

// WaitRestarts waits until the checker has seen this many pods of a node replaced and back.
func (c *Cell) WaitRestarts(t testing.TB, node string, want int) {
	t.Helper()
	c.WaitFor(t, fmt.Sprintf("%d restarts of %s", want, node), func(context.Context) error {
		if got := c.Report().Restarts[node]; got < want {
			return fmt.Errorf("%d so far", got)
		}
		return nil
	})
}

// Rolling reports a holder, or a node that waits.
func (c *Cell) Rolling(ctx context.Context) bool {
	if holders, err := c.Holders(ctx); err != nil || len(holders) > 0 {
		return true
	}
	sets, err := c.Client.AppsV1().StatefulSets(c.Name).List(ctx, metav1.ListOptions{})
	return err != nil || slices.ContainsFunc(sets.Items, func(set appsv1.StatefulSet) bool {
		return set.Annotations[AnnotationHeld]+set.Annotations[AnnotationDeferred] != ""
	})
}
