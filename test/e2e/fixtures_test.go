package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsapply "k8s.io/client-go/applyconfigurations/apps/v1"
	appsclient "k8s.io/client-go/kubernetes/typed/apps/v1"
	"k8s.io/client-go/rest"

	"github.com/paceline/paceline/test/e2e/harness"
	"github.com/paceline/paceline/test/rig/binary"
	"github.com/paceline/paceline/webhook"
	"github.com/paceline/paceline/webhook/webhooktest"
)

// The request of every fixture, made of a real API server: it asks the real handler, by the chart's
// own configuration, and what it stores, warns of or refuses is what the fixture says. Left out are the
// reviews that no API server sends.
func TestFixturesAreStoredAsTheySay(t *testing.T) {
	t.Parallel()
	still := rig.Still(t)
	root, err := binary.SourceRoot()
	require.NoError(t, err)
	folders, err := filepath.Glob(filepath.Join(root, "webhook", "testdata", "*"))
	require.NoError(t, err)
	replayed := 0
	for _, dir := range folders {
		name := filepath.Base(dir)
		if strings.HasPrefix(name, "malformed-") || name == "unknown-fields-pass" {
			continue
		}
		replayed++
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			readReplay(t, still, dir).run(t)
		})
	}
	require.Greater(t, replayed, 25, "the fixtures are not there")
}

// replay is one fixture in a cell of its own on the still API server.
type replay struct {
	still     *harness.Still
	namespace string
	request   *admissionv1.AdmissionRequest
	response  *admissionv1.AdmissionResponse
	state     webhooktest.State

	object, oldObject *appsv1.StatefulSet // as recorded
	warned            warnings
}

