package e2e

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/paceline/paceline/test/checker"
	"github.com/paceline/paceline/test/e2e/harness"
)

type checkerReport = checker.Report

// reapply is a writer that applies the same manifests again and again, as an operator or a GitOps
// loop does.
type reapply struct {
	cell  *harness.Cell
	image string
	wg    sync.WaitGroup
	mu    sync.Mutex
	err   error
	count int
}

// start applies every 200 ms until ctx ends.
func (r *reapply) start(ctx context.Context) {
	r.wg.Go(func() {
		ticker := time.NewTicker(200 * time.Millisecond)
		defer ticker.Stop()
		for {
			for i := range r.cell.Nodes {
				if err := r.apply(ctx, i); err != nil && ctx.Err() == nil {
					r.mu.Lock()
					r.err = err
					r.mu.Unlock()
				}
			}
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	})
}

func (r *reapply) apply(ctx context.Context, i int) error {
	patch := `{"apiVersion":"apps/v1","kind":"StatefulSet","spec":{"template":{"spec":{"containers":[{"name":"app","image":"` + r.image + `"}]}}}}`
	_, err := r.cell.Client.AppsV1().StatefulSets(r.cell.Name).Patch(ctx, r.cell.Nodes[i], types.ApplyPatchType, []byte(patch),
		metav1.PatchOptions{FieldManager: "gitops", Force: new(true)})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count++
	return err
}

// The writer re-applies every 200 ms during the whole roll: no early start, no conflict, and what it
// applies is a no-op once it stands (the generation moves only with the hold and its end).
func TestAWriterReappliesDuringTheWholeRoll(t *testing.T) {
	t.Parallel()
	cell := rig.NewCell(t, harness.CellOptions{Budget: "25", Nodes: 8})
	ctx, stop := context.WithCancel(t.Context())
	writer := &reapply{cell: cell, image: "app:v2"}
	writer.start(ctx)
	cell.WaitImage(t, "app:v2")
	stop()
	writer.wg.Wait()
	require.NoError(t, writer.err)
	require.Greater(t, writer.count, 8*5)
	report := cell.AssertMaxDown(t, 2)
	require.Empty(t, report.WithoutSlot())
	require.Equal(t, 8, report.TotalRestarts())
	for _, name := range cell.Nodes {
		set := cell.Node(t, name)
		require.LessOrEqual(t, set.Generation, int64(3), "%s: created, bumped and held in one write, opened", name)
		for _, entry := range set.ManagedFields {
			if entry.Manager == "paceline" && entry.FieldsV1 != nil {
				require.NotContains(t, entry.FieldsV1.GetRawString(), "f:spec", "%s: no manager of ours owns anything under spec", name)
			}
		}
	}
}
