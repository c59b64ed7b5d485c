package harness

import (
	"context"
	"errors"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Admission sees the writes of a cell's StatefulSets and Leases when all mutating webhooks have answered and
// nothing is stored yet. It can hold one of them there.
type Admission struct {
	cell   *Cell
	server *httptest.Server

	mu    sync.Mutex
	asked int
	holds []*Held
}

// Held is a hold of the first request that fits. The API server waits admissionTimeout for it, and then
// refuses the request.
type Held struct {
	cell    *Cell
	fits    func(*Request) bool
	taken   bool
	reached chan *Request
	let     chan struct{}
	once    sync.Once
}

// admissionTimeout in seconds is the longest that the API server allows.
const admissionTimeout = 30

// Admission puts a webhook of the test's own behind all others of the cell, until the test ends.
func (c *Cell) Admission(t testing.TB) *Admission {
	t.Helper()
	a := &Admission{cell: c}
	a.server = serveReviews(a.judge)
	configurations := c.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	t.Cleanup(func() {
		if err := configurations.Delete(context.WithoutCancel(t.Context()), c.Name, metav1.DeleteOptions{}); err != nil {
			t.Errorf("deleting the webhook of %s: %v", c.Name, err)
		}
		for _, h := range a.all() {
			h.Let()
		}
		a.server.Close()
	})
	_, err := configurations.Create(t.Context(), a.configuration(), metav1.CreateOptions{})
	require.NoError(t, err)
	c.WaitFor(t, "admission to be seen", a.probe)
	return a
}

func (a *Admission) configuration() *admissionv1.ValidatingWebhookConfiguration {
	none, fail, timeout := admissionv1.SideEffectClassNone, admissionv1.Fail, int32(admissionTimeout)
	return &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: a.cell.Name},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "hold.rig.paceline.io", AdmissionReviewVersions: []string{"v1"},
			SideEffects: &none, FailurePolicy: &fail, TimeoutSeconds: &timeout,
			NamespaceSelector: a.cell.selector(), ClientConfig: at(a.server),
			Rules: []admissionv1.RuleWithOperations{
				rule("apps", "statefulsets", admissionv1.Update), rule("coordination.k8s.io", "leases", admissionv1.Update),
			},
		}},
	}
}

// probe sees the API server ask: it reads the configuration when it likes.
func (a *Admission) probe(ctx context.Context) error {
	a.mu.Lock()
	before := a.asked
	a.mu.Unlock()
	err := a.cell.dryRun(ctx, "statefulsets")
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil && a.asked == before {
		err = errors.New("a dry run passed unseen")
	}
	return err
}

// Hold holds the next request that fits, and that one alone.
func (a *Admission) Hold(fits func(*Request) bool) *Held {
	h := &Held{cell: a.cell, fits: fits, reached: make(chan *Request, 1), let: make(chan struct{})}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.holds = append(a.holds, h)
	return h
}

func (a *Admission) all() []*Held {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.holds)
}

// Wait waits until a request is held, and returns it.
func (h *Held) Wait(t testing.TB, what string) *Request {
	t.Helper()
	var request *Request
	h.cell.WaitFor(t, what+" to come to admission", func(context.Context) error {
		select {
		case request = <-h.reached:
			return nil
		default:
			return errors.New("it has not come")
		}
	})
	return request
}

// Let lets the request go on.
func (h *Held) Let() { h.once.Do(func() { close(h.let) }) }

// take reports the hold that wants this request; it wants no other one.
func (a *Admission) take(request *Request) *Held {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked++
	if request.DryRun != nil && *request.DryRun {
		return nil
	}
	for _, h := range a.holds {
		if !h.taken && h.fits(request) {
			h.taken = true
			return h
		}
	}
	return nil
}

// judge answers when the request may go on.
func (a *Admission) judge(ctx context.Context, request *Request) []byte {
	if h := a.take(request); h != nil {
		h.reached <- request
		select {
		case <-h.let:
		case <-ctx.Done():
		}
	}
	return nil
}
