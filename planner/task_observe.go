package planner

// observeImage is done when all pods from the writer's partition up carry the new revision, and the
// StatefulSet controller says so of this generation.
func observeImage(f Facts) Outcome {
	updated := 0
	for _, pod := range f.pods() {
		if pod.Revision == f.Status.UpdateRevision && !pod.Deleting {
			updated++
		}
	}
	if !f.Status.Observed || updated < f.wanted() || int(f.Status.Updated) < f.wanted() {
		return waitFor("waiting for %d pods to carry the new revision, %d do", f.wanted(), updated)
	}
	return done()
}
