package planner

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/paceline/paceline/lease"
	"github.com/paceline/paceline/node"
)

// Fleet reads nodes, pods, revisions and slots. Lists come from a cache, which may be stale, unless
// it is asked for a live one.
type Fleet struct {
	// Cache reads from the informers, Live from the API server.
	Cache, Live client.Reader
	Scope       node.Scope
}

// OwnerIndexName names the index that finds pods and ControllerRevisions by the UID of the StatefulSet that owns them.
const OwnerIndexName = "paceline.ownerUID"

// OwnerIndex is the key function of the index that Fleet lists pods and revisions by.
func OwnerIndex(o client.Object) []string {
	owner := metav1.GetControllerOfNoCopy(o)
	if owner == nil || owner.Kind != "StatefulSet" {
		return nil
	}
	return []string{string(owner.UID)}
}

// SlimRevision keeps of a ControllerRevision what Paceline reads, its paced fields, so that a cache
// of all of them stays small. It is a cache transform.
func SlimRevision(value any) (any, error) {
	revision, ok := value.(*appsv1.ControllerRevision)
	if !ok {
		return value, nil
	}
	revision.ManagedFields = nil
	if paced, err := node.PacedOfRevision(revision); err == nil {
		text, err := json.Marshal(paced)
		if err != nil {
			return nil, fmt.Errorf("slimming ControllerRevision %s: %w", revision.Name, err)
		}
		revision.Data = runtime.RawExtension{Raw: text}
	}
	return revision, nil
}

// Cell reads what a namespace says of its pacing, and what of it could not be read.
func (f Fleet) Cell(ctx context.Context, from client.Reader, namespace string) (node.Cell, []error, error) {
	var ns corev1.Namespace
	if err := from.Get(ctx, types.NamespacedName{Name: namespace}, &ns); err != nil {
		return node.Cell{}, nil, fmt.Errorf("reading namespace: %w", err)
	}
	cell, problems := f.Scope.Cell(namespace, ns.Labels, ns.Annotations)
	cell.Terminating = ns.DeletionTimestamp != nil
	return cell, problems, nil
}

// Nodes reads the StatefulSets of a namespace, and from the cache their pods and revisions.
func (f Fleet) Nodes(ctx context.Context, from client.Reader, namespace string, cell node.Cell) ([]lease.Node, error) {
	var sets appsv1.StatefulSetList
	if err := from.List(ctx, &sets, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing StatefulSets: %w", err)
	}
	nodes := make([]lease.Node, 0, len(sets.Items))
	for i := range sets.Items {
		facts, err := f.Facts(ctx, &sets.Items[i], cell, time.Time{})
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, lease.Node{
			View: facts.View, Paced: facts.Paced,
			InFlight: facts.inFlight(), Outdated: facts.outdated(), Unsure: facts.unsure(),
		})
	}
	return nodes, nil
}

// Slots reads the slots of a namespace.
func (f Fleet) Slots(ctx context.Context, from client.Reader, namespace string) ([]lease.Slot, error) {
	var list coordinationv1.LeaseList
	if err := from.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing slot leases: %w", err)
	}
	return lease.FromList(&list), nil
}

// Line reads who holds and who waits in a cell at a glance, from the cache: for messages alone.
func (f Fleet) Line(ctx context.Context, namespace string) (lease.Queue, error) {
	cell, _, err := f.Cell(ctx, f.Cache, namespace)
	if err != nil {
		return lease.Queue{}, err
	}
	slots, err := f.Slots(ctx, f.Cache, namespace)
	if err != nil {
		return lease.Queue{}, err
	}
	queue := lease.Queue{Frozen: cell.Frozen, Slots: len(slots)}
	for _, slot := range slots {
		if !slot.Free() {
			queue.Holders = append(queue.Holders, slot.Holder)
		}
	}
	var sets appsv1.StatefulSetList
	if err := f.Cache.List(ctx, &sets, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return lease.Queue{}, fmt.Errorf("listing StatefulSets: %w", err)
	}
	for i := range sets.Items {
		_, held := sets.Items[i].Annotations[node.AnnotationHeld]
		_, deferred := sets.Items[i].Annotations[node.AnnotationDeferred]
		if (held || deferred) && !slices.Contains(queue.Holders, sets.Items[i].Name) {
			queue.Waiting = append(queue.Waiting, sets.Items[i].Name)
		}
	}
	slices.Sort(queue.Holders)
	slices.Sort(queue.Waiting)
	return queue, nil
}

// Facts reads what the next step of a node depends on, but for its slot.
func (f Fleet) Facts(ctx context.Context, set *appsv1.StatefulSet, cell node.Cell, now time.Time) (Facts, error) {
	revisions, err := f.revisions(ctx, set)
	if err != nil {
		return Facts{}, err
	}
	pods, err := f.pods(ctx, set)
	if err != nil {
		return Facts{}, err
	}
	view, err := node.ViewOf(set, revisions)
	if err != nil {
		return Facts{}, err
	}
	return Facts{
		View: view, Pods: pods, Revisions: revisions, Cell: cell, Now: now,
		Paced: cell.Paces() && f.Scope.Includes(set.Labels),
	}, nil
}

