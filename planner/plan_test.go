package planner

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/paceline/paceline/node"
)

func taskTypes(p Plan) []TaskType {
	var types []TaskType
	for _, task := range p.Tasks {
		types = append(types, task.Type)
	}
	return types
}

func TestNewPlan(t *testing.T) {
	t.Parallel()
	f := resting(asks("v2"))
	p := NewPlan(f.View, node.PaceImages, 3, moment)
	require.Equal(t, []TaskType{TaskApply, TaskReplace, TaskObserve, TaskReady}, taskTypes(p))
	require.Equal(t, PlanNode{"rpc-0", "u"}, p.Node)
	ids := map[string]bool{p.ID: true}
	for _, task := range p.Tasks {
		require.Equal(t, StatePending, task.State)
		require.Equal(t, 1, task.Attempt)
		require.False(t, ids[task.ID], "ids differ")
		ids[task.ID] = true
	}
	require.Equal(t, p, NewPlan(f.View, node.PaceImages, 3, moment), "the same for the same wish, slot and time")
	released := f.but(whenUpdated)
	require.Equal(t, []TaskType{TaskApply, TaskReplace, TaskObserve}, taskTypes(NewPlan(released.View, node.PaceImages, 3, moment)))
}

func TestPlanRoundTrip(t *testing.T) {
	t.Parallel()
	f := resting(asks("v2"))
	p := NewPlan(f.View, node.PaceImages, 3, moment.Add(123*time.Millisecond))
	p.Tasks[0].finish(moment)
	p.Tasks[1].start(moment)
	got, err := ParsePlan(p.String())
	require.NoError(t, err)
	require.Equal(t, p, got)
	require.Equal(t, p.String(), got.String(), "the same bytes twice")
	require.NotContains(t, p.String(), "v2", "a plan names no image")

	var shape map[string]any
	require.NoError(t, json.Unmarshal([]byte(p.String()), &shape))
	for _, key := range []string{"v", "id", "type", "mode", "node", "createdAt", "tasks"} {
		require.Contains(t, shape, key)
	}
}

func TestParsePlan(t *testing.T) {
	t.Parallel()
	good := NewPlan(resting().View, node.PaceImages, 1, moment).String()
	cases := map[string]struct {
		text    string
		unknown bool
	}{
		"another version":           {strings.Replace(good, `"v":1`, `"v":2`, 1), true},
		"no version":                {`{}`, true},
		"another type":              {strings.Replace(good, `"update"`, `"reset"`, 1), true},
		"a task that nobody knows":  {strings.Replace(good, `"replace-pod"`, `"format-disk"`, 1), true},
		"no tasks":                  {strings.Replace(good, good[max(0, strings.Index(good, `"tasks"`)):], `"tasks":[]}`, 1), false},
		"truncated":                 {good[:len(good)/2], false},
		"empty":                     {"", false},
		"no object":                 {`[]`, false},
		"a time that is none":       {strings.Replace(good, `"createdAt":"2026`, `"createdAt":"x`, 1), false},
		"a state that nobody knows": {strings.Replace(good, `"tasks":[`, `"tasks":[7,`, 1), false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := ParsePlan(c.text)
			require.ErrorContains(t, err, node.AnnotationPlan)
			if c.unknown {
				require.ErrorIs(t, err, ErrUnknownPlan)
			} else {
				require.NotErrorIs(t, err, ErrUnknownPlan)
			}
		})
	}
}

func TestPlanFor(t *testing.T) {
	t.Parallel()
	f := resting(asks("v2"), holds)
	p, err := ParsePlan(f.Slot.Plan)
	require.NoError(t, err)
	cases := map[string]struct {
		facts Facts
		pace  node.Pace
		want  bool
	}{
		"the same wish under the same slot": {f, node.PaceImages, true},
		"a new wish":                        {f.but(asks("v3")), node.PaceImages, false},
		"another transition of the slot":    {f.but(func(f *Facts) { s := *f.Slot; s.Transitions++; f.Slot = &s }), node.PaceImages, false},
		"recreated under its name":          {f.but(func(f *Facts) { f.UID = "other" }), node.PaceImages, false},
		"another node's plan":               {f.but(func(f *Facts) { f.Name = "rpc-1" }), node.PaceImages, false},
		"pace switched":                     {f, node.PaceTemplate, false},
		"an unpaced field changed":          {f.but(func(f *Facts) { f.Template.Template = "sha256:other" }), node.PaceImages, true},
		"scaled":                            {f.but(replicas(5)), node.PaceImages, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, p.For(c.facts.View, c.pace, *c.facts.Slot))
		})
	}
}
