package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/paceline/paceline/lease"
	"github.com/paceline/paceline/node"
)

const account = "system:serviceaccount:paceline-system:paceline"

// surroundings are what the handler reads beside the review.
type surroundings struct {
	cell, live         node.Cell
	cellErr, liveErr   error
	slots              map[string]lease.Slot
	slotErr            error
	line               lease.Queue
	lineErr            error
	orphans            []node.Paced
	orphansErr         error
	liveReads, slotted int
	reasons            []Reason
	later              []string
}

func (s *surroundings) Cell(context.Context, string) (node.Cell, error) { return s.cell, s.cellErr }

func (s *surroundings) CellLive(context.Context, string) (node.Cell, error) {
	s.liveReads++
	return s.live, s.liveErr
}

func (s *surroundings) Get(_ context.Context, _, name string) (lease.Slot, error) {
	s.slotted++
	if s.slotErr != nil {
		return lease.Slot{}, s.slotErr
	}
	slot, ok := s.slots[name]
	if !ok {
		return lease.Slot{}, fmt.Errorf("reading slot lease: %w", apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, name))
	}
	return slot, nil
}

func (s *surroundings) Line(context.Context, string) (lease.Queue, error) { return s.line, s.lineErr }

func (s *surroundings) Orphans(context.Context, string, string) ([]node.Paced, error) {
	return s.orphans, s.orphansErr
}

func pacing(percent int) node.Cell {
	return node.Cell{Enabled: true, Percent: percent, Pace: node.PaceImages, Gate: node.GateNative}
}

func inCell() *surroundings {
	return &surroundings{
		cell: pacing(25), live: pacing(25),
		slots: map[string]lease.Slot{"paceline-slot-0": {Name: "paceline-slot-0", Holder: "rpc-0", HolderUID: "u", Transitions: 3}},
		line:  lease.Queue{Running: 8, Slots: 2, Holders: []string{"rpc-1", "rpc-2"}, Waiting: []string{"rpc-3"}},
	}
}

func (s *surroundings) handler() http.Handler {
	return StatefulSet{Options{
		Account: account, Cells: s, Slots: s, Lines: s, Orphans: s, Timeout: time.Minute, Own: "zz-paceline",
		Later:   func(context.Context, string) []string { return s.later },
		Observe: func(reason Reason, _ time.Duration) { s.reasons = append(s.reasons, reason) },
	}}
}

// post sends a body through a real HTTP server.
func (s *surroundings) post(t *testing.T, body string) (int, string) {
	t.Helper()
	server := httptest.NewServer(s.handler())
	defer server.Close()
	answer, err := http.Post(server.URL+Path, "application/json", strings.NewReader(body))
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Len(t, s.reasons, 1, "each request ends in one reason")
	return answer.StatusCode, string(text)
}

// admit sends a review and reads the answer.
func (s *surroundings) admit(t *testing.T, body string) response {
	t.Helper()
	code, text := s.post(t, body)
	require.Equal(t, http.StatusOK, code, text)
	var a answer
	require.NoError(t, json.Unmarshal([]byte(text), &a))
	require.Equal(t, "r1", string(a.Response.UID))
	require.Equal(t, "AdmissionReview", a.Kind)
	return a.Response
}

// stored is a StatefulSet as the API server sends it.
type stored struct {
	image       string
	annotations map[string]string
	replicas    int
	extra       string // further fields of the container
}

func (s stored) json(t *testing.T) string {
	t.Helper()
	annotations, err := json.Marshal(s.annotations)
	require.NoError(t, err)
	return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"StatefulSet",
		"metadata":{"name":"rpc-0","namespace":"cell","uid":"u","generation":4,"annotations":%s,"managedFields":[{"manager":"x"}]},
		"spec":{"replicas":%d,"selector":{"matchLabels":{"app":"rpc"}},"serviceName":"rpc",
			"template":{"metadata":{"labels":{"app":"rpc"}},"spec":{"containers":[{"name":"app","image":%q%s}]}},
			"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"partition":0}},"newFieldOfTheAPI":{"x":[1]}},
		"status":{"observedGeneration":4,"replicas":1,"readyReplicas":1,"currentRevision":"r","updateRevision":"r"}}`,
		annotations, s.replicas, s.image, s.extra)
}

func review1(operation, user, object, old string) string {
	return fmt.Sprintf(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","newField":1,"request":{"uid":"r1",
		"kind":{"group":"apps","version":"v1","kind":"StatefulSet"},"resource":{"group":"apps","version":"v1","resource":"statefulsets"},
		"name":"rpc-0","namespace":"cell","operation":%q,"userInfo":{"username":%q},"object":%s,"oldObject":%s,"dryRun":false,
		"options":{"kind":"UpdateOptions"}}}`, operation, user, object, old)
}

