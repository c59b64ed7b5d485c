package model

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/paceline/paceline/lease"
	"github.com/paceline/paceline/node"
)

const (
	namespace = "cell"
	deadline  = 10 * time.Minute
)

// set is a stored StatefulSet. It is never changed: a write stores another one, so caches keep what
// they read by keeping the pointer.
type set struct {
	template
	name                string
	uid                 types.UID
	rv, generation      int64
	deleting            bool
	replicas            int32
	strategy            node.Strategy
	partition           *int32
	applied             string // kubectl's last-applied annotation, of the template alone
	labels, annotations map[string]string
	status              status
	parsed              *node.View
}

type status struct {
	observed                            int64
	current, update                     string
	replicas, ready, available, updated int32
}

func (s *set) clone() *set {
	c := *s
	c.labels, c.annotations, c.parsed = maps.Clone(s.labels), maps.Clone(s.annotations), nil
	return &c
}

// from is the partition from which the set's pods are to be updated; MaxInt32 where all are held.
func (s *set) from() int32 {
	if s.partition == nil {
		return 0
	}
	return *s.partition
}

func (s *set) gated() bool {
	return s.annotations[node.AnnotationHeld] != "" || s.pinned() || s.from() == node.HeldPartition
}

func (s *set) pinned() bool { return s.annotations[node.AnnotationDeferred] != "" }

// wanted is the template with what is deferred in it.
func (s *set) wanted() template {
	if !s.pinned() {
		return s.template
	}
	deferred, err := node.ParseDeferred(s.annotations[node.AnnotationDeferred])
	if err != nil {
		panic(err)
	}
	text, err := deferred.Render(s.text())
	if err != nil {
		panic(err)
	}
	return templateOf(text)
}

func imageOf(p node.Paced) string { return p.Containers["app"] }

func (s *set) spec() node.Spec {
	spec := node.Spec{Replicas: &s.replicas, Strategy: s.strategy, Partition: s.partition, Template: s.paced()}
	if s.pinned() {
		stands := s.paced()
		spec.Template, spec.Pinned = s.wanted().paced(), &stands
	}
	return spec
}

func (s *set) meta(annotations map[string]string) node.Meta {
	return node.Meta{
		Name: s.name, Namespace: namespace, UID: s.uid, Deleting: s.deleting, Labels: s.labels, Annotations: annotations,
	}
}

// view is what node.ViewOf makes of the set.
func (s *set) view() node.View {
	if s.parsed == nil {
		st := s.status
		v := node.NewView(s.meta(s.annotations), s.spec(), node.Status{
			Observed:        st.observed == s.generation,
			CurrentRevision: st.current, UpdateRevision: st.update,
			Replicas: st.replicas, Ready: st.ready, Available: st.available, Updated: st.updated,
		})
		s.parsed = &v
	}
	return *s.parsed
}

type pod struct {
	name     string
	uid      types.UID
	owner    types.UID
	set      string
	ordinal  int
	revision string
	ready    bool
	since    time.Time // when it became ready or ceased to be
	deleting bool
}

func (p *pod) broken() bool { return inRevision(p.revision).bad() }

// store is one reading of all objects: the API server's own, and what a controller has cached of it.
type store struct {
	sets      map[string]*set
	pods      map[string]*pod
	revisions map[types.UID][]string
	leases    map[string]lease.Slot
	cell      node.Cell
}

// world is the API server with what acts on it.
type world struct {
	store
	t     tb
	draw  *rapid.T
	names []string
	now   time.Time
	rv    int64
	uids  int
	tags  int

	// historyLimit is every set's revisionHistoryLimit.
	historyLimit int
	// promotes: the StatefulSet controller promotes currentRevision on OnDelete too (1.37; 1.36 does not).
	promotes bool

	webhookAway     bool
	podWebhookAway  bool
	leaseUnreadable bool
	webhookCell     node.Cell
	requests        []*request
	controllers     [2]*controller
	syncs           map[string][]func()
	windows         []*window

	// switched holds RollingUpdate sets that were OnDelete when currentRevision was last moved.
	switched map[types.UID]bool
	asked    map[string]template
	past     map[string][]string // images
	wrongs   map[string]map[string]bool
	excuses  map[types.UID]string

	steps  int
	counts map[string]int
	trace  []string
}

// tb is what a world needs of a test: a *rapid.T, or a *testing.T for a scripted one.
type tb interface {
	Helper()
	Fatalf(format string, args ...any)
}

// newWorld is a cell without StatefulSets.
func newWorld(t tb, percent int) *world {
	w := &world{
		t: t, now: time.Unix(1_700_000_000, 0),
		store: store{
			sets: map[string]*set{}, pods: map[string]*pod{}, revisions: map[types.UID][]string{}, leases: map[string]lease.Slot{},
			cell: node.Cell{Enabled: true, Percent: percent, Pace: node.PaceImages, Gate: node.GateNative},
		},
		syncs: map[string][]func(){}, asked: map[string]template{}, past: map[string][]string{},
		wrongs: map[string]map[string]bool{}, excuses: map[types.UID]string{}, switched: map[types.UID]bool{}, counts: map[string]int{},
		historyLimit: 10,
	}
	w.webhookCell = w.cell
	for i := range w.controllers {
		w.controllers[i] = &controller{id: i, w: w}
		w.controllers[i].restart()
	}
	return w
}

