package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/paceline/paceline/test/e2e/harness"
	"github.com/paceline/paceline/test/rig/binary"
)

// What the webhook answers in every recorded fixture is a patch that this API server applies, and the
// object that comes of it is one that it accepts. Each is created as a dry run, outside any cell, so
// that nobody judges it again.
func TestFixturePatchesAreAccepted(t *testing.T) {
	t.Parallel()
	cell := rig.NewCell(t, harness.CellOptions{Unpaced: true, Nodes: 1, Empty: true})
	root, err := binary.SourceRoot()
	require.NoError(t, err)
	responses, err := filepath.Glob(filepath.Join(root, "webhook", "testdata", "*", "response.json"))
	require.NoError(t, err)
	require.Greater(t, len(responses), 30, "the fixtures are not there")
	patches := 0
	for _, path := range responses {
		var answer struct {
			Response struct {
				Patch []byte `json:"patch"`
			} `json:"response"`
		}
		readJSON(t, path, &answer)
		if len(answer.Response.Patch) == 0 {
			continue
		}
		patches++
		t.Run(filepath.Base(filepath.Dir(path)), func(t *testing.T) {
			var review struct {
				Request struct {
					Object json.RawMessage `json:"object"`
				} `json:"request"`
			}
			readJSON(t, filepath.Join(filepath.Dir(path), "review.json"), &review)
			operations, err := jsonpatch.DecodePatch(answer.Response.Patch)
			require.NoError(t, err)
			text, err := operations.Apply(review.Request.Object)
			require.NoError(t, err)
			var want appsv1.StatefulSet
			require.NoError(t, json.Unmarshal(text, &want))
			set := want.DeepCopy()
			set.ObjectMeta = metav1.ObjectMeta{Name: "dry-run", Labels: want.Labels, Annotations: want.Annotations}
			got, err := cell.Client.AppsV1().StatefulSets(cell.Name).Create(t.Context(), set, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			require.NoError(t, err)
			require.Len(t, got.Annotations, len(want.Annotations))
			require.Subset(t, got.Annotations, want.Annotations)
			require.Equal(t, want.Spec.UpdateStrategy.Type, got.Spec.UpdateStrategy.Type)
			require.Equal(t, partitionOf(&want), partitionOf(got))
			for key, value := range got.Annotations {
				if strings.HasPrefix(key, "paceline.io/") && strings.HasPrefix(value, "{") {
					require.True(t, json.Valid([]byte(value)), "%s: %s", key, value)
				}
			}
		})
	}
	require.Greater(t, patches, 15)
}

func partitionOf(set *appsv1.StatefulSet) *int32 {
	if set.Spec.UpdateStrategy.RollingUpdate == nil {
		return nil
	}
	return set.Spec.UpdateStrategy.RollingUpdate.Partition
}

func readJSON(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, into))
}