func readReplay(t *testing.T, still *harness.Still, dir string) *replay {
	t.Helper()
	var review, answer admissionv1.AdmissionReview
	readJSON(t, filepath.Join(dir, "review.json"), &review)
	readJSON(t, filepath.Join(dir, "response.json"), &answer)
	r := &replay{still: still, request: review.Request, response: answer.Response}
	var err error
	r.state, err = webhooktest.Read(filepath.Join(dir, "state.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(r.request.Object.Raw, &r.object))
	if r.request.OldObject.Raw != nil {
		require.NoError(t, json.Unmarshal(r.request.OldObject.Raw, &r.oldObject))
	}
	delete(r.state.Labels, "kubernetes.io/metadata.name") // the API server writes it
	r.namespace = still.Namespace(t, filepath.Base(dir), r.state.Labels, r.state.Annotations)
	return r
}

func (r *replay) run(t *testing.T) {
	before := r.place(t)
	r.still.Webhook.Handle(r.namespace, r.state.Handler(func(webhook.Reason) {}))
	asked := r.still.Webhook.Asked(r.namespace)
	err := r.send(t, before)
	// An API server asks again where its own copy of the object was older than the stored one.
	require.Greater(t, r.still.Webhook.Asked(r.namespace), asked, "the chart's conditions let it through to the webhook: %v", err)

	stored, getErr := r.still.Client().AppsV1().StatefulSets(r.namespace).Get(t.Context(), r.object.Name, metav1.GetOptions{})
	require.NoError(t, getErr)
	if !r.response.Allowed {
		require.ErrorContains(t, err, r.response.Result.Message)
		require.Equal(t, r.response.Result.Code, statusOf(t, err).Code)
		require.Equal(t, r.response.Result.Reason, statusOf(t, err).Reason)
		require.Equal(t, before, stored, "what is refused changes nothing")
		return
	}
	require.NoError(t, err)
	want := r.wanted(t)
	require.Equal(t, want.Annotations, stored.Annotations)
	require.Equal(t, want.Labels, stored.Labels)
	require.Equal(t, want.Spec, stored.Spec)
	require.Equal(t, r.warnings(), r.warned.texts)
}

// place stores the old object with its status, unasked, as the StatefulSet controller and Paceline
// have left it. Only its UID and its generation are the API server's own; the slot is held by that UID.
func (r *replay) place(t *testing.T) *appsv1.StatefulSet {
	t.Helper()
	if r.oldObject == nil {
		return nil
	}
	set, err := r.still.Client().AppsV1().StatefulSets(r.namespace).Create(t.Context(), asCreated(r.oldObject), metav1.CreateOptions{})
	require.NoError(t, err)
	for i := range r.state.Slots {
		if r.state.Slots[i].HolderUID == r.oldObject.UID {
			r.state.Slots[i].HolderUID = set.UID
		}
	}
	set.Status = r.oldObject.Status
	set.Status.ObservedGeneration += set.Generation - r.oldObject.Generation
	controller := rest.ImpersonationConfig{UserName: "system:serviceaccount:kube-system:statefulset-controller"}
	set, err = r.still.As(t, controller, nil).AppsV1().StatefulSets(r.namespace).UpdateStatus(t.Context(), set, metav1.UpdateOptions{})
	require.NoError(t, err)
	return set
}

// send makes the recorded request as its user, on the object that is stored.
func (r *replay) send(t *testing.T, before *appsv1.StatefulSet) error {
	t.Helper()
	var options metav1.UpdateOptions
	require.NoError(t, json.Unmarshal(r.request.Options.Raw, &options))
	sets := r.still.As(t, userOf(r.request.UserInfo), &r.warned).AppsV1().StatefulSets(r.namespace)
	set := asCreated(r.object)
	if r.request.Operation == admissionv1.Create {
		_, err := sets.Create(t.Context(), set, metav1.CreateOptions{FieldManager: options.FieldManager})
		return err
	}
	if slices.ContainsFunc(r.object.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == options.FieldManager && e.Operation == metav1.ManagedFieldsOperationApply
	}) {
		return r.apply(t, sets, options.FieldManager)
	}
	set.UID, set.ResourceVersion, set.ManagedFields = before.UID, before.ResourceVersion, before.ManagedFields
	_, err := sets.Update(t.Context(), set, metav1.UpdateOptions{FieldManager: options.FieldManager})
	return err
}

// apply makes a recorded server-side apply: what its manager owns is what it stated.
func (r *replay) apply(t *testing.T, sets appsclient.StatefulSetInterface, manager string) error {
	t.Helper()
	stated, err := appsapply.ExtractStatefulSet(r.object, manager)
	require.NoError(t, err)
	_, err = sets.Apply(t.Context(), stated.WithNamespace(r.namespace), metav1.ApplyOptions{FieldManager: manager, Force: true})
	return err
}

// wanted is the recorded object with the recorded patch, and with the defaults that this API server
// gives to fields of the patch.
func (r *replay) wanted(t *testing.T) *appsv1.StatefulSet {
	t.Helper()
	text := r.request.Object.Raw
	if r.response.Patch != nil {
		operations, err := jsonpatch.DecodePatch(r.response.Patch)
		require.NoError(t, err)
		text, err = operations.Apply(text)
		require.NoError(t, err)
	}
	var patched appsv1.StatefulSet
	require.NoError(t, json.Unmarshal(text, &patched))
	set, err := r.still.Client().AppsV1().StatefulSets(metav1.NamespaceDefault).Create(t.Context(), asCreated(&patched),
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	require.NoError(t, err)
	return set
}

// warnings are the recorded ones; they name the namespace.
func (r *replay) warnings() []string {
	var texts []string
	for _, text := range r.response.Warnings {
		texts = append(texts, strings.ReplaceAll(text, "-n "+r.request.Namespace+";", "-n "+r.namespace+";"))
	}
	return texts
}

// asCreated leaves out what an API server gives to an object by itself.
func asCreated(set *appsv1.StatefulSet) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: set.Name, Labels: set.Labels, Annotations: set.Annotations},
		Spec:       set.Spec,
	}
}

// userOf is the recorded user. One made up by hand is in no group, and may do what an admin may.
func userOf(user authenticationv1.UserInfo) rest.ImpersonationConfig {
	if len(user.Groups) == 0 {
		user.Groups = []string{"system:masters"}
	}
	return rest.ImpersonationConfig{UserName: user.Username, UID: user.UID, Groups: user.Groups}
}

func statusOf(t *testing.T, err error) metav1.Status {
	t.Helper()
	var status apierrors.APIStatus
	require.ErrorAs(t, err, &status)
	return status.Status()
}

// warnings collects what the API server warned of.
type warnings struct{ texts []string }

func (w *warnings) HandleWarningHeader(_ int, _ string, text string) {
	w.texts = append(w.texts, text)
}

func readJSON(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, into))
}