// drawWorld is a cell of 3 to 8 nodes, just created or settled.
func drawWorld(t *rapid.T) *world {
	w := newWorld(t, rapid.SampledFrom([]int{25, 1, 34, 50, 67, 100}).Draw(t, "percent"))
	w.draw = t
	w.cell.Gate = rapid.SampledFrom([]node.Gate{node.GateNative, node.GatePin}).Draw(t, "gate")
	w.cell.Pace = rapid.SampledFrom([]node.Pace{node.PaceImages, node.PaceImages, node.PaceTemplate}).Draw(t, "pace")
	w.webhookCell = w.cell
	w.historyLimit = rapid.SampledFrom([]int{10, 2, 0}).Draw(t, "historyLimit")
	w.promotes = rapid.Bool().Draw(t, "promotes")
	for i := range rapid.IntRange(3, 8).Draw(t, "nodes") {
		w.names = append(w.names, "n"+strconv.Itoa(i))
	}
	mature := rapid.Bool().Draw(t, "mature")
	for _, name := range w.names {
		w.create(name, rapid.IntRange(0, 3).Draw(t, "replicas"), rapid.Bool().Draw(t, "onDelete"))
	}
	if mature {
		w.settle()
	}
	for _, c := range w.controllers {
		c.restart()
	}
	return w
}

func (w *world) log(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf(format, args...))
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s\nsteps that led to it:\n%s\nthe world then:\n%s", fmt.Sprintf(format, args...), strings.Join(w.trace, "\n"), w)
}

// String shows the world, for a failure's message.
func (w *world) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "cell %+v\n", w.cell)
	for _, name := range w.names {
		if s := w.sets[name]; s != nil {
			fmt.Fprintf(&out, "%s\n", describe(s))
		}
		for _, p := range w.podsOf(w.pods, name, "") {
			fmt.Fprintf(&out, "  %s\n", describePod(p))
		}
	}
	for _, slot := range sortedSlots(w.leases) {
		fmt.Fprintf(&out, "%s rv %s transitions %d holder %q %s\n", slot.Name, slot.ResourceVersion, slot.Transitions, slot.Holder, slot.HolderUID)
	}
	return out.String()
}

func describe(s *set) string {
	partition := "-"
	if s.partition != nil {
		partition = strconv.Itoa(int(*s.partition))
		if *s.partition == node.HeldPartition {
			partition = "held"
		}
	}
	text := fmt.Sprintf("%s %s@%d gen %d/%d %s x%d %s partition %s status %s->%s updated %d ready %d", s.name, s.uid, s.rv, s.status.observed, s.generation,
		s.revision(), s.replicas, s.strategy, partition, s.status.current, s.status.update, s.status.updated, s.status.ready)
	v := s.view()
	if v.Cleared != nil {
		text += " cleared " + imageOf(v.Cleared.Canary)
	}
	if v.Held != nil {
		text += " held " + imageOf(v.Held.Running)
	}
	if s.pinned() {
		text += " deferred " + s.annotations[node.AnnotationDeferred]
	}
	if v.Slot != nil {
		text += " slot " + v.Slot.String()
	}
	if s.deleting {
		text += " deleting"
	}
	if len(s.labels) > 0 {
		text += fmt.Sprint(" ", s.labels)
	}
	return text
}

func describePod(p *pod) string {
	text := p.name + " " + p.revision
	if p.ready {
		text += " ready"
	}
	if p.deleting {
		text += " deleting"
	}
	return text
}

func (w *world) nextRV() int64 { w.rv++; return w.rv }

func (w *world) uid(kind string) types.UID {
	w.uids++
	return types.UID(kind + strconv.Itoa(w.uids))
}

func (w *world) image(kind string) string {
	w.tags++
	return kind + strconv.Itoa(w.tags)
}

// podsOf lists the pods of a set's name (and UID, unless it is ""), highest ordinal first.
func (w *world) podsOf(from map[string]*pod, name string, owner types.UID) []*pod {
	var out []*pod
	for ordinal := 3; ordinal >= 0; ordinal-- {
		p := from[podName(name, ordinal)]
		if p != nil && (owner == "" || p.owner == owner) {
			out = append(out, p)
		}
	}
	return out
}

func podName(name string, ordinal int) string { return name + "-" + strconv.Itoa(ordinal) }

func (w *world) putPod(p pod) { w.nextRV(); w.pods[p.name] = &p }

func sortedSlots(leases map[string]lease.Slot) []lease.Slot {
	return slices.SortedFunc(maps.Values(leases), func(a, b lease.Slot) int { return a.Index - b.Index })
}

// holds reports the slot that a set holds by what the API server stores.
func (w *world) holds(s *set) bool {
	for _, slot := range w.leases {
		if slot.HeldBy(s.name, s.uid) {
			return true
		}
	}
	return false
}

func (w *world) paces(s *set, cell node.Cell) bool {
	return cell.Paces() && node.Scope{}.Includes(s.labels)
}