func bump(t *testing.T, old, asked stored) string {
	t.Helper()
	return review1("UPDATE", "writer", asked.json(t), old.json(t))
}

func v(image string) stored { return stored{image: image, replicas: 1} }

func patched(t *testing.T, object string, r response) object2 {
	t.Helper()
	require.True(t, r.Allowed)
	if r.Patch != nil {
		require.Equal(t, "JSONPatch", r.PatchType)
		operations, err := jsonpatch.DecodePatch(r.Patch)
		require.NoError(t, err)
		text, err := operations.Apply([]byte(object))
		require.NoError(t, err)
		object = string(text)
	}
	var o object2
	require.NoError(t, json.Unmarshal([]byte(object), &o))
	return o
}

// object2 is a StatefulSet after the patch.
type object2 struct {
	Metadata struct {
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		UpdateStrategy struct {
			RollingUpdate struct {
				Partition int32 `json:"partition"`
			} `json:"rollingUpdate"`
		} `json:"updateStrategy"`
	} `json:"spec"`
}

func (o object2) held() bool {
	return o.Metadata.Annotations[node.AnnotationHeld] != "" && o.Spec.UpdateStrategy.RollingUpdate.Partition == node.HeldPartition
}

// What is no review is answered with an HTTP status: the API server's failurePolicy decides then.
func TestNoReview(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		body string
		code int
		text string
	}{
		"no JSON":            {"hello", http.StatusBadRequest, "want an admission.k8s.io/v1 AdmissionReview"},
		"empty":              {"", http.StatusBadRequest, "want an admission.k8s.io/v1 AdmissionReview"},
		"truncated":          {`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":`, http.StatusBadRequest, "AdmissionReview"},
		"another kind":       {`{"apiVersion":"v1","kind":"Pod"}`, http.StatusBadRequest, `got kind "Pod"`},
		"another version":    {`{"apiVersion":"admission.k8s.io/v2","kind":"AdmissionReview","request":{}}`, http.StatusBadRequest, "admission.k8s.io/v2"},
		"no request":         {`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`, http.StatusBadRequest, "with a request"},
		"a list":             {`[]`, http.StatusBadRequest, "AdmissionReview"},
		"8 MB are too large": {`{"x":"` + strings.Repeat("x", 8<<20) + `"}`, http.StatusRequestEntityTooLarge, "longer than"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := inCell()
			code, text := s.post(t, c.body)
			require.Equal(t, c.code, code)
			require.Contains(t, text, "paceline: ")
			require.Contains(t, text, c.text)
			require.Equal(t, []Reason{ReasonInvalid}, s.reasons)
		})
	}
}

// A review that cannot be judged is answered as one: not allowed, code 400, and why.
func TestUnjudgeable(t *testing.T) {
	t.Parallel()
	old, asked := v("app:v1").json(t), v("app:v2").json(t)
	update := review1("UPDATE", "writer", asked, old)
	cases := map[string]struct{ body, text string }{
		"another kind":             {strings.Replace(update, `"kind":"StatefulSet"},"resource"`, `"kind":"Deployment"},"resource"`, 1), "want a StatefulSet of apps, got Deployment"},
		"another group":            {strings.Replace(update, `"group":"apps","version":"v1","kind"`, `"group":"x","version":"v1","kind"`, 1), `of "x"`},
		"a missing object":         {review1("UPDATE", "writer", "null", old), "without object"},
		"an UPDATE without old":    {review1("UPDATE", "writer", asked, "null"), "without oldObject"},
		"a DELETE":                 {review1("DELETE", "writer", "null", old), "want CREATE or UPDATE"},
		"a template that is wrong": {review1("UPDATE", "writer", strings.Replace(asked, `"containers":[`, `"containers":7,"x":[`, 1), old), "reading pod template"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := inCell()
			r := s.admit(t, c.body)
			require.False(t, r.Allowed)
			require.Equal(t, http.StatusBadRequest, r.Status.Code)
			require.Contains(t, r.Status.Message, c.text)
			require.Equal(t, []Reason{ReasonInvalid}, s.reasons)
		})
	}
}

func TestHandlerHoldsABump(t *testing.T) {
	t.Parallel()
	s := inCell()
	asked := v("app:v2")
	asked.annotations = map[string]string{"note": "x"}
	r := s.admit(t, bump(t, v("app:v1"), asked))
	require.True(t, patched(t, asked.json(t), r).held())
	require.Equal(t, []Reason{ReasonHeld}, s.reasons)
	require.Zero(t, s.liveReads, "a cell that paces needs no live read")
	require.Zero(t, s.slotted, "the Lease is read only where a slot annotation is")
}

