// Package lease owns the slots: one coordination.k8s.io Lease paceline-slot-<i> each, in the cell
// whose budget it is part of. It has two layers: pure values and decisions (how many slots, who
// holds them, who is next), and a store that reads, changes and writes conditionally.
//
// Invariants and the tests that guard them:
//   - no grant while holders and nodes that roll without a slot fill the budget: TestModel, TestDecide,
//     TestDecideNeverGrantsBeyondRoom
//   - the order is holders first, then waiting nodes by name: TestDecide
//   - nobody loses a slot when the budget shrinks, the highest free index goes first: TestDecide
//   - every write names the resource version that it was decided on: TestStoreWritesNameWhatTheySaw,
//     TestStoreDeleteNamesWhatItSaw, TestStoreConflicts, on a real API server TestAStaleSlotWriteIsRefused
//   - what others write to a slot's Lease survives every write: TestStoreLeavesForeignFieldsAlone
package lease
