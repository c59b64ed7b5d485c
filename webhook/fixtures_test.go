package webhook_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paceline/paceline/webhook"
	"github.com/paceline/paceline/webhook/webhooktest"
)

// Each folder of testdata is a rule: what the API server asked (review), what the handler reads beside
// it (state), and the answer (response). make fixtures records them from a real API server; those that
// no API server sends are made by hand.
func TestFixtures(t *testing.T) {
	t.Parallel()
	folders, err := filepath.Glob(filepath.Join("testdata", "*", "review.json"))
	require.NoError(t, err)
	require.Greater(t, len(folders), 30, "the fixtures are not there")
	for _, path := range folders {
		dir := filepath.Dir(path)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			state, err := webhooktest.Read(filepath.Join(dir, "state.json"))
			require.NoError(t, err)
			review, err := os.ReadFile(path)
			require.NoError(t, err)
			want, err := os.ReadFile(filepath.Join(dir, "response.json"))
			require.NoError(t, err)

			var reasons []webhook.Reason
			server := httptest.NewServer(state.Handler(func(r webhook.Reason) { reasons = append(reasons, r) }))
			defer server.Close()
			answer, err := http.Post(server.URL+webhook.Path, "application/json", bytes.NewReader(review))
			require.NoError(t, err)
			defer func() { _ = answer.Body.Close() }()
			require.Equal(t, http.StatusOK, answer.StatusCode)
			require.Equal(t, "application/json", answer.Header.Get("Content-Type"))
			got, err := io.ReadAll(answer.Body)
			require.NoError(t, err)
			require.JSONEq(t, string(want), string(got))
			require.Len(t, reasons, 1)

			var compact bytes.Buffer // white space decides nothing
			require.NoError(t, json.Compact(&compact, review))
			again := httptest.NewRecorder()
			state.Handler(func(webhook.Reason) {}).ServeHTTP(again, httptest.NewRequest(http.MethodPost, webhook.Path, &compact))
			require.Equal(t, string(got), again.Body.String(), "the same bytes each time")
		})
	}
}
