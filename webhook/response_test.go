package webhook

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/utils/ptr"

	"github.com/paceline/paceline/node"
)

// The API server applies a patch with the same library, so what holds here holds there.
func TestPatch(t *testing.T) {
	t.Parallel()
	const a, b = node.AnnotationHeld, node.AnnotationSlot
	reserved := ptr.To(node.HeldPartition)
	cases := map[string]struct {
		object string
		owned  map[string]string
		part   *int32
		want   string // the object after the patch; "": no patch
		count  int
	}{
		"nothing to change: no patch": {
			`{"metadata":{"annotations":{"paceline.io/held":"h","note":"x"}},"spec":{"updateStrategy":{"rollingUpdate":{"partition":2147483647}}}}`,
			map[string]string{a: "h"}, reserved, "", 0,
		},
		"nothing wanted, no annotations map: no patch": {`{"metadata":{"name":"x"},"spec":{}}`, nil, nil, "", 0},
		"no annotations map: one is added, whole": {
			`{"metadata":{"name":"x"},"spec":{}}`, map[string]string{a: "h", b: "s"}, nil,
			`{"metadata":{"name":"x","annotations":{"paceline.io/held":"h","paceline.io/slot":"s"}},"spec":{}}`, 1,
		},
		"annotations that are null: one is added, whole": {
			`{"metadata":{"annotations":null},"spec":{}}`, map[string]string{a: "h"}, nil,
			`{"metadata":{"annotations":{"paceline.io/held":"h"}},"spec":{}}`, 1,
		},
		"an empty annotations map is kept": {
			`{"metadata":{"annotations":{}},"spec":{}}`, map[string]string{a: "h"}, nil,
			`{"metadata":{"annotations":{"paceline.io/held":"h"}},"spec":{}}`, 1,
		},
		"only what differs is written": {
			`{"metadata":{"annotations":{"paceline.io/held":"h","paceline.io/cleared":"c","note":"x"}},"spec":{}}`,
			map[string]string{a: "h2", node.AnnotationCleared: "c"}, nil,
			`{"metadata":{"annotations":{"paceline.io/held":"h2","paceline.io/cleared":"c","note":"x"}},"spec":{}}`, 1,
		},
		"what is ours and not wanted is removed, the rest stays": {
			`{"metadata":{"annotations":{"paceline.io/held":"h","paceline.io/slot":"","paceline.io/touch":"t","paceline.io/paused":"true"}},"spec":{}}`, nil, nil,
			`{"metadata":{"annotations":{"paceline.io/touch":"t","paceline.io/paused":"true"}},"spec":{}}`, 2,
		},
		"a partition is set": {
			`{"metadata":{},"spec":{"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"partition":0}}}}`, nil, reserved,
			`{"metadata":{},"spec":{"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"partition":2147483647}}}}`, 1,
		},
		"a partition of 0 is a value": {
			`{"metadata":{},"spec":{"updateStrategy":{"rollingUpdate":{"partition":2147483647,"maxUnavailable":1}}}}`, nil, zero(),
			`{"metadata":{},"spec":{"updateStrategy":{"rollingUpdate":{"partition":0,"maxUnavailable":1}}}}`, 1,
		},
		"rollingUpdate without a partition: maxUnavailable stays": {
			`{"metadata":{},"spec":{"updateStrategy":{"rollingUpdate":{"maxUnavailable":1}}}}`, nil, reserved,
			`{"metadata":{},"spec":{"updateStrategy":{"rollingUpdate":{"maxUnavailable":1,"partition":2147483647}}}}`, 1,
		},
		"no rollingUpdate: one is added, whole": {
			`{"metadata":{},"spec":{"updateStrategy":{"type":"RollingUpdate"}}}`, nil, reserved,
			`{"metadata":{},"spec":{"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"partition":2147483647}}}}`, 1,
		},
		"rollingUpdate that is null: one is added, whole": {
			`{"metadata":{},"spec":{"updateStrategy":{"type":"RollingUpdate","rollingUpdate":null}}}`, nil, zero(),
			`{"metadata":{},"spec":{"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"partition":0}}}}`, 1,
		},
		"held: an annotation and the partition": {
			`{"metadata":{"annotations":{"note":"x"}},"spec":{"updateStrategy":{"rollingUpdate":{"partition":0}}}}`, map[string]string{a: `{"v":1}`}, reserved,
			`{"metadata":{"annotations":{"note":"x","paceline.io/held":"{\"v\":1}"}},"spec":{"updateStrategy":{"rollingUpdate":{"partition":2147483647}}}}`, 2,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var o object
			require.NoError(t, json.Unmarshal([]byte(c.object), &o))
			text, err := patch(&o, Decision{Owned: c.owned, Partition: c.part})
			require.NoError(t, err)
			if c.want == "" {
				require.Nil(t, text)
				return
			}
			operations, err := jsonpatch.DecodePatch(text)
			require.NoError(t, err)
			require.Len(t, operations, c.count, "%s", text)
			got, err := operations.Apply([]byte(c.object))
			require.NoError(t, err)
			require.JSONEq(t, c.want, string(got))
			again, err := patch(&o, Decision{Owned: c.owned, Partition: c.part})
			require.NoError(t, err)
			require.Equal(t, string(text), string(again), "the same bytes each time")
		})
	}
}

// The answer has the API's own shape.
func TestReply(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		response response
		want     string
	}{
		"allowed as it is": {allow("u", nil), `{"uid":"u","allowed":true}`},
		"patched, with a warning": {
			allow("u", []byte(`[]`), "waits"), `{"uid":"u","allowed":true,"patchType":"JSONPatch","patch":"W10=","warnings":["waits"]}`,
		},
		"refused: a client may try again": {
			refuse("u", "why"), `{"uid":"u","allowed":false,"status":{"code":503,"reason":"ServiceUnavailable","message":"why"}}`,
		},
		"no request of ours": {
			invalid("u", errNotReview),
			`{"uid":"u","allowed":false,"status":{"code":400,"reason":"BadRequest","message":"paceline: want an admission.k8s.io/v1 AdmissionReview with a request"}}`,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := reply(c.response)
			require.NoError(t, err)
			require.JSONEq(t, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":`+c.want+`}`, string(text))
		})
	}
}
