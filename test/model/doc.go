// Package model tests allocator, gate and plan together: random steps in a world of plain structs, with the
// real lease.Decide, webhook.Decide, webhook.NewWishes and its Apply, webhook.Recreated, planner.Next and
// planner.NewPlan in it.
//
// The world is one cell of 3 to 8 StatefulSets, their pods, revisions and slot Leases, with the API server's
// resource versions. A pod template is an image, which is paced, and a label, which is with pace template alone. Each
// write of a StatefulSet goes through admission and is stored at a later step, if
// the object is still the same. What acts, a micro-step at a time, so that all interleave and crash
// between any two writes:
//   - the StatefulSet controller (OrderedReady, as in 1.36 and 1.37) and the kubelet; evictions, pods that turn unready
//   - writers: bumps of one and of all, reverts, bad images, other labels, replicas, /scale, strategy, opting out,
//     pausing, deleting, creating anew; whole renders, kubectl apply and a server-side applier, by which the pin gate's
//     rules W1 to W3 withdraw
//   - settings of the cell: percentage, freeze, the label, gate and pace
//   - two active controllers, each with a cache a kind that is refreshed by steps of its own, running the reads and
//     writes of planner/cell.go and planner/effects.go in their order; lost answers and restarts
//   - a person who deletes or empties Leases; a webhook that is away, that of pods alone too; Leases that cannot be read
//
// After every step the invariants of the documentation hold, as far as a step can break them; each check names
// its number. In the end faults cease, and everybody works with fresh caches until nothing is written any more:
// every node runs what its writer last asked for, nothing waits, all Leases are free, and there are as many as slots.
// An excuse is what the documentation itself lets roll without a slot: the webhook away at the write,
// a cell or node that is not paced, a node not settled, replicas 0, a slot that a person took, a lost pod of which
// nothing tells what it ran.
//
// Not in it: the writer's own partition (but for two scripts), several pod management policies, several containers.
//
// A failure prints its steps, and a seed. To run it again, and to run more:
//
//	go test ./model -run TestModel -rapid.seed=SEED
//	go test ./model -run TestModel -rapid.checks=20000 -rapid.shrinktime=60s
//
// The steps of a seed depend on -rapid.steps, which a seed that was found with another value wants again.
// What the model found and the product does not keep from happening is in the list known; each has a script that
// shows it.
package model
