package webhook

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"github.com/paceline/paceline/lease"
	"github.com/paceline/paceline/node"
)

// pinned is one StatefulSet in a cell of the pin gate, as the API server keeps it: what the webhook answers
// to a write is applied to it.
type pinned struct {
	*surroundings
	set map[string]any
	// warnings are those of the last write, patch its patch.
	warnings []string
	patch    []byte
}

func pinCell(t *testing.T) *pinned {
	t.Helper()
	p := &pinned{surroundings: inCell()}
	p.cell.Gate, p.live.Gate = node.GatePin, node.GatePin
	p.slots = map[string]lease.Slot{}
	require.NoError(t, json.Unmarshal([]byte(`{"apiVersion":"apps/v1","kind":"StatefulSet",
		"metadata":{"name":"rpc-0","namespace":"cell","uid":"u","generation":4},
		"spec":{"replicas":1,"selector":{"matchLabels":{"app":"rpc"}},"serviceName":"rpc",
			"template":{"metadata":{"labels":{"app":"rpc"}},"spec":{
				"containers":[{"name":"app","image":"app:v1"},{"name":"side","image":"side:v1"}],
				"initContainers":[{"name":"init","image":"init:v1"}],
				"volumes":[{"name":"data","emptyDir":{}},{"name":"model","image":{"reference":"model:v1"}}]}},
			"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"partition":0}}},
		"status":{"observedGeneration":4,"replicas":1,"readyReplicas":1,"currentRevision":"r","updateRevision":"r"}}`), &p.set))
	return p
}

// writer is who writes, and how.
type writer struct {
	user, manager string
	// managed are the new object's managedFields, lastApplied its annotation of kubectl, where they matter.
	managed     string
	lastApplied string
	// whole: the request's object carries none of our annotations.
	whole bool
}

var (
	helm    = writer{user: "helm", manager: "helm"}
	kubectl = writer{user: "alice", manager: "kubectl-edit"}
	us      = writer{user: account, manager: "paceline"}
)

type edit func(set map[string]any)

// write sends one update and keeps what comes of it.
func (p *pinned) write(t *testing.T, by writer, edits ...edit) Reason {
	t.Helper()
	old := clone(t, p.set)
	asked := clone(t, p.set)
	for _, e := range edits {
		e(asked)
	}
	if by.whole {
		for name := range annotationsOf(asked) {
			if strings.HasPrefix(name, node.Domain) {
				delete(annotationsOf(asked), name)
			}
		}
	}
	if by.lastApplied != "" {
		annotationsOf(asked)[lastApplied] = by.lastApplied
	}
	withManaged := clone(t, asked)
	if by.managed != "" {
		var entries any
		require.NoError(t, json.Unmarshal([]byte(by.managed), &entries))
		withManaged["metadata"].(map[string]any)["managedFields"] = entries
	}
	review := map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": map[string]any{
		"uid": "r1", "kind": map[string]any{"group": "apps", "version": "v1", "kind": "StatefulSet"}, "name": "rpc-0", "namespace": "cell",
		"operation": "UPDATE", "userInfo": map[string]any{"username": by.user}, "options": map[string]any{"fieldManager": by.manager},
		"object": withManaged, "oldObject": old,
	}}
	text, err := json.Marshal(review)
	require.NoError(t, err)
	p.reasons = nil
	answer := p.admit(t, string(text))
	p.warnings, p.patch = answer.Warnings, answer.Patch
	require.True(t, answer.Allowed, "%+v", answer.Status)
	p.set = asked
	if answer.Patch != nil {
		operations, err := jsonpatch.DecodePatch(answer.Patch)
		require.NoError(t, err)
		text, err := json.Marshal(asked)
		require.NoError(t, err)
		text, err = operations.Apply(text)
		require.NoError(t, err)
		p.set = map[string]any{}
		require.NoError(t, json.Unmarshal(text, &p.set))
	}
	return p.reasons[0]
}

func clone(t *testing.T, set map[string]any) map[string]any {
	t.Helper()
	text, err := json.Marshal(set)
	require.NoError(t, err)
	var out map[string]any
	require.NoError(t, json.Unmarshal(text, &out))
	return out
}

func annotationsOf(set map[string]any) map[string]any {
	metadata := set["metadata"].(map[string]any)
	if metadata["annotations"] == nil {
		metadata["annotations"] = map[string]any{}
	}
	return metadata["annotations"].(map[string]any)
}

func specOf(set map[string]any) map[string]any { return set["spec"].(map[string]any) }

