package harness

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
)

// WaitDeferred waits until something is deferred of the named nodes (pin gate).
func (c *Cell) WaitDeferred(t testing.TB, nodes ...string) {
	t.Helper()
	c.waitNodes(t, "pinned", nodes, func(set appsv1.StatefulSet) error {
		if set.Annotations[AnnotationDeferred] == "" {
			return fmt.Errorf("nothing of %s is deferred", set.Name)
		}
		return nil
	})
}

// WaitUndeferred waits until nothing is.
func (c *Cell) WaitUndeferred(t testing.TB, nodes ...string) {
	t.Helper()
	c.waitNodes(t, "free of what was deferred", nodes, func(set appsv1.StatefulSet) error {
		if value := set.Annotations[AnnotationDeferred]; value != "" {
			return fmt.Errorf("of %s is deferred: %s", set.Name, value)
		}
		return nil
	})
}
