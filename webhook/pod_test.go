package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/paceline/paceline/node"
)

const oneContainer = `{"spec":{"containers":[{"name":"app","image":"app:%s","args":["%[1]s"]}]}}`

// apiServer is what the pod webhook reads. fail names the read that fails; reads counts the live ones.
type apiServer struct {
	set       *appsv1.StatefulSet
	pods      node.Fleet
	revisions map[string]*appsv1.ControllerRevision
	cell      node.Cell
	fail      string
	reads     int
	reasons   []Reason
}

func (a *apiServer) read(what string) error {
	a.reads++
	if a.fail == what {
		return errUnread
	}
	return nil
}

func (a *apiServer) SetLive(context.Context, string, string) (*appsv1.StatefulSet, error) {
	return a.set, a.read("set")
}

func (a *apiServer) LivePods(context.Context, *appsv1.StatefulSet) (node.Fleet, error) {
	return a.pods, a.read("pods")
}

func (a *apiServer) LiveRevision(_ context.Context, _, name string) (*appsv1.ControllerRevision, error) {
	if err := a.read(name); err != nil {
		return nil, err
	}
	return a.revisions[name], nil
}

func (a *apiServer) Cell(context.Context, string) (node.Cell, error) { return a.cell, nil }

func (a *apiServer) CellLive(context.Context, string) (node.Cell, error) {
	return a.cell, a.read("cell")
}

// waiting is an OnDelete node that runs v1 and waits for v2.
func waiting() *apiServer {
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{
		Name: "rpc-0", Namespace: "cell", UID: "u", Annotations: map[string]string{
			node.AnnotationHeld:    node.Held{}.String(),
			node.AnnotationCleared: node.Cleared{Revision: "rpc-0-v1", Ready: true}.String(),
		},
	}}
	set.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
	return &apiServer{
		set: set, cell: pacing(25), pods: node.Fleet{{Name: "rpc-0-1", Revision: "rpc-0-v1"}},
		revisions: map[string]*appsv1.ControllerRevision{
			"rpc-0-v1": revisionOf("rpc-0-v1", fmt.Sprintf(oneContainer, "v1")),
			"rpc-0-v2": revisionOf("rpc-0-v2", fmt.Sprintf(oneContainer, "v2")),
		},
	}
}

func podText(revision, owner, annotations string) string {
	return fmt.Sprintf(`{"metadata":{"name":"rpc-0-0",%s"labels":{"controller-revision-hash":"rpc-0-%s"},`+
		`"ownerReferences":[{"apiVersion":"apps/v1","kind":"StatefulSet","name":"rpc-0","uid":"%s","controller":true}]},`+
		`"spec":{"containers":[{"name":"app","image":"app:%[2]s","args":["%[2]s"]}]}}`, annotations, revision, owner)
}

// create sends the review of a pod's creation through a real HTTP server and reads the answer.
func (a *apiServer) create(t *testing.T, pod string) response {
	t.Helper()
	code, text := a.post(t, fmt.Sprintf(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"r1","namespace":"cell","object":%s}}`, pod))
	require.Equal(t, http.StatusOK, code, text)
	var got answer
	require.NoError(t, json.Unmarshal([]byte(text), &got))
	require.True(t, got.Response.Allowed, "a pod can always be created")
	require.Equal(t, "r1", string(got.Response.UID))
	return got.Response
}

func (a *apiServer) post(t *testing.T, body string) (int, string) {
	t.Helper()
	s := inCell()
	handler := Pod{
		Cells: a, Slots: s, Sets: a, Timeout: time.Minute,
		Observe: func(reason Reason, _ time.Duration) { a.reasons = append(a.reasons, reason) },
	}
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, PodPath, strings.NewReader(body)))
	require.Len(t, a.reasons, 1, "each request ends in one reason")
	return recorder.Code, recorder.Body.String()
}

func TestPodComesBackAsItWas(t *testing.T) {
	t.Parallel()
	for name, annotations := range map[string]string{"without annotations": "", "with another webhook's annotation": `"annotations":{"mesh":"on"},`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := waiting()
			made := podText("v2", "u", annotations)
			answer := a.create(t, made)
			patch, err := jsonpatch.DecodePatch(answer.Patch)
			require.NoError(t, err)
			got, err := patch.Apply([]byte(made))
			require.NoError(t, err)
			require.JSONEq(t, podText("v1", "u", annotations), string(got))
			require.Equal(t, []Reason{ReasonRecreated}, a.reasons)
		})
	}
}

// A pod whose node does not wait costs one read, one that comes at what its node runs no revision.
func TestPodReads(t *testing.T) {
	t.Parallel()
	a := waiting()
	require.Nil(t, a.create(t, podText("v1", "u", "")).Patch)
	require.Equal(t, 3, a.reads)

	a = waiting()
	delete(a.set.Annotations, node.AnnotationHeld)
	require.Nil(t, a.create(t, podText("v2", "u", "")).Patch)
	require.Equal(t, 1, a.reads)

	a = waiting()
	require.Nil(t, a.create(t, podText("v2", "u-before", "")).Patch, "a pod of a StatefulSet that is no more")
	require.Equal(t, []Reason{ReasonPass}, a.reasons)
}

// What cannot be read or judged never stops a pod.
func TestPodPassesWhereNothingCanBeRead(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"set", "cell", "pods", "rpc-0-v1", "rpc-0-v2"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			a := waiting()
			a.fail = what
			require.Nil(t, a.create(t, podText("v2", "u", "")).Patch)
			require.Equal(t, []Reason{ReasonUnread}, a.reasons)
		})
	}
	t.Run("a revision that cannot be read", func(t *testing.T) {
		t.Parallel()
		a := waiting()
		a.revisions["rpc-0-v1"] = revisionOf("rpc-0-v1", "null")
		require.Nil(t, a.create(t, podText("v2", "u", "")).Patch)
		require.Equal(t, []Reason{ReasonUnread}, a.reasons)
	})
	t.Run("a pod that cannot be read", func(t *testing.T) {
		t.Parallel()
		a := waiting()
		require.Nil(t, a.create(t, `{"metadata":{"labels":7}}`).Patch)
		require.Equal(t, []Reason{ReasonUnread}, a.reasons)
	})
	t.Run("a pod of nobody", func(t *testing.T) {
		t.Parallel()
		a := waiting()
		require.Nil(t, a.create(t, `{"metadata":{"name":"x"},"spec":{}}`).Patch)
		require.Equal(t, []Reason{ReasonPass}, a.reasons)
	})
}

func TestPodReviewThatIsNone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body string
		code int
	}{
		"no JSON":    {"{", http.StatusBadRequest},
		"no request": {"{}", http.StatusBadRequest},
		"too large":  {`{"x":"` + strings.Repeat("x", maxBody) + `"}`, http.StatusRequestEntityTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := waiting()
			code, text := a.post(t, c.body)
			require.Equal(t, c.code, code)
			require.Contains(t, text, "paceline: reading the review: ")
			require.Equal(t, []Reason{ReasonInvalid}, a.reasons)
		})
	}
}
