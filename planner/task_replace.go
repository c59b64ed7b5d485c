package planner

import (
	"time"

	"github.com/paceline/paceline/node"
)

// brokenAfter is how long a pod of an older revision is not ready before it is taken for broken, rather than
// for one that will be back in a moment (its peer has just left). Kubernetes would wait for either.
const brokenAfter = 30 * time.Second

// replacePod replaces pods of older revisions, one at a time until each is ready. On OnDelete it
// deletes them, one that is not ready first, then the highest ordinal; on RollingUpdate Kubernetes does, but
// for a broken pod of an older revision, which OrderedReady would wait for for ever (kubernetes#67250).
func replacePod(f Facts) Outcome {
	if !f.Status.Observed {
		return waitFor("waiting for the StatefulSet controller to see the change")
	}
	pods := f.pods()
	var outdated node.Fleet
	var coming *node.Pod
	for i, pod := range pods {
		switch {
		case pod.Deleting:
			return waitFor("waiting for pod %s to go", pod.Name)
		case pod.Revision != f.Status.UpdateRevision:
			outdated = append(outdated, pod)
		case !pod.Ready && coming == nil:
			coming = &pods[i]
		}
	}
	broken := firstUnready(outdated, f.Now.Add(-brokenAfter))
	switch {
	case broken != nil:
		return act(DeletePod{*broken}, "replacing pod %s, which is not ready", broken.Name)
	case len(outdated) == 0 && len(pods) >= f.wanted():
		return done()
	case len(pods) < f.wanted():
		return waitFor("waiting for %d of %d pods to be created", f.wanted()-len(pods), f.wanted())
	case coming != nil:
		return waitFor("waiting for pod %s to be ready", coming.Name)
	case f.Strategy == node.RollingUpdate && firstUnready(outdated, f.Now) != nil:
		return waitFor("pod %s of the older revision is not ready; it is replaced after %s of that", firstUnready(outdated, f.Now).Name, brokenAfter)
	case f.Strategy == node.RollingUpdate:
		return waitFor("waiting for %d of %d pods to be replaced", len(outdated), f.wanted())
	}
	next := &outdated[0]
	if down := firstUnready(outdated, f.Now); down != nil {
		next = down
	}
	return act(DeletePod{*next}, "replacing pod %s", next.Name)
}

// firstUnready finds the first pod that is not ready since the moment or longer.
func firstUnready(pods node.Fleet, since time.Time) *node.Pod {
	for i := range pods {
		if !pods[i].Ready && !pods[i].UnreadySince.After(since) {
			return &pods[i]
		}
	}
	return nil
}
