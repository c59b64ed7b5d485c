package planner

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/paceline/paceline/lease"
	"github.com/paceline/paceline/node"
)

// granting is a cell with three free slots, and three nodes that wait among six.
type granting struct {
	*CellReconciler
	pass    pass
	clock   *clocktesting.FakePassiveClock
	granted int
}

// newGranting calls meanwhile after each grant.
func newGranting(t *testing.T, meanwhile func(context.Context, *granting) error) *granting {
	t.Helper()
	g := &granting{clock: clocktesting.NewFakePassiveClock(moment)}
	settings := node.Cell{Percent: 50, Pace: node.PaceImages, Gate: node.GateNative}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "cell", Labels: map[string]string{node.LabelPacing: node.PacingEnabled}}}
	api := fake.NewClientBuilder().WithObjects(namespace).WithInterceptorFuncs(interceptor.Funcs{
		Update: func(ctx context.Context, api client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			if err := api.Update(ctx, o, options...); err != nil || kindOf(o) != "Lease" {
				return err
			}
			g.granted++
			return meanwhile(ctx, g)
		},
	}).Build()
	g.CellReconciler = &CellReconciler{Options: Options{
		Fleet: Fleet{Cache: api, Live: api, Scope: node.Scope{Defaults: settings}},
		Store: lease.Store{Reader: api, Writer: api, Clock: g.clock}, Writer: api, Clock: g.clock, Events: events.NewFakeRecorder(10),
	}}
	settings.Enabled = true
	g.pass = pass{namespace: "cell", cell: settings, at: moment}
	for i := range 6 {
		f := resting()
		if i < 3 {
			f = resting(asks("v2"), gated)
			require.NoError(t, g.Store.Create(t.Context(), "cell", i, time.Minute))
		}
		f.Name, f.UID = fmt.Sprintf("rpc-%d", i), types.UID(fmt.Sprintf("u-%d", i))
		g.pass.nodes = append(g.pass.nodes, lease.Node{View: f.View, Paced: true})
	}
	var err error
	g.pass.slots, err = g.Store.List(t.Context(), "cell")
	require.NoError(t, err)
	require.Len(t, g.pass.moves().Grant, 3)
	return g
}

func (g *granting) changeCell(ctx context.Context, change func(*corev1.Namespace)) error {
	var ns corev1.Namespace
	if err := g.Fleet.Live.Get(ctx, types.NamespacedName{Name: "cell"}, &ns); err != nil {
		return err
	}
	change(&ns)
	return g.Writer.Update(ctx, &ns)
}

// A pass grants one slot after the other: what a person lowers between two of them counts.
func TestAPassStopsGrantingWhenTheCellChanges(t *testing.T) {
	t.Parallel()
	annotates := func(key, value string) func(context.Context, *granting) error {
		return func(ctx context.Context, g *granting) error {
			return g.changeCell(ctx, func(ns *corev1.Namespace) { ns.Annotations = map[string]string{key: value} })
		}
	}
	for name, c := range map[string]struct {
		meanwhile func(context.Context, *granting) error
		granted   int
	}{
		"an annotation of somebody": {annotates("note", "kept"), 3},
		"the cell is frozen":        {annotates(node.AnnotationFreeze, "true"), 1},
		"the percentage falls":      {annotates(node.AnnotationBudget, "1"), 1},
		"it is a cell no more": {func(ctx context.Context, g *granting) error {
			return g.changeCell(ctx, func(ns *corev1.Namespace) { ns.Labels = nil })
		}, 1},
		"the write took a minute": {func(_ context.Context, g *granting) error {
			g.clock.SetTime(moment.Add(time.Minute))
			return nil
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGranting(t, c.meanwhile)
			err := g.move(t.Context(), g.pass)
			require.Equal(t, c.granted, g.granted)
			if c.granted < 3 {
				require.ErrorIs(t, err, errStale, "it looks again")
				return
			}
			require.NoError(t, err)
		})
	}
}
