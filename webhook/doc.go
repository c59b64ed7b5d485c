// Package webhook is the admission side: it keeps a node that holds no slot on what it runs. The
// decisions are pure functions: gate.go for a StatefulSet (with pin.go and withdraw.go where its template is
// pinned), recreated.go for a pod, which render.go puts back. Around them stand the lean decoding of a
// review (review.go), the JSON patch and the answer (response.go), and the handlers (statefulset.go, pod.go).
//
// Invariants and the tests that guard them:
//   - drift without a slot on a settled node is held, and nothing else is: TestDecide, TestModel
//   - a request that changes nothing of ours gets no patch: TestFixtures
//   - the only request refused is a paced change whose slot Lease cannot be read: TestDecide
//   - a slot annotation opens the gate only when its Lease says so: TestHandlerProvesSlots
//   - "budget off" is read live: TestBudgetOffIsReadLive
//   - a pod of a node that waits comes back whole, at what the node runs: TestRecreatedAt, TestRender
//   - no pod is ever blocked: TestPodPassesWhereNothingCanBeRead
package webhook