func owned(set *appsv1.StatefulSet) []client.ListOption {
	return []client.ListOption{
		client.InNamespace(set.Namespace), client.MatchingFields{OwnerIndexName: string(set.UID)}, client.UnsafeDisableDeepCopy,
	}
}

func (f Fleet) pods(ctx context.Context, set *appsv1.StatefulSet) (node.Fleet, error) {
	var list corev1.PodList
	if err := f.Cache.List(ctx, &list, owned(set)...); err != nil {
		return nil, fmt.Errorf("listing pods of StatefulSet %s: %w", set.Name, err)
	}
	return fleetOf(list.Items, set.UID), nil
}

// LivePods reads a node's pods from the API server.
func (f Fleet) LivePods(ctx context.Context, set *appsv1.StatefulSet) (node.Fleet, error) {
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil {
		return nil, fmt.Errorf("reading selector of StatefulSet %s: %w", set.Name, err)
	}
	var list corev1.PodList
	err = f.Live.List(ctx, &list, client.InNamespace(set.Namespace), client.MatchingLabelsSelector{Selector: selector})
	if err != nil {
		return nil, fmt.Errorf("listing pods of StatefulSet %s: %w", set.Name, err)
	}
	return fleetOf(list.Items, set.UID), nil
}

// SetLive reads a StatefulSet from the API server.
func (f Fleet) SetLive(ctx context.Context, namespace, name string) (*appsv1.StatefulSet, error) {
	var set appsv1.StatefulSet
	return &set, f.Live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &set)
}

// LiveRevision reads a ControllerRevision from the API server, whole: the cache keeps its paced fields alone.
func (f Fleet) LiveRevision(ctx context.Context, namespace, name string) (*appsv1.ControllerRevision, error) {
	var revision appsv1.ControllerRevision
	return &revision, f.Live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &revision)
}

func fleetOf(items []corev1.Pod, owner types.UID) node.Fleet {
	var fleet node.Fleet
	for i := range items {
		if pod, uid, ok := node.PodOf(&items[i]); ok && uid == owner {
			fleet = append(fleet, pod)
		}
	}
	fleet.Sort()
	return fleet
}

func (f Fleet) revisions(ctx context.Context, set *appsv1.StatefulSet) (node.Revisions, error) {
	var list appsv1.ControllerRevisionList
	if err := f.Cache.List(ctx, &list, owned(set)...); err != nil {
		return nil, fmt.Errorf("listing ControllerRevisions of StatefulSet %s: %w", set.Name, err)
	}
	revisions := make(node.Revisions, len(list.Items))
	for i := range list.Items {
		var paced node.Paced
		if err := json.Unmarshal(list.Items[i].Data.Raw, &paced); err == nil && paced.Template != "" {
			revisions[list.Items[i].Name] = paced
		}
	}
	return revisions, nil
}

// Orphans reads from the cache what the pods run that a new StatefulSet of this name would adopt: those of its
// ordinals that have no owner, or one of the same name that is no more.
func (f Fleet) Orphans(ctx context.Context, namespace, name string) ([]node.Paced, error) {
	var list corev1.PodList
	if err := f.Cache.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	var runs []node.Paced
	seen := map[string]bool{}
	for i := range list.Items {
		pod := &list.Items[i]
		revision := pod.Labels[node.LabelRevision]
		if !orphaned(pod, name) || seen[revision] {
			continue
		}
		seen[revision] = true
		var kept appsv1.ControllerRevision
		if err := f.Cache.Get(ctx, types.NamespacedName{Namespace: namespace, Name: revision}, &kept); err != nil {
			if apierrors.IsNotFound(err) {
				continue // nothing says what it runs
			}
			return nil, fmt.Errorf("reading ControllerRevision %s: %w", revision, err)
		}
		var paced node.Paced
		if err := json.Unmarshal(kept.Data.Raw, &paced); err == nil && paced.Template != "" {
			runs = append(runs, paced)
		}
	}
	return runs, nil
}

func orphaned(pod *corev1.Pod, name string) bool {
	if pod.DeletionTimestamp != nil || pod.Labels[node.LabelRevision] == "" || !isOrdinalOf(pod.Name, name) {
		return false
	}
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner == nil || (owner.Kind == "StatefulSet" && owner.Name == name)
}

// isOrdinalOf reports a pod's name that is a StatefulSet's and a number.
func isOrdinalOf(pod, set string) bool {
	number, found := strings.CutPrefix(pod, set+"-")
	if !found {
		return false
	}
	_, err := strconv.ParseUint(number, 10, 31)
	return err == nil
}
