// Package harness gives each scenario a cell of its own on one shared rig. Nothing here proves by
// sleeping: a scenario waits for a state, and the checker judges what happened on the way.
package harness