// 3 MB is what the API server takes; the review carries it twice.
func TestHandlerTakesLargeObjects(t *testing.T) {
	t.Parallel()
	s := inCell()
	old, asked := v("app:v1"), v("app:v2")
	old.extra = `,"args":["` + strings.Repeat("x", 3<<20) + `"]`
	asked.extra = old.extra
	require.True(t, patched(t, asked.json(t), s.admit(t, bump(t, old, asked))).held())
}

func TestHandlerProvesSlots(t *testing.T) {
	t.Parallel()
	withSlot := func(image, slot string) stored {
		s := v(image)
		s.annotations = map[string]string{
			node.AnnotationSlot:    slot,
			node.AnnotationCleared: node.Cleared{Revision: "r", Ready: true, Running: paced("app:v1", ""), Canary: paced("app:v1", "")}.String(),
		}
		return s
	}
	down := errors.New("connection refused")
	cases := map[string]struct {
		old, asked stored
		user       string
		slotErr    error
		reason     Reason
		slot       bool
		reads      int
	}{
		"proven: open":                         {withSlot("app:v2", "paceline-slot-0/3"), withSlot("app:v3", "paceline-slot-0/3"), "writer", nil, ReasonOpened, true, 1},
		"an earlier transition: dropped":       {withSlot("app:v2", "paceline-slot-0/2"), withSlot("app:v3", "paceline-slot-0/2"), "writer", nil, ReasonInFlight, false, 1},
		"a Lease that is gone: dropped":        {withSlot("app:v2", "paceline-slot-9/3"), withSlot("app:v3", "paceline-slot-9/3"), "writer", nil, ReasonInFlight, false, 1},
		"another Lease's name: not even read":  {withSlot("app:v2", "kube-scheduler/3"), withSlot("app:v3", "kube-scheduler/3"), "writer", nil, ReasonInFlight, false, 0},
		"not readable: not even read":          {withSlot("app:v2", "x"), withSlot("app:v3", "x"), "writer", nil, ReasonInFlight, false, 0},
		"forged by a user: dropped, not read":  {v("app:v1"), withSlot("app:v2", "paceline-slot-0/3"), "writer", nil, ReasonHeld, false, 0},
		"written by Paceline: read and proven": {v("app:v1"), withSlot("app:v1", "paceline-slot-0/3"), account, nil, ReasonOpened, true, 1},
		"unreadable Lease, a paced change":     {withSlot("app:v2", "paceline-slot-0/3"), withSlot("app:v3", "paceline-slot-0/3"), "writer", down, ReasonRefused, true, 1},
		"unreadable Lease, an unpaced change":  {withSlot("app:v2", "paceline-slot-0/3"), withSlot("app:v2", "paceline-slot-0/3"), "writer", down, ReasonPass, true, 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := inCell()
			s.slotErr = c.slotErr
			c.asked.extra = `,"env":[{"name":"A","value":"1"}]`
			r := s.admit(t, review1("UPDATE", c.user, c.asked.json(t), c.old.json(t)))
			require.Equal(t, []Reason{c.reason}, s.reasons)
			require.Equal(t, c.reads, s.slotted)
			if c.reason == ReasonRefused {
				require.False(t, r.Allowed)
				require.Equal(t, http.StatusServiceUnavailable, r.Status.Code, "clients try again")
				require.Contains(t, r.Status.Message, "rpc-0: cannot tell whether it may roll: reading its slot Lease failed; nothing was changed, try again")
				return
			}
			_, slot := patched(t, c.asked.json(t), r).Metadata.Annotations[node.AnnotationSlot]
			require.Equal(t, c.slot, slot)
		})
	}
}

