package node

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Condition is one condition as it is to be.
type Condition struct {
	Type, Reason, Message string
	Status                bool
}

// SetConditions returns conditions with want set in them and all others left alone; false: nothing
// differs. A transition time moves with the status alone.
func SetConditions(conditions []appsv1.StatefulSetCondition, want []Condition, now time.Time) ([]appsv1.StatefulSetCondition, bool) {
	out := slices.Clone(conditions)
	changed := false
	for _, w := range want {
		status := corev1.ConditionFalse
		if w.Status {
			status = corev1.ConditionTrue
		}
		next := appsv1.StatefulSetCondition{
			Type: appsv1.StatefulSetConditionType(w.Type), Status: status, Reason: w.Reason, Message: w.Message,
			LastTransitionTime: metav1.NewTime(now.Truncate(time.Second)),
		}
		i := slices.IndexFunc(out, func(c appsv1.StatefulSetCondition) bool { return string(c.Type) == w.Type })
		if i < 0 {
			out = append(out, next)
			changed = true
			continue
		}
		if out[i].Status == next.Status {
			next.LastTransitionTime = out[i].LastTransitionTime
		}
		if out[i].Status != next.Status || out[i].Reason != next.Reason || out[i].Message != next.Message {
			out[i] = next
			changed = true
		}
	}
	return out, changed
}

// ReasonOf returns the reason of the condition of this type, "" where it is not there.
func ReasonOf(conditions []appsv1.StatefulSetCondition, conditionType string) string {
	for _, c := range conditions {
		if string(c.Type) == conditionType {
			return c.Reason
		}
	}
	return ""
}
