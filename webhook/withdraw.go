package webhook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/paceline/paceline/node"
)

// Evidence is what a request says of who writes and of what that writer states, beside the object: what
// tells a withdrawal of something deferred from a write that merely does not mention it.
type Evidence struct {
	// By is the request's writer.
	By node.Author
	// Applied is what the writer's Apply entry in the new managedFields owns; nil: it has none.
	Applied *fieldpath.Set
	// Updates reports that an Update entry of the same writer was added or changed.
	Updates bool
	// LastApplied is the template in kubectl's last-applied annotation, where that changed, can be read and
	// is no dump of a live object; nil: none. AppliedBefore is that of before; nil: none that can be read.
	LastApplied, AppliedBefore []byte
	// Missing reports that the request's object does not carry the annotation deferred.
	Missing bool
}

// lastApplied is kubectl's annotation.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// testimony is the part of a review that Evidence is read from; nothing else looks at it.
type testimony struct {
	Request struct {
		Options struct {
			FieldManager string `json:"fieldManager"`
		} `json:"options"`
		Object    witness `json:"object"`
		OldObject witness `json:"oldObject"`
	} `json:"request"`
}

type witness struct {
	Metadata struct {
		ManagedFields []metav1.ManagedFieldsEntry `json:"managedFields"`
	} `json:"metadata"`
}

// readEvidence reads the review once more, for the parts that only a deferred wish needs.
func (r *request) readEvidence() (Evidence, error) {
	var t testimony
	if err := json.Unmarshal(r.body, &t); err != nil {
		return Evidence{}, fmt.Errorf("reading managedFields: %w", err)
	}
	manager := t.Request.Options.FieldManager
	e := Evidence{By: node.Author{FieldManager: manager, User: r.UserInfo.Username}}
	_, there := r.Object.Metadata.Annotations[node.AnnotationDeferred]
	e.Missing = !there
	if r.OldObject == nil {
		return e, nil
	}
	before := r.OldObject.Metadata.Annotations[lastApplied]
	e.LastApplied = statedTemplate(before, r.Object.Metadata.Annotations[lastApplied])
	e.AppliedBefore = statedTemplate("", before)
	if manager == "" {
		return e, nil
	}
	for _, entry := range t.Request.Object.Metadata.ManagedFields {
		if entry.Manager != manager || entry.Subresource != "" {
			continue
		}
		switch entry.Operation {
		case metav1.ManagedFieldsOperationApply:
			e.Applied = ownedBy(entry)
		case metav1.ManagedFieldsOperationUpdate:
			e.Updates = e.Updates || !contains(t.Request.OldObject.Metadata.ManagedFields, entry)
		}
	}
	return e, nil
}

func contains(entries []metav1.ManagedFieldsEntry, entry metav1.ManagedFieldsEntry) bool {
	for _, e := range entries {
		if e.Manager == entry.Manager && e.Operation == entry.Operation && e.Subresource == entry.Subresource &&
			e.APIVersion == entry.APIVersion && e.Time.Equal(entry.Time) && bytes.Equal(rawFields(e), rawFields(entry)) {
			return true
		}
	}
	return false
}

func rawFields(e metav1.ManagedFieldsEntry) []byte {
	if e.FieldsV1 == nil {
		return nil
	}
	return e.FieldsV1.GetRawBytes()
}

// ownedBy reads the fields of an entry; nil where they cannot be read: nothing is proven by it.
func ownedBy(entry metav1.ManagedFieldsEntry) *fieldpath.Set {
	set := &fieldpath.Set{}
	if err := set.FromJSON(bytes.NewReader(rawFields(entry))); err != nil {
		return nil
	}
	return set
}

// statedTemplate is the pod template of a last-applied annotation that changed, nil where it says nothing
// of what its writer wants: it cannot be read, or it is a copy of a live object.
func statedTemplate(before, after string) []byte {
	if after == "" || before == after {
		return nil
	}
	var stated struct {
		Metadata struct {
			UID string `json:"uid"`
		} `json:"metadata"`
		Spec struct {
			Template json.RawMessage `json:"template"`
		} `json:"spec"`
	}
	if err := json.Unmarshal([]byte(after), &stated); err != nil || stated.Metadata.UID != "" {
		return nil
	}
	return stated.Spec.Template
}

// withdraws reports that the request, which leaves the field as it stands, takes back what is deferred of
// it: one of the rules holds. stored is the pinned template.
func (e Evidence) withdraws(field string, wish node.Wish, stored []byte) bool {
	return e.appliesIt(field, wish) || e.statesIt(field, wish, stored) || e.leavesItOut(wish)
}

// appliesIt is rule W1: a server-side applier states the field at the value that stands.
func (e Evidence) appliesIt(field string, wish node.Wish) bool {
	if e.By.FieldManager == "" || e.Applied == nil || e.Updates {
		return false
	}
	template := e.Applied.WithPrefix(fieldpath.FieldNameElement("spec")).WithPrefix(fieldpath.FieldNameElement("template"))
	spec := template.WithPrefix(fieldpath.FieldNameElement("spec"))
	list, name, isImage := strings.Cut(field, "/")
	switch {
	case field == node.FieldTemplate, field == node.FieldSpec:
		// Many fields at once: only the applier that asked for it can be known to state all of them.
		return e.By.FieldManager == wish.By.FieldManager && !template.Empty()
	case isImage:
		path, err := fieldpath.MakePath(append([]any{list, fieldpath.KeyByFields("name", name)}, imagePath(list)...)...)
		return err == nil && spec.Has(path)
	}
	path := fieldpath.MakePathOrDie(field)
	return spec.Has(path) || !spec.WithPrefix(fieldpath.FieldNameElement(field)).Empty()
}

func imagePath(list string) []any {
	if list == "volumes" {
		return []any{"image", "reference"}
	}
	return []any{"image"}
}

// statesIt is rule W2: kubectl's last-applied changed and states the field at the value that stands, or at another
// one than it did before: then another webhook made of it what stands (a mirror, a digest), for what waits is not stated.
// What it does not mention is stated, as not to be there, by nobody but who asked for it.
func (e Evidence) statesIt(field string, wish node.Wish, stored []byte) bool {
	if len(e.LastApplied) == 0 {
		return false
	}
	read := func(template []byte) ([]byte, error) { return node.FieldOf(field, template) }
	want := []byte(wish.Want)
	if field == node.FieldTemplate || field == node.FieldSpec { // of many fields at once the images tell
		read = func(template []byte) ([]byte, error) {
			images, err := node.ImagesOfTemplate(template)
			return []byte(images.Digest(node.PaceImages)), err
		}
		want = nil
	}
	stated, err := read(e.LastApplied)
	stands, err2 := read(stored)
	if err != nil || err2 != nil || (string(stated) == "null" && e.By != wish.By) {
		return false
	}
	if bytes.Equal(stated, stands) {
		return true
	}
	before, err := read(e.AppliedBefore)
	return len(e.AppliedBefore) > 0 && err == nil && !bytes.Equal(stated, before) && !bytes.Equal(stated, want)
}

// leavesItOut is rule W3: whoever asked for it writes the whole object without it.
func (e Evidence) leavesItOut(wish node.Wish) bool { return e.Missing && e.By == wish.By }
