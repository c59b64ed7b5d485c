// Package webhook is the admission side: it keeps a node that holds no slot on what it runs. The
// decision is a pure function (gate.go); around it stand the lean decoding of a review (review.go),
// the JSON patch and the answer (response.go), and the handler (statefulset.go).
//
// Invariants and the tests that guard them:
//   - drift without a slot on a settled node is held, and nothing else is: TestDecide, TestModel
//   - a request that changes nothing of ours gets no patch: TestFixtures
//   - the only request refused is a paced change whose slot Lease cannot be read: TestDecide
//   - a slot annotation opens the gate only when its Lease says so: TestHandlerProvesSlots
//   - "budget off" is read live: TestBudgetOffIsReadLive
package webhook
