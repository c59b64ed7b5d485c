package planner

import "testing"

func TestReplacePod(t *testing.T) {
	t.Parallel()
	const replaced, toGo, toBeReady, broken = "replacing pod rpc-0-%d", "waiting for pod rpc-0-%d to go", "waiting for pod rpc-0-%d to be ready", "replacing pod rpc-0-%d, which is not ready"
	one := func(p ...pod) Facts { return rolling(runsPods(p...)) }
	manual := func(p ...pod) Facts {
		return resting(onDelete, replicas(int32(len(p))), asks("v2"), holds, open, runsPods(p...))
	}
	three := func(p ...pod) Facts { return rolling(replicas(3), runsPods(p...)) }
	old, fresh := pod{"v1", ""}, pod{"v2", ""}
	oldBroken, freshBroken := pod{"v1", notReady}, pod{"v2", notReady}
	gone := pod{}
	cases := map[string]outcomeCase{
		"the change is not observed yet: wait": {facts: rolling(unobserved), waiting: "waiting for the StatefulSet controller to see the change"},
		"paused: no pods to wait for":          {facts: rolling(replicas(0), runsPods()), done: true},

		"RollingUpdate, 1: an older pod is left to Kubernetes":                {facts: one(old), waiting: "waiting for 1 of 1 pods to be replaced"},
		"RollingUpdate, 1: a broken older pod is replaced":                    {facts: one(oldBroken), effect: deletes(0, fleet(oldBroken)), waiting: f1(broken, 0)},
		"RollingUpdate, 1: a pod that goes is waited for":                     {facts: one(pod{"v1", going}), waiting: f1(toGo, 0)},
		"RollingUpdate, 1: a pod that is not there yet":                       {facts: one(gone), waiting: "waiting for 1 of 1 pods to be created"},
		"RollingUpdate, 1: a new pod, ready or not: done":                     {facts: one(freshBroken), done: true},
		"RollingUpdate, 3: left to Kubernetes":                                {facts: three(old, old, fresh), waiting: "waiting for 2 of 3 pods to be replaced"},
		"RollingUpdate, 3: a broken older one is replaced, whatever is ready": {facts: three(oldBroken, old, freshBroken), effect: deletes(0, fleet(oldBroken)), waiting: f1(broken, 0)},
		"RollingUpdate, 3: of two broken ones the higher first":               {facts: three(oldBroken, oldBroken, fresh), effect: deletes(1, fleet(gone, oldBroken)), waiting: f1(broken, 1)},
		"RollingUpdate, 3: nothing goes while a pod goes":                     {facts: three(oldBroken, old, pod{"v1", going}), waiting: f1(toGo, 2)},
		"RollingUpdate, 3: all new: done":                                     {facts: three(fresh, fresh, freshBroken), done: true},

		"OnDelete, 1: the pod is replaced":                        {facts: manual(old), effect: deletes(0, fleet(old)), waiting: f1(replaced, 0)},
		"OnDelete, 1: a broken pod is replaced":                   {facts: manual(oldBroken), effect: deletes(0, fleet(oldBroken)), waiting: f1(broken, 0)},
		"OnDelete, 1: a new pod, ready or not: done":              {facts: manual(freshBroken), done: true},
		"OnDelete, 3: the highest ordinal first":                  {facts: manual(old, old, old), effect: deletes(2, fleet(old, old, old)), waiting: f1(replaced, 2)},
		"OnDelete, 3: the next when the last is ready":            {facts: manual(old, old, fresh), effect: deletes(1, fleet(old, old)), waiting: f1(replaced, 1)},
		"OnDelete, 3: one at a time until it is ready":            {facts: manual(old, old, freshBroken), waiting: f1(toBeReady, 2)},
		"OnDelete, 3: a broken older pod first":                   {facts: manual(oldBroken, old, old), effect: deletes(0, fleet(oldBroken)), waiting: f1(broken, 0)},
		"OnDelete, 3: a broken older pod before a new one":        {facts: manual(oldBroken, old, freshBroken), effect: deletes(0, fleet(oldBroken)), waiting: f1(broken, 0)},
		"OnDelete, 3: nothing goes while a pod goes":              {facts: manual(old, old, pod{"v1", going}), waiting: f1(toGo, 2)},
		"OnDelete, 3: nothing goes while a pod is missing":        {facts: manual(old, old, gone), waiting: "waiting for 1 of 3 pods to be created"},
		"OnDelete, 3: a pod by hand at another ordinal is no bar": {facts: manual(fresh, old, old), effect: deletes(2, fleet(old, old, old)), waiting: f1(replaced, 2)},
		"OnDelete, 3: all new: done":                              {facts: manual(fresh, fresh, fresh), done: true},

		"own partition: ordinals below it stay": {facts: three(old, fresh, fresh).but(ownPartition(1)), done: true},
		"own partition: a broken one below it stays": {
			facts: three(oldBroken, old, fresh).but(ownPartition(1)), waiting: "waiting for 1 of 2 pods to be replaced",
		},
		"own partition above all pods: nothing to replace": {facts: three(old, old, old).but(ownPartition(3)), done: true},
	}
	checkOutcomes(t, replacePod, cases)
}
