// Package node knows what a node is: a StatefulSet whose restarts are paced. It turns API objects
// into read-only views (parse once; nobody else reads Paceline's annotations) and answers the
// questions that every other package asks of them: which fields are paced, which of them the node
// runs, does it drift, is it gated, is it settled.
//
// Everything here is pure: no context, no client, no clock.
//
// Invariants and the tests that guard them:
//   - the words drift, gated and settled mean what the documentation says: TestTruthTable
//   - the paced fields of a pod come from its ControllerRevision alone: TestPacedOfRevision
//   - an annotation that Paceline wrote reads back as what was written: TestAnnotationsRoundTrip
//   - nothing of ours is imported here, and imports flow one way everywhere: TestImportsFlowOneWay
package node