func templateOf(set map[string]any) map[string]any {
	return specOf(set)["template"].(map[string]any)
}

func podSpecOf(set map[string]any) map[string]any { return templateOf(set)["spec"].(map[string]any) }

// imageOf sets the image of an item: list "containers", "initContainers" or "volumes".
func imageOf(list, name, to string) edit {
	return func(set map[string]any) {
		for _, each := range podSpecOf(set)[list].([]any) {
			item := each.(map[string]any)
			switch {
			case item["name"] != name:
			case list == "volumes":
				item["image"].(map[string]any)["reference"] = to
			default:
				item["image"] = to
			}
		}
	}
}

func app(to string) edit { return imageOf("containers", "app", to) }

func podLabel(value string) edit {
	return func(set map[string]any) {
		templateOf(set)["metadata"].(map[string]any)["labels"].(map[string]any)["chart"] = value
	}
}

func podField(name string, value any) edit {
	return func(set map[string]any) { podSpecOf(set)[name] = value }
}

func scaled(n int) edit { return func(set map[string]any) { specOf(set)["replicas"] = n } }

func annotated(name, value string) edit {
	return func(set map[string]any) { annotationsOf(set)[name] = value }
}

func (p *pinned) images() map[string]string {
	out := map[string]string{}
	for _, list := range []string{"containers", "initContainers"} {
		items, _ := podSpecOf(p.set)[list].([]any)
		for _, each := range items {
			item := each.(map[string]any)
			out[item["name"].(string)] = item["image"].(string)
		}
	}
	for _, each := range podSpecOf(p.set)["volumes"].([]any) {
		if source, ok := each.(map[string]any)["image"].(map[string]any); ok {
			out[each.(map[string]any)["name"].(string)] = source["reference"].(string)
		}
	}
	return out
}

// waits asserts what is deferred, by field: its JSON.
func (p *pinned) waits(t *testing.T, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	if text, ok := annotationsOf(p.set)[node.AnnotationDeferred].(string); ok {
		deferred, err := node.ParseDeferred(text)
		require.NoError(t, err)
		for field, wish := range deferred.Fields {
			got[field] = string(wish.Want)
		}
	}
	require.Equal(t, want, got)
	require.NotContains(t, annotationsOf(p.set), node.AnnotationHeld, "nothing is held natively")
	require.EqualValues(t, 0, specOf(p.set)["updateStrategy"].(map[string]any)["rollingUpdate"].(map[string]any)["partition"])
}

// grant gives the node a slot, as the reconciler does.
func (p *pinned) grant(t *testing.T) Reason {
	t.Helper()
	p.slots["paceline-slot-0"] = lease.Slot{Name: "paceline-slot-0", Holder: "rpc-0", HolderUID: "u", Transitions: 3}
	return p.write(t, us, annotated(node.AnnotationSlot, "paceline-slot-0/3"))
}

