package node

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

const template = `{"metadata":{"creationTimestamp":null,"labels":{"app":"rpc"}},"spec":{
	"initContainers":[{"name":"init","image":"init:v1"}],
	"containers":[{"name":"app","image":"app:v1","env":[{"name":"A","value":"1"}]},{"name":"side","image":"side:v1"}],
	"volumes":[{"name":"data","emptyDir":{}},{"name":"model","image":{"reference":"model:v1"}}],
	"nodeSelector":{"disk":"ssd"}}}`

func TestPacedOfTemplate(t *testing.T) {
	t.Parallel()
	base, err := PacedOfTemplate([]byte(template))
	require.NoError(t, err)
	require.Equal(t, map[string]string{"app": "app:v1", "side": "side:v1"}, base.Containers)
	require.Equal(t, map[string]string{"init": "init:v1"}, base.InitContainers)
	require.Equal(t, map[string]string{"model": "model:v1"}, base.Volumes)
	require.JSONEq(t, `{"nodeSelector":{"disk":"ssd"}}`, string(base.Isolation))

	cases := map[string]struct {
		change             func(spec, metadata map[string]any)
		inImages, inWholly bool
	}{
		"nothing":              {func(_, _ map[string]any) {}, false, false},
		"a null field":         {func(s, _ map[string]any) { s["affinity"] = nil }, false, false},
		"an empty tolerations": {func(s, _ map[string]any) { s["tolerations"] = []any{} }, false, true},
		"an image":             {func(s, _ map[string]any) { container(s, "containers", 0)["image"] = "app:v2" }, true, true},
		"an init image":        {func(s, _ map[string]any) { container(s, "initContainers", 0)["image"] = "init:v2" }, true, true},
		"an image volume": {func(s, _ map[string]any) {
			container(s, "volumes", 1)["image"] = map[string]any{"reference": "model:v2"}
		}, true, true},
		"another volume": {func(s, _ map[string]any) { container(s, "volumes", 0)["name"] = "other" }, false, true},
		"a container more": {func(s, _ map[string]any) {
			s["containers"] = append(s["containers"].([]any), map[string]any{"name": "new", "image": "x"})
		}, true, true},
		"a container less":     {func(s, _ map[string]any) { s["containers"] = s["containers"].([]any)[:1] }, true, true},
		"a container renamed":  {func(s, _ map[string]any) { container(s, "containers", 0)["name"] = "other" }, true, true},
		"containers reordered": {func(s, _ map[string]any) { c := s["containers"].([]any); c[0], c[1] = c[1], c[0] }, false, true},
		"a toleration":         {func(s, _ map[string]any) { s["tolerations"] = []any{map[string]any{"key": "x"}} }, true, true},
		"the node selector":    {func(s, _ map[string]any) { s["nodeSelector"] = map[string]any{"disk": "hdd"} }, true, true},
		"a label":              {func(_, m map[string]any) { m["labels"] = map[string]any{"app": "x"} }, false, true},
		"the environment":      {func(s, _ map[string]any) { container(s, "containers", 0)["env"] = nil }, false, true},
		"the restart timestamp": {func(_, m map[string]any) {
			m["annotations"] = map[string]any{"kubectl.kubernetes.io/restartedAt": "now"}
		}, false, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var value map[string]map[string]any
			require.NoError(t, json.Unmarshal([]byte(template), &value))
			c.change(value["spec"], value["metadata"])
			text, err := json.Marshal(value)
			require.NoError(t, err)
			changed, err := PacedOfTemplate(text)
			require.NoError(t, err)
			require.Equal(t, c.inImages, !base.Equal(changed, PaceImages), "pace images")
			require.Equal(t, c.inWholly, !base.Equal(changed, PaceTemplate), "pace template")
			require.Equal(t, c.inImages, base.Digest(PaceImages) != changed.Digest(PaceImages))
		})
	}
}

func container(spec map[string]any, list string, i int) map[string]any {
	return spec[list].([]any)[i].(map[string]any)
}

// A recorded template is the template, whatever directive and nulls it was recorded with.
func TestPacedOfRevision(t *testing.T) {
	t.Parallel()
	revision := &appsv1.ControllerRevision{Data: runtime.RawExtension{
		Raw: []byte(`{"spec":{"template":{"$patch":"replace",` + template[1:] + `}}`),
	}}
	got, err := PacedOfRevision(revision)
	require.NoError(t, err)
	want, err := PacedOfTemplate([]byte(template))
	require.NoError(t, err)
	require.Equal(t, want, got)

	for name, raw := range map[string]string{"no template": `{"spec":{}}`, "no JSON": `{`, "empty": ``} {
		_, err := PacedOfRevision(&appsv1.ControllerRevision{Data: runtime.RawExtension{Raw: []byte(raw)}})
		require.Error(t, err, name)
	}
}

