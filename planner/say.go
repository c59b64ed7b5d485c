package planner

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/paceline/paceline/lease"
	"github.com/paceline/paceline/node"
)

// Board carries each cell's queue, as the cell reconciler saw it last, to those who write messages.
// Nothing decides by it.
type Board struct {
	mu     sync.RWMutex
	queues map[string]lease.Queue
}

// Queue is the last queue seen of a cell.
func (b *Board) Queue(namespace string) lease.Queue {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.queues[namespace]
}

// Post notes a cell's queue.
func (b *Board) Post(namespace string, queue lease.Queue) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.queues == nil {
		b.queues = map[string]lease.Queue{}
	}
	b.queues[namespace] = queue
}

// Remove forgets a cell that is gone.
func (b *Board) Remove(namespace string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.queues, namespace)
}

// writeConditions mirrors conditions to the status. A conflict is no fault: the conditions are
// asserted again at the next look.
func (r *NodeReconciler) writeConditions(ctx context.Context, set *appsv1.StatefulSet, conditions []appsv1.StatefulSetCondition) error {
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": set.ResourceVersion, "uid": set.UID},
		"status":   map[string]any{"conditions": conditions},
	})
	if err != nil {
		return fmt.Errorf("writing patch: %w", err)
	}
	target := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: set.Name}}
	err = r.Writer.Status().Patch(ctx, target, client.RawPatch(types.MergePatchType, body), client.FieldOwner(FieldManager))
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		return fmt.Errorf("writing conditions of StatefulSet %s: %w", set.Name, err)
	}
	return nil
}

// announce records the Events of an effect that was carried out.
func (r *NodeReconciler) announce(set *appsv1.StatefulSet, f Facts, step Step) {
	switch effect := step.Effect.(type) {
	case Release:
		r.Events.Eventf(set, nil, corev1.EventTypeNormal, node.EventSlotFreed, "Release",
			"runs revision %s; %s is free", effect.Cleared.Revision, f.Slot.Name)
	case Free:
		r.Events.Eventf(set, nil, corev1.EventTypeNormal, node.EventSlotFreed, "Free",
			"nothing (left) to roll; %s is free", f.Slot.Name)
	}
}

// announceConditions records the Events of conditions that changed, once a change.
func (r *NodeReconciler) announceConditions(set *appsv1.StatefulSet, want []node.Condition, previous string, remembered *memory) {
	for _, c := range want {
		if c.Type == node.ConditionUpdate {
			if c.Reason == remembered.said {
				continue
			}
			remembered.said = c.Reason
		}
		switch {
		case c.Type == node.ConditionUpdate && c.Reason == previous:
		case c.Type == node.ConditionUpdate && c.Reason == node.ReasonUpdateDeferred:
			r.Events.Eventf(set, nil, corev1.EventTypeNormal, node.EventDeferred, "Wait", "%s", c.Message)
		case c.Type == node.ConditionUpdate && c.Reason == node.ReasonUpdateFailed:
			r.Events.Eventf(set, nil, corev1.EventTypeWarning, node.EventTaskFailed, "Run", "%s", c.Message)
		case c.Type == node.ConditionUpdate && previous == node.ReasonUpdateDeferred && c.Reason == node.ReasonNoDrift:
			r.Events.Eventf(set, nil, corev1.EventTypeNormal, node.EventLifted, "Lift", "it runs what is asked for; nothing waits any more")
		case c.Type == node.ConditionStalled && c.Status && node.ReasonOf(set.Status.Conditions, c.Type) != c.Reason:
			r.Events.Eventf(set, nil, corev1.EventTypeWarning, node.EventStuck, "Watch", "%s", c.Message)
		}
	}
}