// The paced fields stay as they are stored, whatever they are; the rest of the write applies; with the slot
// what was asked for is there.
func TestPinDefersEveryPacedField(t *testing.T) {
	t.Parallel()
	affinity := map[string]any{"nodeAffinity": map[string]any{}}
	side2 := []any{map[string]any{"name": "app", "image": "app:v1"}, map[string]any{"name": "other", "image": "other:v1", "args": []any{"-x"}}}
	for name, c := range map[string]struct {
		edit   edit
		fields []string
	}{
		"a container's image":      {app("app:v2"), []string{"containers/app"}},
		"two images":               {func(set map[string]any) { app("app:v2")(set); imageOf("containers", "side", "side:v2")(set) }, []string{"containers/app", "containers/side"}},
		"an init container's":      {imageOf("initContainers", "init", "init:v2"), []string{"initContainers/init"}},
		"an image volume's":        {imageOf("volumes", "model", "model:v2"), []string{"volumes/model"}},
		"affinity":                 {podField("affinity", affinity), []string{"affinity"}},
		"tolerations":              {podField("tolerations", []any{map[string]any{"key": "x"}}), []string{"tolerations"}},
		"a container for another":  {podField("containers", side2), []string{"spec"}},
		"an init container less":   {podField("initContainers", []any{}), []string{"spec"}},
		"an image volume less":     {podField("volumes", []any{map[string]any{"name": "data", "emptyDir": map[string]any{}}}), []string{"spec"}},
		"containers in new order":  {podField("containers", []any{map[string]any{"name": "side", "image": "side:v1"}, map[string]any{"name": "app", "image": "app:v2"}}), []string{"containers/app"}},
		"an image and no selector": {func(set map[string]any) { app("app:v2")(set); podField("nodeSelector", map[string]any{})(set) }, []string{"containers/app"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := pinCell(t)
			before, wanted := p.images(), clone(t, p.set)
			c.edit(wanted)
			require.Equal(t, ReasonHeld, p.write(t, helm, c.edit))
			require.Equal(t, before, p.images(), "as they were")
			deferred, err := node.ParseDeferred(annotationsOf(p.set)[node.AnnotationDeferred].(string))
			require.NoError(t, err)
			var fields []string
			for field, wish := range deferred.Fields {
				fields = append(fields, field)
				require.Equal(t, node.Author{FieldManager: "helm", User: "helm"}, wish.By)
			}
			require.ElementsMatch(t, c.fields, fields)
			require.Contains(t, p.warnings[0], "paceline: rpc-0 waits, place 1 for 2 slots held by rpc-1, rpc-2")

			again := clone(t, p.set)
			require.Equal(t, ReasonHeld, p.write(t, writer{user: "helm", manager: "helm"}, c.edit), "the same render again")
			require.Equal(t, again, p.set, "is a write of nothing")
			require.Empty(t, p.warnings, "and says nothing anew")
			require.Equal(t, ReasonHeld, p.write(t, us, annotated(node.AnnotationTouch, "1")), "a touch moves nothing")
			delete(annotationsOf(p.set), node.AnnotationTouch)
			require.Equal(t, again, p.set)

			require.Equal(t, ReasonOpened, p.grant(t))
			require.JSONEq(t, templateText(t, wanted), templateText(t, p.set))
			require.NotContains(t, annotationsOf(p.set), node.AnnotationDeferred)
		})
	}
}

func templateText(t *testing.T, set map[string]any) string {
	t.Helper()
	text, err := node.FieldOf(node.FieldTemplate, []byte(mustText(t, templateOf(set))))
	require.NoError(t, err)
	return string(text)
}

func mustText(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	require.NoError(t, err)
	return string(text)
}

// Whatever else the write changes applies at once; the writer is told that this restarts the pods.
func TestPinAppliesTheRest(t *testing.T) {
	t.Parallel()
	p := pinCell(t)
	require.Equal(t, ReasonHeld, p.write(t, helm, app("app:v2"), podLabel("2"), scaled(3)))
	p.waits(t, map[string]string{"containers/app": `"app:v2"`})
	require.EqualValues(t, 3, specOf(p.set)["replicas"])
	require.Contains(t, mustText(t, templateOf(p.set)), `"chart":"2"`)
	require.Len(t, p.warnings, 2)
	require.Contains(t, p.warnings[1], "other fields of the template apply now, and its pods restart for them")

	require.Equal(t, ReasonHeld, p.write(t, kubectl, podLabel("3")), "while it waits, too")
	p.waits(t, map[string]string{"containers/app": `"app:v2"`})
	require.Len(t, p.warnings, 1)
	require.Equal(t, ReasonPass, pinCell(t).write(t, helm, podLabel("2")), "without an image nothing waits")
}

func TestPinWishesAddUp(t *testing.T) {
	t.Parallel()
	t.Run("another field", func(t *testing.T) {
		t.Parallel()
		p := pinCell(t)
		p.write(t, helm, app("app:v2"))
		p.write(t, kubectl, imageOf("containers", "side", "side:v2"))
		p.waits(t, map[string]string{"containers/app": `"app:v2"`, "containers/side": `"side:v2"`})
		p.grant(t)
		require.Equal(t, "app:v2", p.images()["app"])
		require.Equal(t, "side:v2", p.images()["side"])
	})
	t.Run("the same field: the last one counts", func(t *testing.T) {
		t.Parallel()
		p := pinCell(t)
		p.write(t, helm, app("app:v2"))
		p.write(t, kubectl, app("app:v3"))
		p.waits(t, map[string]string{"containers/app": `"app:v3"`})
	})
	t.Run("a container more on top of an image", func(t *testing.T) {
		t.Parallel()
		p := pinCell(t)
		p.write(t, helm, app("app:v2"))
		p.write(t, kubectl, func(set map[string]any) {
			podSpecOf(set)["containers"] = append(podSpecOf(set)["containers"].([]any), map[string]any{"name": "new", "image": "new:v1"})
		})
		require.NotContains(t, p.images(), "new")
		p.grant(t)
		require.Equal(t, "app:v2", p.images()["app"])
		require.Equal(t, "new:v1", p.images()["new"])
	})
	t.Run("an image and another field on top of a container more", func(t *testing.T) {
		t.Parallel()
		p := pinCell(t)
		p.write(t, helm, func(set map[string]any) {
			podSpecOf(set)["containers"] = append(podSpecOf(set)["containers"].([]any), map[string]any{"name": "new", "image": "new:v1"})
		})
		p.write(t, kubectl, app("app:v2"), podField("terminationGracePeriodSeconds", 7))
		require.Equal(t, "app:v1", p.images()["app"])
		p.grant(t)
		require.Equal(t, "app:v2", p.images()["app"])
		require.Equal(t, "new:v1", p.images()["new"])
		require.EqualValues(t, 7, podSpecOf(p.set)["terminationGracePeriodSeconds"])
	})
	t.Run("a new wish as the slot comes", func(t *testing.T) {
		t.Parallel()
		p := pinCell(t)
		p.write(t, helm, app("app:v2"), imageOf("containers", "side", "side:v2"))
		p.grant(t)
		require.Equal(t, ReasonOpened, p.write(t, helm, app("app:v3")), "it rolls under the same slot")
		require.Equal(t, "app:v3", p.images()["app"])
		require.Equal(t, "side:v2", p.images()["side"])
	})
}