// A stale cache may hold a change too long, it lets none through: "budget off" is read live.
func TestBudgetOffIsReadLive(t *testing.T) {
	t.Parallel()
	off := pacing(0)
	held := v("app:v2")
	held.annotations = map[string]string{node.AnnotationHeld: heldText("app:v1", nil)}
	cases := map[string]struct {
		live       node.Cell
		liveErr    error
		old, asked stored
		reason     Reason
		reads      int
	}{
		"the budget came meanwhile: held":                      {pacing(25), nil, v("app:v1"), v("app:v2"), ReasonHeld, 1},
		"it is off: passes":                                    {off, nil, v("app:v1"), v("app:v2"), ReasonPass, 1},
		"an unpaced change needs no read":                      {pacing(25), nil, v("app:v1"), stored{image: "app:v1", replicas: 3}, ReasonPass, 0},
		"a held node is let go after a read only: off":         {off, nil, held, held, ReasonLeft, 1},
		"a held node is let go after a read only: still paced": {pacing(25), nil, held, held, ReasonHeld, 1},
		"unreadable: a paced change is refused":                {off, errors.New("timeout"), v("app:v1"), v("app:v2"), ReasonRefused, 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := inCell()
			s.cell, s.live, s.liveErr = off, c.live, c.liveErr
			r := s.admit(t, bump(t, c.old, c.asked))
			require.Equal(t, []Reason{c.reason}, s.reasons)
			require.Equal(t, c.reads, s.liveReads)
			require.Equal(t, c.reason != ReasonRefused, r.Allowed)
		})
	}
	t.Run("a template change that pace images leaves alone is judged by the live pace", func(t *testing.T) {
		t.Parallel()
		env := stored{image: "app:v1", replicas: 1, extra: `,"args":["x"]`}
		s := inCell()
		require.True(t, s.admit(t, bump(t, v("app:v1"), env)).Allowed)
		require.Equal(t, []Reason{ReasonPass}, s.reasons, "pace images")
		s = inCell()
		s.cell, s.live = pacing(25), pacing(25)
		s.live.Pace = node.PaceTemplate
		require.True(t, s.admit(t, bump(t, v("app:v1"), env)).Allowed)
		require.Equal(t, []Reason{ReasonHeld}, s.reasons, "pace template, which the cache has not seen")
		require.Equal(t, 1, s.liveReads)
	})
	pin := pacing(25)
	pin.Gate = node.GatePin
	waits := v("app:v1")
	s := inCell()
	s.cell, s.live = pin, pin
	waits.annotations = patched(t, v("app:v2").json(t), s.admit(t, bump(t, v("app:v1"), v("app:v2")))).Metadata.Annotations
	require.NotEmpty(t, waits.annotations[node.AnnotationDeferred])
	for name, c := range map[string]struct {
		old   stored
		image string
	}{"at rest": {v("app:v1"), "app:v2"}, "that waits": {waits, "app:v1"}} {
		t.Run("so is what the pin gate would let through beside the images of a node "+name, func(t *testing.T) {
			t.Parallel()
			asked := c.old
			asked.image, asked.extra = c.image, `,"args":["x"]`
			s := inCell()
			s.cell, s.live = pin, pin
			s.live.Pace = node.PaceTemplate
			r := s.admit(t, bump(t, c.old, asked))
			require.True(t, r.Allowed)
			require.Equal(t, []Reason{ReasonHeld}, s.reasons)
			require.Equal(t, 1, s.liveReads)
			require.NotContains(t, strings.Join(r.Warnings, " "), "restart", "all of the template waits")
		})
	}
	t.Run("so is what waits of a whole template", func(t *testing.T) {
		t.Parallel()
		whole := pin
		whole.Pace = node.PaceTemplate
		s := inCell()
		s.cell, s.live = whole, whole
		asked := stored{image: "app:v2", replicas: 1, extra: `,"args":["x"]`}
		old := v("app:v1")
		old.annotations = patched(t, asked.json(t), s.admit(t, bump(t, v("app:v1"), asked))).Metadata.Annotations
		again := old
		again.replicas = 2
		for pace, waits := range map[node.Pace]string{node.PaceTemplate: "template", node.PaceImages: "containers/app"} {
			s = inCell()
			s.cell, s.live = pin, pin
			s.live.Pace = pace
			r := s.admit(t, bump(t, old, again))
			require.Equal(t, 1, s.liveReads)
			deferred, err := node.ParseDeferred(patched(t, again.json(t), r).Metadata.Annotations[node.AnnotationDeferred])
			require.NoError(t, err)
			require.Contains(t, deferred.Fields, waits, pace)
			require.Equal(t, pace == node.PaceImages, strings.Contains(string(r.Patch), `"/spec/template`), "what does not wait applies")
		}
	})
	t.Run("a creation needs no read", func(t *testing.T) {
		t.Parallel()
		s := inCell()
		s.cell = off
		require.True(t, s.admit(t, review1("CREATE", "writer", v("app:v1").json(t), "null")).Allowed)
		require.Zero(t, s.liveReads)
	})
}

func TestOutOfScope(t *testing.T) {
	t.Parallel()
	asked := strings.Replace(v("app:v2").json(t), `"generation":4,`, `"generation":4,"labels":{"paceline.io/pacing":"disabled"},`, 1)
	s := inCell()
	r := s.admit(t, review1("UPDATE", "writer", asked, v("app:v1").json(t)))
	require.True(t, r.Allowed)
	require.Nil(t, r.Patch)
	require.Empty(t, r.Warnings)
	require.Equal(t, []Reason{ReasonPass}, s.reasons)
}

