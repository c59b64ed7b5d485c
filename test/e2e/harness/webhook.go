package harness

import (
	"bytes"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Webhook answers an API server in this process, over TLS, where the chart expects the controller.
type Webhook struct {
	server *httptest.Server

	mu       sync.Mutex
	handlers map[string]http.Handler
	asked    map[string]int
}

func newWebhook() *Webhook {
	w := &Webhook{handlers: map[string]http.Handler{}, asked: map[string]int{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /mutate-statefulset", w.serve)
	w.server = httptest.NewUnstartedServer(mux)
	w.server.Config.ErrorLog = log.New(io.Discard, "", 0) // an API server that does not trust it yet
	w.server.StartTLS()
	return w
}

// Handle lets a handler judge the requests of a namespace from now on. Until then all pass as they are.
func (w *Webhook) Handle(namespace string, handler http.Handler) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.handlers[namespace] = handler
}

// Asked is how many requests of a namespace came here.
func (w *Webhook) Asked(namespace string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked[namespace]
}

func (w *Webhook) serve(response http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	var review admissionv1.AdmissionReview
	if err == nil {
		err = json.Unmarshal(body, &review)
	}
	if err != nil || review.Request == nil {
		http.Error(response, "no review", http.StatusBadRequest)
		return
	}
	request = request.WithContext(ctrl.LoggerInto(request.Context(), logr.Discard()))
	request.Body = io.NopCloser(bytes.NewReader(body))
	w.handler(review.Request.Namespace).ServeHTTP(response, request)
}

func (w *Webhook) handler(namespace string) http.Handler {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked[namespace]++
	if handler, ok := w.handlers[namespace]; ok {
		return handler
	}
	return http.HandlerFunc(pass)
}

func pass(response http.ResponseWriter, request *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(request.Body).Decode(&review); err != nil {
		http.Error(response, err.Error(), http.StatusBadRequest)
		return
	}
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	review.Request = nil
	response.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(response).Encode(review) // the API server says what it could not read
}

func (w *Webhook) port() int {
	address, ok := w.server.Listener.Addr().(*net.TCPAddr)
	if !ok {
		return 0
	}
	return address.Port
}
