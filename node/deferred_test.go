package node

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const twoContainers = `{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"app","image":"app:v1","args":["-x"]},{"name":"side","image":"side:v1"}],` +
	`"volumes":[{"name":"data","emptyDir":{}},{"name":"model","image":{"reference":"model:v1"}}]}}`

func wish(want string) Wish { return Wish{Want: []byte(want), By: Author{"helm", "alice"}} }

func TestDeferredRoundTrip(t *testing.T) {
	t.Parallel()
	d := Deferred{Fields: map[string]Wish{"containers/app": wish(`"app:v2"`), "affinity": wish("null")}}
	const text = `{"v":1,"fields":{"affinity":{"want":null,"by":{"fieldManager":"helm","user":"alice"}},` +
		`"containers/app":{"want":"app:v2","by":{"fieldManager":"helm","user":"alice"}}}}`
	require.Equal(t, text, d.String(), "sorted keys, no clock") //nolint:testifylint // the very bytes
	got, err := ParseDeferred(text)
	require.NoError(t, err)
	require.Equal(t, d, *got)
	for name, c := range map[string]struct{ text, want string }{
		"no JSON":         {"x", "annotation paceline.io/deferred: "},
		"another version": {`{"v":2,"fields":{"affinity":{"want":null}}}`, "version 2: this Paceline reads version 1"},
		"no field":        {`{"v":1,"fields":{}}`, "it names no field"},
		"empty":           {"", "annotation paceline.io/deferred: "},
	} {
		_, err := ParseDeferred(c.text)
		require.ErrorContains(t, err, c.want, name)
	}
}