// What else ends a wait, and what does not.
func TestPinEndsAndSwitches(t *testing.T) {
	t.Parallel()
	waiting := func(t *testing.T) *pinned {
		t.Helper()
		p := pinCell(t)
		require.Equal(t, ReasonHeld, p.write(t, helm, app("app:v2")))
		return p
	}
	const touched = node.AnnotationTouch
	t.Run("paused: never pinned", func(t *testing.T) {
		t.Parallel()
		p := waiting(t)
		require.Equal(t, ReasonPaused, p.write(t, kubectl, scaled(0)))
		require.Equal(t, "app:v2", p.images()["app"])
		p.waits(t, map[string]string{})
		require.Equal(t, ReasonPaused, p.write(t, kubectl, scaled(1)))
		require.Equal(t, "app:v2", p.images()["app"])
	})
	t.Run("it left pacing: delivered", func(t *testing.T) {
		t.Parallel()
		p := waiting(t)
		p.cell.Enabled, p.live.Enabled = false, false
		require.Equal(t, ReasonLeft, p.write(t, us, annotated(touched, "1")))
		require.Equal(t, "app:v2", p.images()["app"])
		p.waits(t, map[string]string{})
	})
	t.Run("the gate is native now: held, the wish in the template", func(t *testing.T) {
		t.Parallel()
		p := waiting(t)
		p.cell.Gate, p.live.Gate = node.GateNative, node.GateNative
		require.Equal(t, ReasonHeld, p.write(t, us, annotated(touched, "1")))
		require.Equal(t, "app:v2", p.images()["app"])
		require.NotContains(t, annotationsOf(p.set), node.AnnotationDeferred)
		held, err := node.ParseHeld(annotationsOf(p.set)[node.AnnotationHeld].(string))
		require.NoError(t, err)
		require.Equal(t, "app:v1", held.Running.Containers["app"])
		require.EqualValues(t, node.HeldPartition, specOf(p.set)["updateStrategy"].(map[string]any)["rollingUpdate"].(map[string]any)["partition"])

		p.cell.Gate, p.live.Gate = node.GatePin, node.GatePin
		require.Equal(t, ReasonHeld, p.write(t, helm, app("app:v3")), "back to pin: what is held stays held natively")
		require.Equal(t, "app:v3", p.images()["app"])
		require.Equal(t, ReasonLifted, p.write(t, helm, app("app:v1")))
		require.Equal(t, ReasonHeld, p.write(t, helm, app("app:v3")), "and the next one is pinned")
		p.waits(t, map[string]string{"containers/app": `"app:v3"`})
	})
	t.Run("the pace is template now", func(t *testing.T) {
		t.Parallel()
		p := waiting(t)
		p.cell.Pace, p.live.Pace = node.PaceTemplate, node.PaceTemplate
		require.Equal(t, ReasonHeld, p.write(t, kubectl, podLabel("2")))
		require.NotContains(t, mustText(t, templateOf(p.set)), `"chart"`, "it waits, too")
		p.grant(t)
		require.Equal(t, "app:v2", p.images()["app"])
		require.Contains(t, mustText(t, templateOf(p.set)), `"chart":"2"`)
	})
	t.Run("the pace was template", func(t *testing.T) {
		t.Parallel()
		p := pinCell(t)
		p.cell.Pace, p.live.Pace = node.PaceTemplate, node.PaceTemplate
		require.Equal(t, ReasonHeld, p.write(t, helm, podLabel("2")))
		require.NotContains(t, mustText(t, templateOf(p.set)), `"chart"`)
		p.cell.Pace, p.live.Pace = node.PaceImages, node.PaceImages
		p.write(t, kubectl, app("app:v2"))
		require.Equal(t, "app:v1", p.images()["app"])
		p.grant(t)
		require.Equal(t, "app:v2", p.images()["app"])
		require.Contains(t, mustText(t, templateOf(p.set)), `"chart":"2"`, "nothing is lost on the way")
	})
	t.Run("the namespace cannot be read: nothing moves", func(t *testing.T) {
		t.Parallel()
		p := waiting(t)
		p.cellErr, p.liveErr = errUnread, errUnread
		before := annotationsOf(p.set)[node.AnnotationDeferred]
		require.Equal(t, ReasonHeld, p.write(t, helm, app("app:v2")), "the same wish again")
		require.Equal(t, "app:v1", p.images()["app"])
		require.Equal(t, before, annotationsOf(p.set)[node.AnnotationDeferred])
		require.Equal(t, ReasonHeld, p.write(t, us, annotated(touched, "1")))
		require.Equal(t, before, annotationsOf(p.set)[node.AnnotationDeferred])
	})
	t.Run("a slot that is forged", func(t *testing.T) {
		t.Parallel()
		p := waiting(t)
		require.Equal(t, ReasonHeld, p.write(t, helm, annotated(node.AnnotationSlot, "paceline-slot-0/3")))
		p.waits(t, map[string]string{"containers/app": `"app:v2"`})
	})
	t.Run("what is deferred is forged", func(t *testing.T) {
		t.Parallel()
		p := waiting(t)
		p.write(t, kubectl, annotated(node.AnnotationDeferred, `{"v":1,"fields":{"containers/app":{"want":"evil:v1","by":{}}}}`))
		p.waits(t, map[string]string{"containers/app": `"app:v2"`})
	})
	t.Run("another version's is kept", func(t *testing.T) {
		t.Parallel()
		p := waiting(t)
		const later = `{"v":2,"what":"ever"}`
		annotationsOf(p.set)[node.AnnotationDeferred] = later
		require.Equal(t, ReasonHeld, p.write(t, kubectl, scaled(2)))
		require.Equal(t, later, annotationsOf(p.set)[node.AnnotationDeferred]) //nolint:testifylint // the very bytes
		require.Equal(t, "app:v1", p.images()["app"])
	})
	t.Run("what does not fit is refused", func(t *testing.T) {
		t.Parallel()
		p := pinCell(t)
		p.cell.Pace, p.live.Pace = node.PaceTemplate, node.PaceTemplate
		asked := clone(t, p.set)
		podField("hostname", strings.Repeat("x", maxAnnotations))(asked)
		answer := p.admit(t, review1("UPDATE", "helm", mustText(t, asked), mustText(t, p.set)))
		require.False(t, answer.Allowed)
		require.Contains(t, answer.Status.Message, "does not fit into the annotations")
	})
}

var errUnread = errors.New("no answer")

func jsonOf(t *testing.T, text string) any {
	t.Helper()
	var value any
	require.NoError(t, json.Unmarshal([]byte(text), &value))
	return value
}

// What waited of a whole template and is not paced any more applies; a wish for nothing is never left behind.
func TestPinOfNothingIsNone(t *testing.T) {
	t.Parallel()
	template := func(label string) []byte {
		return []byte(`{"metadata":{"labels":{"a":"` + label + `"}},"spec":{"containers":[{"image":"app:v1","name":"app"}]}}`)
	}
	deferred := node.Deferred{Fields: map[string]node.Wish{node.FieldTemplate: {Want: template("2"), Stands: template("1")}}}
	w, err := NewWishes(Change{Stored: template("1"), Asked: template("1"), Deferred: deferred.String(), Pace: node.PaceImages, Own: true})
	require.NoError(t, err)
	d, err := w.Apply(Decision{Pin: true, Owned: map[string]string{node.AnnotationDeferred: deferred.String()}}, nil)
	require.NoError(t, err)
	require.Empty(t, d.Owned)
	require.JSONEq(t, string(template("2")), string(d.Template))
}
