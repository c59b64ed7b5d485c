package e2e

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paceline/paceline/test/checker"
	"github.com/paceline/paceline/test/e2e/harness"
)

// A namespace editor may write Leases and StatefulSets by default. The chart's policies keep the slots,
// and our annotations on the path that no webhook sees, from that editor; the webhook keeps the rest.
func TestANamespaceEditorCannotFakeASlot(t *testing.T) {
	t.Parallel()
	cell := rig.NewCell(t, harness.CellOptions{Budget: "50", Nodes: 2, Annotations: map[string]string{harness.AnnotationFreeze: "true"}})
	cell.WaitSlots(t, 1)
	as := func(args ...string) (string, error) {
		output, err := rig.Kubectl(t.Context(), "", append([]string{"--as=alice", "-n", cell.Name}, args...)...)
		return output.Stderr, err
	}
	_, err := rig.Kubectl(t.Context(), "", "create", "rolebinding", "alice", "--clusterrole=edit", "--user=alice", "-n", cell.Name)
	require.NoError(t, err)
	_, err = rig.Kubectl(t.Context(), "", "create", "role", "leases", "--verb=*", "--resource=leases.coordination.k8s.io,statefulsets.apps/status", "-n", cell.Name)
	require.NoError(t, err)
	_, err = rig.Kubectl(t.Context(), "", "create", "rolebinding", "leases", "--role=leases", "--user=alice", "-n", cell.Name)
	require.NoError(t, err)

	slot := `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":%q,"annotations":{"paceline.io/plan":"{}"}},"spec":{"holderIdentity":"rpc-00"}}`
	for what, args := range map[string][]string{
		"take a slot":                      {"patch", "lease", "paceline-slot-0", "--type=merge", "-p", `{"spec":{"holderIdentity":"rpc-00"}}`},
		"take it by server-side apply":     {"apply", "--server-side", "--force-conflicts", "-f", "-"},
		"start a plan":                     {"annotate", "lease", "paceline-slot-0", "paceline.io/plan={}"},
		"keep it from being deleted":       {"patch", "lease", "paceline-slot-0", "--type=merge", "-p", `{"metadata":{"finalizers":["example.com/x"]}}`},
		"free a slot by deleting it":       {"delete", "lease", "paceline-slot-0"},
		"delete all":                       {"delete", "leases", "--all"},
		"touch the revision that rolls":    {"patch", "statefulset", "rpc-00", "--subresource=status", "--type=merge", "-p", `{"status":{"currentRevision":"other"}}`},
		"give the node another's revision": {"patch", "statefulset", "rpc-00", "--subresource=status", "--type=merge", "-p", `{"status":{"updateRevision":"other"}}`},
	} {
		output, err := rig.Kubectl(t.Context(), fmt.Sprintf(slot, "paceline-slot-0"), append([]string{"--as=alice", "-n", cell.Name}, args...)...)
		require.Error(t, err, what)
		require.Contains(t, output.Stderr, "aceline", "%s: who forbids it", what)
	}
	output, err := rig.Kubectl(t.Context(), fmt.Sprintf(slot, "paceline-slot-9"), "--as=alice", "-n", cell.Name, "create", "-f", "-")
	require.Error(t, err, "make a slot")
	require.Contains(t, output.Stderr, "paceline-slot-9")
	other := rig.NewCell(t, harness.CellOptions{Budget: "50", Nodes: 1})
	_, err = rig.Kubectl(t.Context(), "", "--as=alice", "-n", other.Name, "annotate", "statefulset", "rpc-00", "note=x")
	require.ErrorContains(t, err, "orbidden", "another cell is out of reach")
	_, err = rig.Kubectl(t.Context(), "", "--as=alice", "annotate", "namespace", cell.Name, "paceline.io/freeze-")
	require.ErrorContains(t, err, "orbidden", "and so are the settings of this one")

	_, err = as("set", "image", "statefulset/rpc-00", "app=app:v2")
	require.NoError(t, err)
	cell.WaitHeld(t, "rpc-00")
	forged := `{"metadata":{"annotations":{"paceline.io/slot":"paceline-slot-0/1","paceline.io/held":null,"paceline.io/cleared":null}}}`
	_, err = as("patch", "statefulset", "rpc-00", "--type=merge", "-p", forged)
	require.NoError(t, err, "what is ours is carried over, the rest of the request passes")
	set := cell.Node(t, "rpc-00")
	require.Empty(t, set.Annotations[harness.AnnotationSlot])
	require.NotEmpty(t, set.Annotations[harness.AnnotationHeld])
	require.NotEmpty(t, set.Annotations[harness.AnnotationCleared])
	_, err = as("patch", "statefulset", "rpc-00", "--subresource=status", "--type=merge", "-p", forged)
	require.Error(t, err)
	_, err = as("patch", "statefulset", "rpc-00", "--type=merge", "-p", `{"spec":{"updateStrategy":{"rollingUpdate":{"partition":0}}}}`)
	require.NoError(t, err)
	require.Equal(t, harness.HeldPartition, *cell.Node(t, "rpc-00").Spec.UpdateStrategy.RollingUpdate.Partition, "the partition opens no hold")
	cell.Finish(t, checker.Expect{Quiet: true})
}

// What a person writes wrong is refused where the value is known to be wrong, and warned of where the name is not
// known: neither passes in silence. What stands there already blocks nothing.
func TestMisspeltIntentsAreSaid(t *testing.T) {
	t.Parallel()
	cell := rig.NewCell(t, harness.CellOptions{Budget: "50", Nodes: 1})
	for name, c := range map[string]struct {
		args    []string
		refused bool
		says    string
	}{
		"an unknown annotation of a namespace": {[]string{"annotate", "namespace", cell.Name, "paceline.io/frezze=true"}, false, "paceline.io/frezze has no effect on a Namespace"},
		"a percentage with its sign":           {[]string{"annotate", "namespace", cell.Name, "--overwrite", "paceline.io/drift-update-budget-percent=25%"}, true, `"25%": want an integer from 0 to 100`},
		"an unknown annotation of a node":      {[]string{"annotate", "-n", cell.Name, "statefulset", "rpc-00", "paceline.io/pause=true"}, false, "paceline.io/pause has no effect on a StatefulSet"},
		"a wrong value":                        {[]string{"annotate", "-n", cell.Name, "statefulset", "rpc-00", "paceline.io/paused=yes"}, true, `paceline.io/paused: "yes": want true or false`},
		"a wrong label of a node":              {[]string{"label", "-n", cell.Name, "statefulset", "rpc-00", "paceline.io/pacing=off"}, false, `"off" has no effect here: want disabled`},
	} {
		t.Run(name, func(t *testing.T) {
			output, err := rig.Kubectl(t.Context(), "", c.args...)
			require.Equal(t, c.refused, err != nil, output.Stderr)
			require.Contains(t, output.Stderr, c.says)
		})
	}
	output, err := rig.Kubectl(t.Context(), "", "annotate", "namespace", cell.Name, "note=kept")
	require.NoError(t, err)
	require.Empty(t, output.Stderr, "what stands there is not said again")
	cell.Finish(t, checker.Expect{Quiet: true})
}
