package harness

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"

	admissionreview "k8s.io/api/admission/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Request is an object in admission.
type Request = admissionreview.AdmissionRequest

// serveReviews answers AdmissionReviews over TLS. All are allowed, with the JSON patch that answer returns.
func serveReviews(answer func(context.Context, *Request) []byte) *httptest.Server {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionreview.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
			http.Error(w, "no review", http.StatusBadRequest)
			return
		}
		review.Response = &admissionreview.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		if patch := answer(r.Context(), review.Request); patch != nil {
			kind := admissionreview.PatchTypeJSONPatch
			review.Response.Patch, review.Response.PatchType = patch, &kind
		}
		review.Request = nil
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review) // the API server says what it could not read
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // requests that ran out of time
	server.StartTLS()
	return server
}

// at is where the API server finds such a server.
func at(server *httptest.Server) admissionv1.WebhookClientConfig {
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return admissionv1.WebhookClientConfig{URL: &server.URL, CABundle: certificate}
}

func (c *Cell) selector() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": c.Name}}
}

func rule(group, resource string, operations ...admissionv1.OperationType) admissionv1.RuleWithOperations {
	return admissionv1.RuleWithOperations{
		Operations: operations, Rule: admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{"v1"}, Resources: []string{resource}},
	}
}
