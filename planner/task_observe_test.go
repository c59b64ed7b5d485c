package planner

import (
	"fmt"
	"testing"
)

func f1(format string, ordinal int) string { return fmt.Sprintf(format, ordinal) }

func TestObserveImage(t *testing.T) {
	t.Parallel()
	fresh := pod{"v2", ""}
	checkOutcomes(t, observeImage, map[string]outcomeCase{
		"all carry the new revision and the status says so": {facts: rolling(runsPods(fresh), counts(1, 0)), done: true},
		"ready or not is not asked":                         {facts: rolling(runsPods(pod{"v2", notReady}), counts(1, 0)), done: true},
		"the status lags":                                   {facts: rolling(runsPods(fresh), counts(0, 0)), waiting: "waiting for 1 pods to carry the new revision, 1 do"},
		"the status is of another generation":               {facts: rolling(runsPods(fresh), counts(1, 1), unobserved), waiting: "waiting for 1 pods to carry the new revision, 1 do"},
		"a pod of the old revision":                         {facts: rolling(counts(1, 1)), waiting: "waiting for 1 pods to carry the new revision, 0 do"},
		"a pod that goes does not count":                    {facts: rolling(runsPods(pod{"v2", going}), counts(1, 1)), waiting: "waiting for 1 pods to carry the new revision, 0 do"},
		"three replicas, one is missing":                    {facts: rolling(replicas(3), runsPods(fresh, fresh), counts(3, 3)), waiting: "waiting for 3 pods to carry the new revision, 2 do"},
		"own partition: those from it up":                   {facts: rolling(replicas(3), ownPartition(1), runsPods(pod{"v1", ""}, fresh, fresh), counts(2, 3)), done: true},
		"paused: none":                                      {facts: rolling(replicas(0), runsPods(), counts(0, 0)), done: true},
	})
}
