// Package planner changes nodes: it grants the slots of a cell (cell.go) and runs the plan of each
// node that holds one (node.go). Decisions are pure: lease.Decide for the cell, Next for the node;
// both reconcilers only gather facts, ask, and act with conditional writes.
//
// Invariants and the tests that guard them:
//   - an effect happens only after a live read has shown the slot to be held: TestEffectsCheckTheLease
//   - the slot annotation goes, and cleared comes, before the Lease is freed: TestModel, TestRelease
//   - a plan continues after a kill between any two writes: TestModel, TestPlanProgress
//   - a plan that this version does not know runs nothing: TestUnknownPlanRunsNothing
package planner
