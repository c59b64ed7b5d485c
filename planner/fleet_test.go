package planner

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// What a new StatefulSet would adopt: pods of its ordinals that nobody owns any more, and of which a
// ControllerRevision says what they run.
func TestOrphans(t *testing.T) {
	t.Parallel()
	lone := func(name, revision, owner string) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "cell", Name: name, Labels: map[string]string{}}}
		if revision != "" {
			pod.Labels["controller-revision-hash"] = revision
		}
		if owner != "" {
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: owner, UID: "u", Controller: ptr.To(true)}}
		}
		return pod
	}
	going := lone("rpc-4", "r-1", "")
	going.DeletionTimestamp, going.Finalizers = ptr.To(metav1.Now()), []string{"x"}
	keep := func(name, image string) *appsv1.ControllerRevision {
		raw := `{"spec":{"template":{"spec":{"containers":[{"name":"app","image":"` + image + `"}]}}}}`
		revision := &appsv1.ControllerRevision{
			ObjectMeta: metav1.ObjectMeta{Namespace: "cell", Name: name}, Data: runtime.RawExtension{Raw: []byte(raw)},
		}
		slim, err := SlimRevision(revision)
		require.NoError(t, err)
		kept, ok := slim.(*appsv1.ControllerRevision)
		require.True(t, ok)
		return kept
	}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want []string
	}{
		"nobody's":                      {lone("rpc-0", "r-1", ""), []string{"app:v1"}},
		"of one of this name":           {lone("rpc-10", "r-2", "rpc"), []string{"app:v2"}},
		"of another":                    {lone("rpc-0", "r-1", "other"), nil},
		"of a longer name":              {lone("rpc-a-0", "r-1", ""), nil},
		"no ordinal":                    {lone("rpc-x", "r-1", ""), nil},
		"not made by a StatefulSet":     {lone("rpc-0", "", ""), nil},
		"on its way out":                {going, nil},
		"nothing says any more what of": {lone("rpc-0", "r-gone", ""), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := []client.Object{keep("r-1", "app:v1"), keep("r-2", "app:v2"), c.pod}
			fleet := Fleet{Cache: fake.NewClientBuilder().WithObjects(objects...).Build()}
			got, err := fleet.Orphans(t.Context(), "cell", "rpc")
			require.NoError(t, err)
			var images []string
			for _, paced := range got {
				images = append(images, paced.Containers["app"])
			}
			require.Equal(t, c.want, images)
		})
	}
}