func TestRevisionsOf(t *testing.T) {
	t.Parallel()
	revisions := Revisions{"r1": images("a")}
	got, known := revisions.Of("r1", nil)
	require.True(t, known)
	require.Equal(t, images("a"), got)
	got, known = revisions.Of("r0", &Cleared{Revision: "r0", Canary: images("b")})
	require.True(t, known, "cleared speaks for a revision that is gone")
	require.Equal(t, images("b"), got)
	_, known = revisions.Of("r2", &Cleared{Revision: "r0"})
	require.False(t, known)
}

func TestAnnotationsRoundTrip(t *testing.T) {
	t.Parallel()
	paced, err := PacedOfTemplate([]byte(template))
	require.NoError(t, err)
	held := Held{Running: paced, Partition: ptr.To(int32(2))}
	readHeld, err := ParseHeld(held.String())
	require.NoError(t, err)
	require.Equal(t, held, *readHeld)
	require.Equal(t, held.String(), readHeld.String(), "the same bytes twice")

	cleared := Cleared{Revision: "rpc-5d", Ready: true, Running: paced, Partition: 1, Canary: images("x")}
	readCleared, err := ParseCleared(cleared.String())
	require.NoError(t, err)
	require.Equal(t, cleared, *readCleared)
	require.Equal(t, cleared.String(), readCleared.String(), "the same bytes twice")

	ref, err := ParseSlotRef(SlotRef{"paceline-slot-3", 7}.String())
	require.NoError(t, err)
	require.Equal(t, SlotRef{"paceline-slot-3", 7}, *ref)
	for _, bad := range []string{"", "paceline-slot-3", "/7", "paceline-slot-3/x", "paceline-slot-3/99999999999"} {
		_, err := ParseSlotRef(bad)
		require.ErrorContains(t, err, AnnotationSlot)
	}
	for _, bad := range []string{"", "{", `{"v":2}`, `[]`} {
		_, err := ParseHeld(bad)
		require.ErrorContains(t, err, AnnotationHeld)
		_, err = ParseCleared(bad)
		require.ErrorContains(t, err, AnnotationCleared)
	}
}

func TestParseCell(t *testing.T) {
	t.Parallel()
	defaults := Cell{Percent: 10, Pace: PaceImages, Gate: GateNative}
	enabled := map[string]string{LabelPacing: PacingEnabled}
	cases := map[string]struct {
		labels, annotations map[string]string
		want                Cell
		problem             string
	}{
		"no label: no cell":     {nil, nil, Cell{Enabled: false, Percent: 10, Frozen: false, Pace: PaceImages, Gate: GateNative}, ""},
		"the file's values":     {enabled, nil, Cell{Enabled: true, Percent: 10, Frozen: false, Pace: PaceImages, Gate: GateNative}, ""},
		"everything overridden": {enabled, map[string]string{AnnotationBudget: "25", AnnotationFreeze: "true", AnnotationPace: "template", AnnotationGate: "pin"}, Cell{Enabled: true, Percent: 25, Frozen: true, Pace: PaceTemplate, Gate: GatePin}, ""},
		"0 holds nothing":       {enabled, map[string]string{AnnotationBudget: "0"}, Cell{Enabled: true, Percent: 0, Frozen: false, Pace: PaceImages, Gate: GateNative}, ""},
		"101 stays at 10":       {enabled, map[string]string{AnnotationBudget: "101"}, Cell{Enabled: true, Percent: 10, Frozen: false, Pace: PaceImages, Gate: GateNative}, "0 to 100"},
		"25% stays at 10":       {enabled, map[string]string{AnnotationBudget: "25%"}, Cell{Enabled: true, Percent: 10, Frozen: false, Pace: PaceImages, Gate: GateNative}, "digits only"},
		"-1 stays at 10":        {enabled, map[string]string{AnnotationBudget: "-1"}, Cell{Enabled: true, Percent: 10, Frozen: false, Pace: PaceImages, Gate: GateNative}, AnnotationBudget},
		"a bad pace":            {enabled, map[string]string{AnnotationPace: "fast"}, Cell{Enabled: true, Percent: 10, Frozen: false, Pace: PaceImages, Gate: GateNative}, AnnotationPace},
		"a bad gate":            {enabled, map[string]string{AnnotationGate: "wide"}, Cell{Enabled: true, Percent: 10, Frozen: false, Pace: PaceImages, Gate: GateNative}, AnnotationGate},
		"a bad freeze":          {enabled, map[string]string{AnnotationFreeze: "yes"}, Cell{Enabled: true, Percent: 10, Frozen: false, Pace: PaceImages, Gate: GateNative}, AnnotationFreeze},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, problems := ParseCell(c.labels, c.annotations, defaults)
			require.Equal(t, c.want, got)
			if c.problem == "" {
				require.Empty(t, problems)
				return
			}
			require.Len(t, problems, 1)
			require.ErrorContains(t, problems[0], c.problem)
		})
	}
}
