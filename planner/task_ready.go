package planner

// awaitReady is done when all pods from the writer's partition up are ready and available. The
// annotation release-slot Updated drops it, also in mid-plan.
func awaitReady(f Facts) Outcome {
	if f.ReleaseWhenUpdated {
		return done()
	}
	for _, pod := range f.pods() {
		if !pod.Ready || pod.Deleting {
			return waitFor("waiting for pod %s to be ready", pod.Name)
		}
	}
	if int(f.Status.Available) < f.wanted() {
		return waitFor("waiting for %d available pods, %d are", f.wanted(), f.Status.Available)
	}
	return done()
}
