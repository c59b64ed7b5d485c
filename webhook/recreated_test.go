package webhook

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paceline/paceline/node"
)

// A new pod of an OnDelete node that waits comes at what the node ran; every other pod as it was made.
func TestRecreatedAt(t *testing.T) {
	t.Parallel()
	const v0, v1, v2, v3 = "rpc-0-v0", "rpc-0-v1", "rpc-0-v2", "rpc-0-v3"
	waits := func() Recreated {
		return Recreated{
			Paced: true, Revision: v2, Node: node.View{
				Strategy: node.OnDelete, Replicas: 3, HasHeld: true, Cleared: &node.Cleared{Revision: v1, Ready: true},
			},
			Pods: node.Fleet{{Name: "rpc-0-2", Revision: v1, Ready: true}, {Name: "rpc-0-1", Revision: v1, Ready: true}},
		}
	}
	pods := func(revisions ...string) func(*Recreated) {
		return func(r *Recreated) {
			r.Pods = nil
			for _, revision := range revisions {
				r.Pods = append(r.Pods, node.Pod{Revision: revision})
			}
		}
	}
	uncleared := func(r *Recreated) { r.Node.Cleared = nil }
	for name, c := range map[string]struct {
		given  []func(*Recreated)
		at     string
		reason Reason
	}{
		"it waits: what it ran":                                     {nil, v1, ReasonRecreated},
		"its only pod":                                              {[]func(*Recreated){pods()}, v1, ReasonRecreated},
		"it was made of what runs":                                  {[]func(*Recreated){func(r *Recreated) { r.Revision = v1 }}, "", ReasonPass},
		"it does not wait":                                          {[]func(*Recreated){func(r *Recreated) { r.Node.HasHeld = false }}, "", ReasonPass},
		"its cell is not paced":                                     {[]func(*Recreated){func(r *Recreated) { r.Paced = false }}, "", ReasonPass},
		"RollingUpdate: the partition holds it":                     {[]func(*Recreated){func(r *Recreated) { r.Node.Strategy = node.RollingUpdate }}, "", ReasonPass},
		"it holds a slot":                                           {[]func(*Recreated){func(r *Recreated) { r.Slot = ProofTrue }}, "", ReasonOpened},
		"its slot is forged":                                        {[]func(*Recreated){func(r *Recreated) { r.Slot = ProofFalse }}, v1, ReasonRecreated},
		"its Lease cannot be read: it may wait longer":              {[]func(*Recreated){func(r *Recreated) { r.Slot = ProofUnknown }}, v1, ReasonRecreated},
		"a pod of the newest revision lives: replaced by hand":      {[]func(*Recreated){pods(v1, v2)}, "", ReasonInFlight},
		"all the others were replaced by hand":                      {[]func(*Recreated){pods(v2, v2)}, "", ReasonPass},
		"the one of the newest revision is going":                   {[]func(*Recreated){pods(v1, v2), func(r *Recreated) { r.Pods[1].Deleting = true }}, v1, ReasonRecreated},
		"cleared is out of date: no downgrade, and no roll":         {[]func(*Recreated){pods(v2, v2), func(r *Recreated) { r.Revision = v3 }}, v2, ReasonRecreated},
		"three revisions at once: the cleared one, while it lives":  {[]func(*Recreated){pods(v1, v0), func(r *Recreated) { r.Revision = v3 }}, v1, ReasonRecreated},
		"three revisions at once, none of them cleared":             {[]func(*Recreated){pods(v0, v2), func(r *Recreated) { r.Revision = v3 }}, "", ReasonUnknown},
		"never cleared: what all the others run":                    {[]func(*Recreated){uncleared}, v1, ReasonRecreated},
		"never cleared, and no pod left":                            {[]func(*Recreated){uncleared, pods()}, "", ReasonUnknown},
		"never cleared, and the others run what it was made of":     {[]func(*Recreated){uncleared, pods(v2, v2)}, "", ReasonPass},
		"pods of nobody's revision tell nothing":                    {[]func(*Recreated){uncleared, pods("", "")}, "", ReasonUnknown},
		"cleared with a release at Updated is what it runs as well": {[]func(*Recreated){func(r *Recreated) { r.Node.Cleared.Ready = false }}, v1, ReasonRecreated},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := waits()
			for _, change := range c.given {
				change(&r)
			}
			at, reason := r.At()
			require.Equal(t, c.at, at)
			require.Equal(t, c.reason, reason)
		})
	}
}
