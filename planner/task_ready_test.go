package planner

import "testing"

func TestAwaitReady(t *testing.T) {
	t.Parallel()
	fresh := pod{"v2", ""}
	checkOutcomes(t, awaitReady, map[string]outcomeCase{
		"all ready and available":       {facts: rolling(runsPods(fresh), counts(1, 1)), done: true},
		"a pod that is not ready":       {facts: rolling(runsPods(pod{"v2", notReady}), counts(1, 1)), waiting: "waiting for pod rpc-0-0 to be ready"},
		"a pod that goes":               {facts: rolling(runsPods(pod{"v2", going}), counts(1, 1)), waiting: "waiting for pod rpc-0-0 to be ready"},
		"ready, not available yet":      {facts: rolling(runsPods(fresh), counts(1, 0)), waiting: "waiting for 1 available pods, 0 are"},
		"release-slot Updated drops it": {facts: rolling(whenUpdated, runsPods(pod{"v2", notReady}), counts(1, 0)), done: true},
		"own partition: a broken pod below it is not waited for": {
			facts: rolling(replicas(3), ownPartition(1), runsPods(pod{"v1", notReady}, fresh, fresh), counts(2, 2)), done: true,
		},
		"three replicas, the highest is named": {facts: rolling(replicas(3), runsPods(pod{"v2", notReady}, fresh, pod{"v2", notReady}), counts(3, 1)), waiting: "waiting for pod rpc-0-2 to be ready"},
		"paused: none":                         {facts: rolling(replicas(0), runsPods(), counts(0, 0)), done: true},
	})
}