func TestRender(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fields map[string]Wish
		want   string
	}{
		"an image":                        {map[string]Wish{"containers/app": wish(`"app:v2"`)}, `{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"app","image":"app:v2","args":["-x"]},{"name":"side","image":"side:v1"}],"volumes":[{"name":"data","emptyDir":{}},{"name":"model","image":{"reference":"model:v1"}}]}}`},
		"an image volume":                 {map[string]Wish{"volumes/model": wish(`"model:v2"`)}, `{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"app","image":"app:v1","args":["-x"]},{"name":"side","image":"side:v1"}],"volumes":[{"name":"data","emptyDir":{}},{"name":"model","image":{"reference":"model:v2"}}]}}`},
		"a container that is not there":   {map[string]Wish{"containers/gone": wish(`"x"`), "volumes/data": wish(`"x"`)}, twoContainers},
		"a field that comes":              {map[string]Wish{"nodeSelector": wish(`{"zone":"a"}`)}, `{"metadata":{"labels":{"a":"b"}},"spec":{"nodeSelector":{"zone":"a"},"containers":[{"name":"app","image":"app:v1","args":["-x"]},{"name":"side","image":"side:v1"}],"volumes":[{"name":"data","emptyDir":{}},{"name":"model","image":{"reference":"model:v1"}}]}}`},
		"the spec, then an image in it":   {map[string]Wish{"spec": wish(`{"containers":[{"name":"app","image":"app:v0"}]}`), "containers/app": wish(`"app:v2"`)}, `{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"app","image":"app:v2"}]}}`},
		"the template, then a field":      {map[string]Wish{"template": wish(`{"spec":{"containers":[]}}`), "tolerations": wish(`[{"key":"x"}]`)}, `{"spec":{"containers":[],"tolerations":[{"key":"x"}]}}`},
		"large numbers keep their digits": {map[string]Wish{"template": wish(`{"spec":{"containers":[],"activeDeadlineSeconds":9007199254740993}}`)}, `{"spec":{"containers":[],"activeDeadlineSeconds":9007199254740993}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Deferred{Fields: c.fields}.Render([]byte(twoContainers))
			require.NoError(t, err)
			require.JSONEq(t, c.want, string(got))
		})
	}
	_, err := Deferred{Fields: map[string]Wish{"hostNetwork": wish("true")}}.Render([]byte(twoContainers))
	require.ErrorContains(t, err, "hostNetwork: it is none that is paced")
	_, err = Deferred{Fields: map[string]Wish{"template": wish("null")}}.Render([]byte(twoContainers))
	require.ErrorContains(t, err, "want an object")
}

// What Pin takes out of a template Render puts back in: nothing is lost on the way.
func TestPinAndRenderAreInverse(t *testing.T) {
	t.Parallel()
	for name, asked := range map[string]string{
		"nothing":          twoContainers,
		"images":           `{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"app","image":"app:v2","args":["-y"]},{"name":"side","image":"side:v2"}],"volumes":[{"name":"model","image":{"reference":"model:v2"}}]}}`,
		"a container less": `{"metadata":{"labels":{"a":"c"}},"spec":{"containers":[{"name":"app","image":"app:v2"}],"volumes":[]}}`,
		"isolation":        `{"metadata":{"labels":{"a":"b"}},"spec":{"affinity":{"podAffinity":{"x":1}},"containers":[{"name":"app","image":"app:v1"},{"name":"side","image":"side:v1"}],"volumes":[{"name":"model","image":{"reference":"model:v1"}}]}}`,
	} {
		for _, pace := range []Pace{PaceImages, PaceTemplate} {
			t.Run(name+", "+string(pace), func(t *testing.T) {
				t.Parallel()
				pinned, wants, err := Pin([]byte(twoContainers), []byte(asked), pace)
				require.NoError(t, err)
				stands, err := PacedOfTemplate(pinned)
				require.NoError(t, err)
				stored, err := PacedOfTemplate([]byte(twoContainers))
				require.NoError(t, err)
				require.True(t, stands.Equal(stored, pace), "no paced field moved")
				d := Deferred{Fields: map[string]Wish{}}
				maps.Copy(d.Fields, wants)
				back, err := d.Render(pinned)
				require.NoError(t, err)
				one, err := FieldOf(FieldTemplate, back)
				require.NoError(t, err)
				other, err := FieldOf(FieldTemplate, []byte(asked))
				require.NoError(t, err)
				require.JSONEq(t, string(other), string(one))
			})
		}
	}
}

// A field that was written while no webhook looked was asked for last, whatever waited. Of a whole spec or template
// that is what changed of it.
func TestAWishIsRebased(t *testing.T) {
	t.Parallel()
	template := func(image, arg string) json.RawMessage {
		return json.RawMessage(`{"spec":{"containers":[{"args":["` + arg + `"],"image":"` + image + `","name":"app"}]}}`)
	}
	for name, c := range map[string]struct {
		field            string
		want, stood, now json.RawMessage
		left             json.RawMessage // nil: nothing
	}{
		"an image that stands as it stood":          {"containers/app", json.RawMessage(`"v2"`), json.RawMessage(`"v1"`), json.RawMessage(`"v1"`), json.RawMessage(`"v2"`)},
		"an image that was written":                 {"containers/app", json.RawMessage(`"v2"`), json.RawMessage(`"v1"`), json.RawMessage(`"v3"`), nil},
		"a wish of a Paceline that did not note it": {"containers/app", json.RawMessage(`"v2"`), nil, json.RawMessage(`"v3"`), json.RawMessage(`"v2"`)},
		"isolation that was written":                {"nodeSelector", json.RawMessage(`{"zone":"a"}`), json.RawMessage(`null`), json.RawMessage(`{"zone":"b"}`), nil},
		"a template that stands as it stood":        {"template", template("v2", "x"), template("v1", "x"), template("v1", "x"), template("v2", "x")},
		"another field of a template was written":   {"template", template("v2", "x"), template("v1", "x"), template("v1", "y"), template("v2", "y")},
		"the same field of a template was written":  {"template", template("v2", "x"), template("v1", "x"), template("v3", "x"), template("v3", "x")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			left, err := Wish{Want: c.want, Stands: c.stood, By: Author{"helm", "alice"}}.Rebased(c.field, c.now)
			require.NoError(t, err)
			if c.left == nil {
				require.Nil(t, left)
				return
			}
			require.JSONEq(t, string(c.left), string(left.Want))
			require.Equal(t, Author{"helm", "alice"}, left.By)
		})
	}
	_, err := Wish{Want: []byte("1"), Stands: []byte("{")}.Rebased("template", []byte("{}"))
	require.ErrorContains(t, err, "reading field template: ")
	rendered, err := Deferred{Fields: map[string]Wish{"containers/app": {Want: []byte(`"app:v2"`), Stands: []byte(`"app:v0"`)}}}.Render([]byte(twoContainers))
	require.NoError(t, err)
	require.JSONEq(t, twoContainers, string(rendered))
}

// A pinned template holds the pods for as long as it is what they run.
func TestAPinnedNodeThatRollsAllTheSame(t *testing.T) {
	t.Parallel()
	paced := func(image string) Paced {
		return Paced{Containers: map[string]string{"app": image}, Isolation: []byte("{}")}
	}
	stands := paced("v3")
	view := View{
		Strategy: RollingUpdate, Replicas: 1, HasDeferred: true, Deferred: &Deferred{}, Pinned: &stands, Template: paced("v2"),
		Cleared: &Cleared{Revision: "r-1", Ready: true, Canary: paced("v1")},
	}
	pods, revisions := Fleet{{Revision: "r-1"}}, Revisions{"r-1": paced("v1"), "r-3": paced("v3")}
	require.False(t, view.Closed(PaceImages), "its template was changed while no webhook looked")
	require.True(t, view.InFlight(pods, revisions, PaceImages))
	view.Cleared = nil
	require.True(t, view.InFlight(pods, revisions, PaceImages), "the pods say so where nothing else does")
	require.False(t, view.InFlight(Fleet{{Revision: "r-3"}}, revisions, PaceImages), "it runs what is pinned")
	view.Strategy = OnDelete
	require.False(t, view.InFlight(pods, revisions, PaceImages), "nothing restarts by itself")
}

// A pinned node's Template is what it is to be, Pinned what stands.
func TestViewOfAPinnedNode(t *testing.T) {
	t.Parallel()
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "rpc-0", Annotations: map[string]string{
			AnnotationDeferred: Deferred{Fields: map[string]Wish{"containers/app": wish(`"app:v2"`)}}.String(),
		}},
		Spec: appsv1.StatefulSetSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:v1"}}}}},
	}
	view, err := ViewOf(set, nil)
	require.NoError(t, err)
	require.Equal(t, "app:v2", view.Template.Containers["app"])
	require.Equal(t, "app:v1", view.Pinned.Containers["app"])
	require.True(t, view.Gated())
	require.True(t, view.Closed(PaceImages))
	require.True(t, view.HasWish())
	running, known := view.Running()
	require.True(t, known, "the stored template says what it runs")
	require.Equal(t, "app:v1", running.Containers["app"])
	require.True(t, view.Drift(PaceImages))

	set.Annotations[AnnotationDeferred] = `{"v":9}`
	view, err = ViewOf(set, nil)
	require.NoError(t, err)
	require.True(t, view.Gated(), "what cannot be read holds still")
	require.Len(t, view.Problems, 1)
}