// Some clients cut a warning at 256 characters: the holders come first and nothing is longer.
func TestWarnings(t *testing.T) {
	t.Parallel()
	const most = 256
	long := strings.Repeat("a-very-long-name-", 4)
	cases := map[string]struct {
		line    lease.Queue
		lineErr error
		starts  string
		ends    string
	}{
		"holders first, then how to see and cancel": {
			lease.Queue{Slots: 2, Holders: []string{"rpc-1", "rpc-2"}}, nil,
			"paceline: rpc-0 waits, place 1 for 2 slots held by rpc-1, rpc-2; see: ", "; to cancel, set the image back",
		},
		"at most five holders": {
			lease.Queue{Slots: 7, Holders: []string{"a", "b", "c", "d", "e", "f", "g"}}, nil,
			"paceline: rpc-0 waits, place 1 for 7 slots held by a, b, c, d, e and 2 more; see: kubectl get leases -n cell", "set the image back",
		},
		"no line, no holders": {lease.Queue{}, errors.New("cache"), "paceline: rpc-0 waits for a slot; see: kubectl get leases -n cell", ""},
		"long names: still short, holders first": {
			lease.Queue{Slots: 3, Holders: []string{long + "1", long + "2", long + "3", long + "4"}}, nil, "paceline: rpc-0 waits, place 1 for 3 slots held by " + long, "",
		},
		"what no longer fits is left out, whole": {
			lease.Queue{Slots: 2, Holders: []string{long + "one", long + "two"}}, nil,
			"paceline: rpc-0 waits, place 1 for 2 slots held by " + long, "see: kubectl get leases -n cell",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := inCell()
			s.line, s.lineErr = c.line, c.lineErr
			r := s.admit(t, bump(t, v("app:v1"), v("app:v2")))
			require.Len(t, r.Warnings, 1)
			require.Less(t, len(r.Warnings[0]), most)
			require.True(t, strings.HasPrefix(r.Warnings[0], c.starts), r.Warnings[0])
			require.True(t, strings.HasSuffix(r.Warnings[0], c.ends), r.Warnings[0])
		})
	}
	t.Run("a paused node has no place: it is not queued", func(t *testing.T) {
		t.Parallel()
		old, asked := v("app:v1"), v("app:v2")
		old.annotations = map[string]string{node.AnnotationPaused: "true"}
		asked.annotations = old.annotations
		s := inCell()
		s.line = lease.Queue{Slots: 2}
		require.Equal(t, []string{"paceline: rpc-0 is paused (annotation paceline.io/paused): the change waits, not queued, until that is removed; to cancel, set the image back"},
			s.admit(t, bump(t, old, asked)).Warnings)
	})
	held := v("app:v2")
	held.annotations = map[string]string{node.AnnotationHeld: heldText("app:v1", nil)}
	silent := map[string]string{
		"a re-apply while held says nothing":      bump(t, held, held),
		"an unpaced change says nothing":          bump(t, v("app:v1"), stored{image: "app:v1", replicas: 1, extra: `,"args":["x"]`}),
		"Paceline's own write says nothing":       review1("UPDATE", account, v("app:v2").json(t), v("app:v1").json(t)),
		"a creation says nothing":                 review1("CREATE", "writer", v("app:v2").json(t), "null"),
		"set back: nothing waits, nothing to say": bump(t, held, v("app:v1")),
	}
	for name, body := range silent {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Empty(t, inCell().admit(t, body).Warnings)
		})
	}
}

// A namespace that cannot be read is no proof that nothing is paced.
func TestUnreadableNamespaceIsRefused(t *testing.T) {
	t.Parallel()
	s := inCell()
	s.cellErr = errors.New("not in the cache")
	r := s.admit(t, bump(t, v("app:v1"), v("app:v2")))
	require.False(t, r.Allowed)
	require.Equal(t, http.StatusServiceUnavailable, r.Status.Code)
	require.Contains(t, r.Status.Message, "reading namespace cell")

	held := v("app:v2")
	for name, body := range map[string]string{
		"a creation passes":             review1("CREATE", "writer", v("app:v2").json(t), "null"),
		"what changes no template does": review1("UPDATE", "writer", held.json(t), held.json(t)),
	} {
		s := inCell()
		s.cellErr = errors.New("not in the cache")
		r := s.admit(t, body)
		require.True(t, r.Allowed, name)
		require.Empty(t, r.Warnings, name)
	}
}
