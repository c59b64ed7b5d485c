package webhook

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func revisionOf(name, template string) *appsv1.ControllerRevision {
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Data:       runtime.RawExtension{Raw: fmt.Appendf(nil, `{"spec":{"template":%s}}`, template)},
	}
}

// A pod that is rendered at the revision of its node is whole: everything that the template says is what it was,
// everything that the pod got since stays.
func TestRender(t *testing.T) {
	t.Parallel()
	const token = `{"name":"kube-api-access-x","projected":{}}`
	for name, c := range map[string]struct{ ran, made, pod, want string }{
		"image, arguments and environment": {
			ran:  `{"spec":{"containers":[{"name":"app","image":"app:v1","args":["--old","x"],"env":[{"name":"A","value":"1"}]}]}}`,
			made: `{"spec":{"containers":[{"name":"app","image":"app:v2","args":["--new"],"env":[{"name":"A","value":"2"},{"name":"B","value":"3"}]}]}}`,
			pod:  `{"containers":[{"name":"app","image":"app:v2","args":["--new"],"env":[{"name":"A","value":"2"},{"name":"B","value":"3"}]}]}`,
			want: `{"containers":[{"name":"app","image":"app:v1","args":["--old","x"],"env":[{"name":"A","value":"1"}]}]}`,
		},
		"a container that was added goes, an injected one and its volume stay": {
			ran:  `{"spec":{"containers":[{"name":"app","image":"app:v1"}]}}`,
			made: `{"spec":{"containers":[{"name":"app","image":"app:v1"},{"name":"new","image":"new:v1"}]}}`,
			pod: `{"containers":[{"name":"app","image":"app:v1","volumeMounts":[{"name":"kube-api-access-x","mountPath":"/t"}]},` +
				`{"name":"new","image":"new:v1"},{"name":"proxy","image":"proxy:v9"}],"volumes":[` + token + `]}`,
			want: `{"containers":[{"name":"app","image":"app:v1","volumeMounts":[{"name":"kube-api-access-x","mountPath":"/t"}]},` +
				`{"name":"proxy","image":"proxy:v9"}],"volumes":[` + token + `]}`,
		},
		"a container that was removed comes back": {
			ran:  `{"spec":{"containers":[{"name":"app","image":"app:v1"},{"name":"old","image":"old:v1","ports":[{"containerPort":1,"protocol":"TCP"}]}]}}`,
			made: `{"spec":{"containers":[{"name":"app","image":"app:v1"}]}}`,
			pod:  `{"containers":[{"name":"app","image":"app:v1"}]}`,
			want: `{"containers":[{"name":"app","image":"app:v1"},{"name":"old","image":"old:v1","ports":[{"containerPort":1,"protocol":"TCP"}]}]}`,
		},
		"an image that a mirror rewrote, in a container whose image did not change": {
			ran:  `{"spec":{"containers":[{"name":"app","image":"app:v1"},{"name":"side","image":"side:v1"}]}}`,
			made: `{"spec":{"containers":[{"name":"app","image":"app:v2"},{"name":"side","image":"side:v1"}]}}`,
			pod:  `{"containers":[{"name":"app","image":"mirror/app:v2"},{"name":"side","image":"mirror/side:v1"}]}`,
			want: `{"containers":[{"name":"app","image":"app:v1"},{"name":"side","image":"mirror/side:v1"}]}`,
		},
		"init containers and image volumes": {
			ran: `{"spec":{"initContainers":[{"name":"init","image":"init:v1","restartPolicy":"Always"}],"containers":[{"name":"app","image":"app:v1"}],` +
				`"volumes":[{"name":"model","image":{"reference":"model:v1"}}]}}`,
			made: `{"spec":{"initContainers":[{"name":"init","image":"init:v2"}],"containers":[{"name":"app","image":"app:v1"}],` +
				`"volumes":[{"name":"model","image":{"reference":"model:v2"}}]}}`,
			pod: `{"initContainers":[{"name":"init","image":"init:v2"}],"containers":[{"name":"app","image":"app:v1"}],` +
				`"volumes":[{"name":"model","image":{"reference":"model:v2"}},{"name":"data","persistentVolumeClaim":{"claimName":"data-rpc-0-0"}}]}`,
			want: `{"initContainers":[{"name":"init","image":"init:v1","restartPolicy":"Always"}],"containers":[{"name":"app","image":"app:v1"}],` +
				`"volumes":[{"name":"model","image":{"reference":"model:v1"}},{"name":"data","persistentVolumeClaim":{"claimName":"data-rpc-0-0"}}]}`,
		},
		"a volume of another kind": {
			ran:  `{"spec":{"containers":[{"name":"app","image":"app:v1"}],"volumes":[{"name":"scratch","emptyDir":{}}]}}`,
			made: `{"spec":{"containers":[{"name":"app","image":"app:v1"}],"volumes":[{"name":"scratch","hostPath":{"path":"/x","type":""}}]}}`,
			pod:  `{"containers":[{"name":"app","image":"app:v1"}],"volumes":[{"name":"scratch","hostPath":{"path":"/x","type":""}}]}`,
			want: `{"containers":[{"name":"app","image":"app:v1"}],"volumes":[{"name":"scratch","emptyDir":{}}]}`,
		},
		"lists that only the newer revision has: what others added to them stays": {
			ran: `{"spec":{"containers":[{"name":"app","image":"app:v1"}]}}`,
			made: `{"spec":{"containers":[{"name":"app","image":"app:v1","env":[{"name":"A","value":"1"}],"volumeMounts":[{"name":"x","mountPath":"/x"}]}],` +
				`"initContainers":[{"name":"init","image":"init:v1"}],"volumes":[{"name":"x","emptyDir":{}}],"nodeSelector":{"pool":"a"},"tolerations":[{"key":"x"}]}}`,
			pod: `{"containers":[{"name":"app","image":"app:v1","env":[{"name":"A","value":"1"},{"name":"B","value":"2"}],` +
				`"volumeMounts":[{"name":"x","mountPath":"/x"},{"name":"data","mountPath":"/data"}]}],` +
				`"initContainers":[{"name":"init","image":"init:v1"},{"name":"mesh","image":"mesh:v1"}],` +
				`"volumes":[{"name":"x","emptyDir":{}},{"name":"data","persistentVolumeClaim":{"claimName":"data-rpc-0-0"}}],` +
				`"nodeSelector":{"pool":"a","tenant":"b"},"tolerations":[{"key":"x"},{"key":"not-ready","operator":"Exists"}]}`,
			want: `{"containers":[{"name":"app","image":"app:v1","env":[{"name":"B","value":"2"}],"volumeMounts":[{"name":"data","mountPath":"/data"}]}],` +
				`"initContainers":[{"name":"mesh","image":"mesh:v1"}],"volumes":[{"name":"data","persistentVolumeClaim":{"claimName":"data-rpc-0-0"}}],` +
				`"nodeSelector":{"tenant":"b"},"tolerations":[{"key":"not-ready","operator":"Exists"}]}`,
		},
		"a port that another webhook changed is not there twice": {
			ran:  `{"spec":{"containers":[{"name":"app","image":"app:v1","ports":[{"containerPort":1,"protocol":"TCP","name":"p2p"},{"containerPort":2,"protocol":"TCP"}]}]}}`,
			made: `{"spec":{"containers":[{"name":"app","image":"app:v1","ports":[{"containerPort":1,"protocol":"TCP","name":"p2p"}]}]}}`,
			pod:  `{"containers":[{"name":"app","image":"app:v1","ports":[{"containerPort":1,"protocol":"TCP","name":"p2p","hostPort":1}]}]}`,
			want: `{"containers":[{"name":"app","image":"app:v1","ports":[{"containerPort":1,"protocol":"TCP","name":"p2p"},{"containerPort":2,"protocol":"TCP"}]}]}`,
		},
		"isolation": {
			ran: `{"spec":{"containers":[{"name":"app","image":"app:v1"}],"nodeSelector":{"pool":"a"},` +
				`"topologySpreadConstraints":[{"topologyKey":"zone","maxSkew":1,"whenUnsatisfiable":"DoNotSchedule"},{"topologyKey":"zone","maxSkew":2,"whenUnsatisfiable":"ScheduleAnyway"}]}}`,
			made: `{"spec":{"containers":[{"name":"app","image":"app:v1"}],"nodeSelector":{"pool":"b","disk":"ssd"},"tolerations":[{"key":"x"}],` +
				`"topologySpreadConstraints":[{"topologyKey":"zone","maxSkew":1,"whenUnsatisfiable":"DoNotSchedule"}]}}`,
			pod: `{"containers":[{"name":"app","image":"app:v1"}],"nodeSelector":{"pool":"b","disk":"ssd"},"tolerations":[{"key":"x"}],` +
				`"topologySpreadConstraints":[{"topologyKey":"zone","maxSkew":1,"whenUnsatisfiable":"DoNotSchedule"}]}`,
			want: `{"containers":[{"name":"app","image":"app:v1"}],"nodeSelector":{"pool":"a"},"tolerations":[],` +
				`"topologySpreadConstraints":[{"topologyKey":"zone","maxSkew":1,"whenUnsatisfiable":"DoNotSchedule"},{"topologyKey":"zone","maxSkew":2,"whenUnsatisfiable":"ScheduleAnyway"}]}`,
		},
		"one port number of two protocols": {
			ran:  `{"spec":{"containers":[{"name":"app","image":"app:v1","ports":[{"containerPort":30303,"protocol":"TCP"},{"containerPort":30303,"protocol":"UDP"}]}]}}`,
			made: `{"spec":{"containers":[{"name":"app","image":"app:v2","ports":[{"containerPort":30304,"protocol":"TCP"}]}]}}`,
			pod:  `{"containers":[{"name":"app","image":"app:v2","ports":[{"containerPort":30304,"protocol":"TCP"},{"containerPort":9,"protocol":"TCP"}]}]}`,
			want: `{"containers":[{"name":"app","image":"app:v1","ports":[{"containerPort":30303,"protocol":"TCP"},{"containerPort":30303,"protocol":"UDP"},{"containerPort":9,"protocol":"TCP"}]}]}`,
		},
		"what the API server computed from a class that changes": {
			ran:  `{"spec":{"containers":[{"name":"app","image":"app:v1"}],"priorityClassName":"low"}}`,
			made: `{"spec":{"containers":[{"name":"app","image":"app:v1"}],"priorityClassName":"high","runtimeClassName":"vm"}}`,
			pod:  `{"containers":[{"name":"app","image":"app:v1"}],"priorityClassName":"high","priority":1000,"preemptionPolicy":"Never","runtimeClassName":"vm","overhead":{"cpu":"1"}}`,
			want: `{"containers":[{"name":"app","image":"app:v1"}],"priorityClassName":"low"}`,
		},
		"what it computed from one that does not": {
			ran:  `{"spec":{"containers":[{"name":"app","image":"app:v1"}],"priorityClassName":"low"}}`,
			made: `{"spec":{"containers":[{"name":"app","image":"app:v2"}],"priorityClassName":"low"}}`,
			pod:  `{"containers":[{"name":"app","image":"app:v2"}],"priorityClassName":"low","priority":1,"activeDeadlineSeconds":` + exactNumber + `}`,
			want: `{"containers":[{"name":"app","image":"app:v1"}],"priorityClassName":"low","priority":1,"activeDeadlineSeconds":` + exactNumber + `}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := fmt.Sprintf(`{"metadata":{"name":"rpc-0-0","labels":{"controller-revision-hash":"made"}},"spec":%s}`, c.pod)
			got, err := render([]byte(pod), revisionOf("made", c.made), revisionOf("ran", c.ran))
			require.NoError(t, err)
			text, err := json.Marshal(got)
			require.NoError(t, err)
			require.JSONEq(t, fmt.Sprintf(`{"metadata":{"name":"rpc-0-0","labels":{"controller-revision-hash":"ran"}},"spec":%s}`, c.want), string(text))
			require.Equal(t, strings.Contains(c.want, exactNumber), strings.Contains(string(text), exactNumber), "no number is rounded")
		})
	}
}

// Labels and annotations of the template go back too; those that others gave the pod stay.
func TestRenderMetadata(t *testing.T) {
	t.Parallel()
	ran := revisionOf("ran", `{"metadata":{"labels":{"app":"rpc","version":"1"}},"spec":{"containers":[{"name":"app","image":"app:v1"}]}}`)
	made := revisionOf("made", `{"metadata":{"labels":{"app":"rpc","version":"2","new":"x"},"annotations":{"checksum":"2"}},"spec":{"containers":[{"name":"app","image":"app:v1"}]}}`)
	got, err := render([]byte(`{"metadata":{"labels":{"app":"rpc","version":"2","new":"x","controller-revision-hash":"made","injected":"y"},`+
		`"annotations":{"checksum":"2","mesh":"on"}},"spec":{"containers":[{"name":"app","image":"app:v1"}]}}`), made, ran)
	require.NoError(t, err)
	require.Equal(t, map[string]any{"app": "rpc", "version": "1", "controller-revision-hash": "ran", "injected": "y"}, child(got, "metadata")["labels"])
	require.Equal(t, map[string]any{"mesh": "on"}, child(got, "metadata")["annotations"])
}

func TestRenderErrors(t *testing.T) {
	t.Parallel()
	good := revisionOf("good", `{"spec":{"containers":[{"name":"app","image":"app:v1"}]}}`)
	_, err := render([]byte(`{"spec":{}}`), good, &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "empty"}, Data: runtime.RawExtension{Raw: []byte(`{}`)}})
	require.EqualError(t, err, "reading ControllerRevision empty: it has no spec.template")
	_, err = render([]byte(`{"spec":{}}`), &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "torn"}, Data: runtime.RawExtension{Raw: []byte(`{"spec`)}}, good)
	require.ErrorContains(t, err, "reading ControllerRevision torn")
	_, err = render([]byte(`[]`), good, good)
	require.ErrorContains(t, err, "reading pod")
}

// exactNumber is one that a float64 does not hold.
const exactNumber = "9007199254740993"
