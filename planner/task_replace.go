package planner

import (
	"github.com/paceline/paceline/node"
)

// replacePod replaces pods of older revisions, one at a time until each is ready. On OnDelete it
// deletes them, broken ones first, then the highest ordinal; on RollingUpdate Kubernetes does, but for
// a broken pod of an older revision, which OrderedReady would wait for for ever (kubernetes#67250).
func replacePod(f Facts) Outcome {
	if !f.Status.Observed {
		return waitFor("waiting for the StatefulSet controller to see the change")
	}
	pods := f.pods()
	var outdated node.Fleet
	for _, pod := range pods {
		switch {
		case pod.Deleting:
			return waitFor("waiting for pod %s to go", pod.Name)
		case pod.Revision != f.Status.UpdateRevision:
			outdated = append(outdated, pod)
		}
	}
	broken := firstBroken(outdated)
	switch {
	case broken != nil:
		return act(DeletePod{*broken}, "replacing pod %s, which is not ready", broken.Name)
	case len(outdated) == 0 && len(pods) >= f.wanted():
		return done()
	case len(pods) < f.wanted():
		return waitFor("waiting for %d of %d pods to be created", f.wanted()-len(pods), f.wanted())
	case f.Strategy == node.RollingUpdate:
		return waitFor("waiting for %d of %d pods to be replaced", len(outdated), f.wanted())
	}
	for _, pod := range pods {
		if pod.Revision == f.Status.UpdateRevision && !pod.Ready {
			return waitFor("waiting for pod %s to be ready", pod.Name)
		}
	}
	return act(DeletePod{outdated[0]}, "replacing pod %s", outdated[0].Name)
}

func firstBroken(pods node.Fleet) *node.Pod {
	for i := range pods {
		if !pods[i].Ready {
			return &pods[i]
		}
	}
	return nil
}
