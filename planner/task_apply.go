package planner

// applyStatefulSet opens the gate: it is done when the open gate is seen in the object, so a write
// that was refused or lost is made again.
func applyStatefulSet(f Facts) Outcome {
	switch {
	case !f.Slot.Proves(f.View.Slot, f.Name, f.UID):
		return act(Open{}, "opening the gate")
	case f.Gated():
		// The slot was written while no webhook looked; a touch makes it look.
		return act(Touch{}, "waiting for the webhook to open the gate")
	}
	return done()
}
