package webhook

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// entry is one of an object's managedFields, of fields of the pod spec.
func entry(manager, operation, fields string) string {
	return fmt.Sprintf(`{"manager":%q,"operation":%q,"apiVersion":"apps/v1","time":"2026-01-02T03:04:05Z","fieldsType":"FieldsV1",
		"fieldsV1":{"f:spec":{"f:template":{"f:spec":%s}}}}`, manager, operation, fields)
}

func owns(list, name, leaf string) string {
	return fmt.Sprintf(`{"f:%s":{"k:{\"name\":\"%s\"}":{".":{},"f:name":{},%s}}}`, list, name, leaf)
}

const (
	imageLeaf   = `"f:image":{}`
	envLeaf     = `"f:env":{}`
	modelLeaf   = `"f:image":{"f:reference":{}}`
	applierName = "argocd"
)

func stated(image, more string) string {
	return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"rpc-0"%s},"spec":{"template":{"metadata":{"labels":{"app":"rpc"}},"spec":{
		"containers":[{"name":"app","image":%q},{"name":"side","image":"side:v1"}],"initContainers":[{"name":"init","image":"init:v1"}],
		"volumes":[{"name":"data","emptyDir":{}},{"name":"model","image":{"reference":"model:v1"}}]}}}}`, more, image)
}

// The rules of withdrawal, each with what makes it hold and what makes it fail. The writer deferred app:v2
// and the request leaves the image as it stands.
func TestWithdrawal(t *testing.T) {
	t.Parallel()
	applier := func(entries ...string) writer {
		return writer{user: "argo", manager: applierName, managed: "[" + strings.Join(entries, ",") + "]"}
	}
	applies := entry(applierName, "Apply", owns("containers", "app", imageLeaf))
	cases := map[string]struct {
		by        writer
		withdrawn bool
	}{
		"W1: its Apply entry owns the image":                      {applier(applies), true},
		"W1: so also beside entries of others":                    {applier(entry("other", "Update", owns("containers", "app", envLeaf)), applies), true},
		"W1: it owns another field of the container":              {applier(entry(applierName, "Apply", owns("containers", "app", envLeaf))), false},
		"W1: it owns another container's image":                   {applier(entry(applierName, "Apply", owns("containers", "side", imageLeaf))), false},
		"W1: the entry is another manager's":                      {applier(entry("other", "Apply", owns("containers", "app", imageLeaf))), false},
		"W1: it only updates":                                     {applier(entry(applierName, "Update", owns("containers", "app", imageLeaf))), false},
		"W1: it updated too":                                      {applier(applies, entry(applierName, "Update", owns("containers", "app", envLeaf))), false},
		"W1: no field manager":                                    {writer{user: "argo", managed: "[" + entry("", "Apply", owns("containers", "app", imageLeaf)) + "]"}, false},
		"W1: an entry that cannot be read":                        {applier(strings.Replace(applies, `"f:spec"`, `"x:spec"`, 1)), false},
		"W2: last-applied states what stands":                     {writer{user: "bob", manager: "kubectl-client-side-apply", lastApplied: stated("app:v1", "")}, true},
		"W2: it states what is deferred":                          {writer{user: "bob", manager: "kubectl-client-side-apply", lastApplied: stated("app:v2", "")}, false},
		"W2: it cannot be read":                                   {writer{user: "bob", manager: "kubectl-client-side-apply", lastApplied: "{"}, false},
		"W2: it is a copy of a live object":                       {writer{user: "bob", manager: "kubectl-client-side-apply", lastApplied: stated("app:v1", `,"uid":"u"`)}, false},
		"W3: who asked for it leaves it out":                      {writer{user: helm.user, manager: helm.manager, whole: true}, true},
		"W3: another user leaves it out":                          {writer{user: "bob", manager: helm.manager, whole: true}, false},
		"W3: the same user by another manager":                    {writer{user: helm.user, manager: "kubectl", whole: true}, false},
		"W3: who asked for it carries it":                         {helm, false},
		"nobody says anything of it":                              {kubectl, false},
		"Paceline's own write takes nothing back, whatever it is": {writer{user: account, manager: applierName, managed: "[" + applies + "]", lastApplied: stated("app:v1", "")}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := pinCell(t)
			require.Equal(t, ReasonHeld, p.write(t, helm, app("app:v2")))
			got := p.write(t, c.by, annotated("note", "x"), scaled(2))
			if c.withdrawn {
				require.Equal(t, ReasonLifted, got)
				p.waits(t, map[string]string{})
				require.Equal(t, "app:v1", p.images()["app"])
				return
			}
			require.Equal(t, ReasonHeld, got)
			p.waits(t, map[string]string{"containers/app": `"app:v2"`})
			p.grant(t)
			require.Equal(t, "app:v2", p.images()["app"])
		})
	}
}

// Behind a webhook that makes a mirror's or a digest's image of each, kubectl apply never states what stands. That it
// states another image than before, and not what waits, is as good.
func TestWithdrawalBehindAMirror(t *testing.T) {
	t.Parallel()
	apply := func(image string) writer {
		return writer{user: "bob", manager: "kubectl-client-side-apply", lastApplied: stated(image, "")}
	}
	relabelled := apply("app:v1")
	relabelled.lastApplied = strings.Replace(relabelled.lastApplied, `"name":"rpc-0"`, `"name":"rpc-0","labels":{"a":"b"}`, 1)
	more := func(set map[string]any) {
		podSpecOf(set)["containers"] = append(podSpecOf(set)["containers"].([]any), map[string]any{"name": "new", "image": "mirror/new:v1"})
	}
	for name, c := range map[string]struct {
		asks      writer
		edit      edit
		takes     writer
		withdrawn bool
	}{
		"it goes back":                           {apply("app:v2"), app("mirror/app:v2"), apply("app:v1"), true},
		"of a container that came":               {apply("app:v2"), more, apply("app:v1"), true},
		"another's wish, its image is unchanged": {helm, app("mirror/app:v2"), relabelled, false},
		"it states what waits":                   {helm, app("app:v2"), apply("app:v2"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := pinCell(t)
			app("mirror/app:v1")(p.set)
			require.Equal(t, ReasonPass, p.write(t, apply("app:v1")))
			require.Equal(t, ReasonHeld, p.write(t, c.asks, c.edit))
			want := ReasonHeld
			if c.withdrawn {
				want = ReasonLifted
			}
			require.Equal(t, want, p.write(t, c.takes, scaled(2)))
		})
	}
}

// last-applied that did not change says nothing.
func TestAnOldLastAppliedWithdrawsNothing(t *testing.T) {
	t.Parallel()
	p := pinCell(t)
	apply := writer{user: "bob", manager: "kubectl-client-side-apply", lastApplied: stated("app:v1", "")}
	require.Equal(t, ReasonPass, p.write(t, apply))
	require.Equal(t, ReasonHeld, p.write(t, helm, app("app:v2")))
	require.Equal(t, ReasonHeld, p.write(t, apply, scaled(2)))
	p.waits(t, map[string]string{"containers/app": `"app:v2"`})
}

// A second Apply entry's owner may have updated before: only what this request changed counts.
func TestAnUpdateOfLongAgoDoesNotCount(t *testing.T) {
	t.Parallel()
	p := pinCell(t)
	require.Equal(t, ReasonHeld, p.write(t, helm, app("app:v2")))
	old := entry(applierName, "Update", owns("containers", "app", envLeaf))
	setManaged := func(entries string) edit {
		return func(set map[string]any) {
			set["metadata"].(map[string]any)["managedFields"] = jsonOf(t, "["+entries+"]")
		}
	}
	setManaged(old)(p.set)
	by := writer{user: "argo", manager: applierName}
	require.Equal(t, ReasonLifted, p.write(t, by, setManaged(old+","+entry(applierName, "Apply", owns("containers", "app", imageLeaf)))))
}

// Each kind of field has its own path in managedFields and its own place in last-applied.
func TestWithdrawalOfEveryKind(t *testing.T) {
	t.Parallel()
	affinity := podField("affinity", map[string]any{"nodeAffinity": map[string]any{"x": 1}})
	more := func(set map[string]any) {
		podSpecOf(set)["containers"] = append(podSpecOf(set)["containers"].([]any), map[string]any{"name": "new", "image": "new:v1"})
	}
	argo := func(fields string) writer {
		return writer{user: "argo", manager: applierName, managed: "[" + entry(applierName, "Apply", fields) + "]"}
	}
	bob := writer{user: "bob", manager: "kubectl-client-side-apply", lastApplied: stated("app:v1", "")}
	asked := writer{user: "argo", manager: applierName}
	for name, c := range map[string]struct {
		asks      writer
		edit      edit
		takes     writer
		withdrawn bool
	}{
		"init container, W1":                       {helm, imageOf("initContainers", "init", "init:v2"), argo(owns("initContainers", "init", imageLeaf)), true},
		"image volume, W1":                         {helm, imageOf("volumes", "model", "model:v2"), argo(owns("volumes", "model", modelLeaf)), true},
		"image volume, W1: another of its fields":  {helm, imageOf("volumes", "model", "model:v2"), argo(owns("volumes", "model", `"f:image":{"f:pullPolicy":{}}`)), false},
		"affinity, W1: any part of it":             {helm, affinity, argo(`{"f:affinity":{"f:nodeAffinity":{}}}`), true},
		"affinity, W1: not owned":                  {helm, affinity, argo(`{"f:nodeSelector":{}}`), false},
		"containers, W1: of who asked":             {asked, more, argo(owns("containers", "app", imageLeaf)), true},
		"containers, W1: of another":               {helm, more, argo(owns("containers", "app", imageLeaf)), false},
		"init container, W2":                       {helm, imageOf("initContainers", "init", "init:v2"), bob, true},
		"image volume, W2":                         {helm, imageOf("volumes", "model", "model:v2"), bob, true},
		"affinity, W2: not mentioned by another":   {helm, affinity, bob, false},
		"affinity, W2: not mentioned by who asked": {writer{user: bob.user, manager: bob.manager}, affinity, bob, true},
		"containers, W2: all stated as they stand": {helm, more, bob, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := pinCell(t)
			require.Equal(t, ReasonHeld, p.write(t, c.asks, c.edit))
			want := ReasonHeld
			if c.withdrawn {
				want = ReasonLifted
			}
			require.Equal(t, want, p.write(t, c.takes, scaled(2)))
		})
	}
}

// Of two deferred fields one can be withdrawn, and the other waits on.
func TestAWithdrawalOfOneFieldLeavesTheOther(t *testing.T) {
	t.Parallel()
	p := pinCell(t)
	p.write(t, helm, app("app:v2"), imageOf("containers", "side", "side:v2"))
	by := writer{user: "argo", manager: applierName, managed: "[" + entry(applierName, "Apply", owns("containers", "app", imageLeaf)) + "]"}
	require.Equal(t, ReasonHeld, p.write(t, by, scaled(2)))
	p.waits(t, map[string]string{"containers/side": `"side:v2"`})
}
