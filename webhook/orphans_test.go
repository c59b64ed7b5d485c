package webhook

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"

	"github.com/paceline/paceline/node"
)

// A StatefulSet that is created over pods of its predecessor is judged as an update of what they run.
func TestCreatedOverOrphanedPods(t *testing.T) {
	t.Parallel()
	v1, v2 := paced("v1", ""), paced("v2", "")
	created := set{image: "v2", replicas: 2, strategy: node.RollingUpdate, partition: zero()}
	for name, c := range map[string]struct {
		asked     set
		orphans   []node.Paced
		off       bool
		reason    Reason
		held      string
		partition *int32
	}{
		"no pods":                        {created, nil, false, ReasonCreated, "", zero()},
		"pods that run what is asked":    {created, []node.Paced{v2}, false, ReasonCreated, "", zero()},
		"pods that run something else":   {created, []node.Paced{v1}, false, ReasonHeld, heldText("v1", zero()), ptr.To(node.HeldPartition)},
		"pods of which some do":          {created, []node.Paced{v2, v1}, false, ReasonHeld, heldText("v1", zero()), ptr.To(node.HeldPartition)},
		"OnDelete: the note is enough":   {created.with(onDelete), []node.Paced{v1}, false, ReasonHeld, heldText("v1", nil), nil},
		"an own partition is remembered": {created.with(partition(1)), []node.Paced{v1}, false, ReasonHeld, heldText("v1", ptr.To(int32(1))), ptr.To(node.HeldPartition)},
		"a copy of a held one": {
			created.with(partition(node.HeldPartition), heldOver("v0", ptr.To(int32(1))), hasSlot), []node.Paced{v1}, false, ReasonHeld,
			heldText("v1", ptr.To(int32(1))), ptr.To(node.HeldPartition),
		},
		"replicas 0: nothing to hold": {created.with(scale(0)), []node.Paced{v1}, false, ReasonCreated, "", zero()},
		"not in a cell":               {created, []node.Paced{v1}, true, ReasonPass, "", zero()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := create(c.asked).facts()
			f.Paced, f.Orphans = !c.off, c.orphans
			d := Decide(f)
			require.Equal(t, c.reason, d.Reason)
			require.Equal(t, c.held, d.Owned[node.AnnotationHeld])
			require.NotContains(t, d.Owned, node.AnnotationSlot)
			partition := c.asked.partition
			if d.Partition != nil {
				partition = d.Partition
			}
			require.Equal(t, c.partition, partition)
		})
	}
}

// Where the pods cannot be looked for, the set is created as it is asked for: nothing is refused.
func TestOrphansThatCannotBeRead(t *testing.T) {
	t.Parallel()
	s := inCell()
	s.orphansErr = errUnread
	answer := s.admit(t, review1("CREATE", "writer", v("app:v2").json(t), "null"))
	require.True(t, answer.Allowed)
	require.Nil(t, answer.Patch)

	runs, err := node.PacedOfTemplate([]byte(`{"spec":{"containers":[{"name":"app","image":"app:v1"}]}}`))
	require.NoError(t, err)
	s = inCell()
	s.orphans = []node.Paced{runs}
	object := v("app:v2").json(t)
	answer = s.admit(t, review1("CREATE", "writer", object, "null"))
	require.True(t, patched(t, object, answer).held())
	require.Contains(t, answer.Warnings[0], "rpc-0 waits")
}
