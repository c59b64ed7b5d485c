package node

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"
)

func images(image string) Paced {
	return Paced{
		Containers: map[string]string{"app": image}, InitContainers: map[string]string{}, Volumes: map[string]string{},
		Isolation: []byte("{}"), Template: "sha256:" + image,
	}
}

func clearedAt(image string) *Cleared {
	return &Cleared{Revision: "r-" + image, Ready: true, Running: images(image), Canary: images(image)}
}

func heldAt(image string, partition *int32) *Held {
	return &Held{Running: images(image), Partition: partition}
}

// The table of words: running fields, drift, gated, settled, runs, for every kind of node.
func TestTruthTable(t *testing.T) {
	t.Parallel()
	const a, b = "app:a", "app:b"
	observed := Status{Observed: true, CurrentRevision: "r", UpdateRevision: "r", Ready: 1}
	cases := map[string]struct {
		view                          View
		running                       string // "" is unknown
		drift, gated, settled, counts bool
	}{
		"just installed, healthy":            {View{Replicas: 1, Template: images(a), Status: observed}, a, false, false, true, false},
		"just installed, status behind":      {View{Replicas: 1, Template: images(a), Status: Status{CurrentRevision: "r", UpdateRevision: "r", Ready: 1}}, a, false, false, false, false},
		"just installed, in mid-roll":        {View{Replicas: 1, Template: images(b), Status: Status{Observed: true, CurrentRevision: "r", UpdateRevision: "s", Ready: 1}}, b, false, false, false, false},
		"never ready":                        {View{Replicas: 1, Template: images(a), Status: Status{Observed: true, CurrentRevision: "r", UpdateRevision: "r"}}, a, false, false, false, false},
		"runs what it asks for":              {View{Replicas: 1, Template: images(a), Cleared: clearedAt(a)}, a, false, false, true, true},
		"cleared wins over the status":       {View{Replicas: 1, Template: images(a), Cleared: clearedAt(a), Status: Status{CurrentRevision: "x", UpdateRevision: "y"}}, a, false, false, true, true},
		"in mid-roll":                        {View{Replicas: 1, Template: images(b), Cleared: clearedAt(a)}, a, true, false, false, true},
		"held":                               {View{Replicas: 1, Template: images(b), Cleared: clearedAt(a), HasHeld: true, Held: heldAt(a, nil), Partition: ptr.To(HeldPartition)}, a, true, true, true, true},
		"held, cleared wins over held":       {View{Replicas: 1, Template: images(b), Cleared: clearedAt(b), HasHeld: true, Held: heldAt(a, nil)}, b, false, true, true, true},
		"held without cleared":               {View{Replicas: 1, Template: images(b), HasHeld: true, Held: heldAt(a, nil)}, a, true, true, true, false},
		"held, the wish is back":             {View{Replicas: 1, Template: images(a), HasHeld: true, Held: heldAt(a, nil)}, a, false, true, true, false},
		"gated by the partition alone":       {View{Replicas: 1, Template: images(b), Partition: ptr.To(HeldPartition)}, "", true, true, true, false},
		"gated by the partition, cleared":    {View{Replicas: 1, Template: images(b), Cleared: clearedAt(a), Partition: ptr.To(HeldPartition)}, a, true, true, true, true},
		"a hold that cannot be read":         {View{Replicas: 1, Template: images(b), HasHeld: true}, "", true, true, true, false},
		"a writer's own partition":           {View{Replicas: 3, Template: images(a), Cleared: clearedAt(a), Partition: ptr.To(int32(2))}, a, false, false, true, true},
		"a canary runs something else below": {View{Replicas: 3, Template: images(b), Cleared: &Cleared{Ready: true, Running: images(a), Partition: 2, Canary: images(b)}}, b, false, false, true, true},
		"released before it was ready":       {View{Replicas: 1, Template: images(a), Cleared: &Cleared{Canary: images(a)}}, a, false, false, true, false},
		"paused by hand":                     {View{Replicas: 1, Template: images(a), Cleared: clearedAt(a), PausedByHand: true}, a, false, false, true, false},
		"paused by replicas":                 {View{Template: images(a), Cleared: clearedAt(a)}, a, false, false, true, false},
		"being deleted":                      {View{Replicas: 1, Template: images(a), Cleared: clearedAt(a), Deleting: true}, a, false, false, true, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			running, known := c.view.Running()
			require.Equal(t, c.running != "", known)
			if known {
				require.True(t, running.Equal(images(c.running), PaceImages), "runs %v", running)
			}
			for _, pace := range []Pace{PaceImages, PaceTemplate} {
				require.Equal(t, c.drift, c.view.Drift(pace), "drift")
				require.Equal(t, c.settled, c.view.Settled(pace), "settled")
			}
			require.Equal(t, c.gated, c.view.Gated(), "gated")
			require.Equal(t, c.counts, c.view.Runs(), "runs")
		})
	}
}

func TestOwnPartition(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		view View
		want int32
	}{
		"none":                               {View{}, 0},
		"stated":                             {View{Partition: ptr.To(int32(3))}, 3},
		"held over a stated one":             {View{Partition: ptr.To(HeldPartition), Held: heldAt("a", ptr.To(int32(3)))}, 3},
		"held over none":                     {View{Partition: ptr.To(HeldPartition), Held: heldAt("a", nil)}, 0},
		"reserved and unheld":                {View{Partition: ptr.To(HeldPartition)}, 0},
		"stated wins over what was held":     {View{Partition: ptr.To(int32(0)), Held: heldAt("a", ptr.To(int32(3)))}, 0},
		"OnDelete remembers through a hold":  {View{Strategy: OnDelete, Held: heldAt("a", ptr.To(int32(2)))}, 2},
		"OnDelete without a hold has no own": {View{Strategy: OnDelete}, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, c.view.OwnPartition())
		})
	}
}

func TestInFlight(t *testing.T) {
	t.Parallel()
	const a, b = "app:a", "app:b"
	revisions := Revisions{"r-app:a": images(a), "r-app:b": images(b)}
	pods := func(names ...string) Fleet {
		var fleet Fleet
		for i, name := range names {
			fleet = append(fleet, Pod{Ordinal: i, Revision: "r-" + name})
		}
		fleet.Sort()
		return fleet
	}
	cases := map[string]struct {
		view View
		pods Fleet
		want bool
	}{
		"all at the template":                       {View{Replicas: 2, Template: images(a)}, pods(a, a), false},
		"RollingUpdate, some older":                 {View{Replicas: 2, Strategy: RollingUpdate, Template: images(b)}, pods(a, b), true},
		"RollingUpdate, all older":                  {View{Replicas: 2, Strategy: RollingUpdate, Template: images(b)}, pods(a, a), true},
		"RollingUpdate, all older, held":            {View{Replicas: 2, Strategy: RollingUpdate, Template: images(b), HasHeld: true, Partition: ptr.To(HeldPartition)}, pods(a, a), false},
		"RollingUpdate, all older, held but open":   {View{Replicas: 2, Strategy: RollingUpdate, Template: images(b), HasHeld: true}, pods(a, a), true},
		"OnDelete, one has begun, held":             {View{Replicas: 2, Strategy: OnDelete, Template: images(b), HasHeld: true, Cleared: clearedAt(a)}, pods(a, b), false},
		"OnDelete, none has begun":                  {View{Replicas: 2, Strategy: OnDelete, Template: images(b), Cleared: clearedAt(a)}, pods(a, a), false},
		"OnDelete, one has begun":                   {View{Replicas: 2, Strategy: OnDelete, Template: images(b), Cleared: clearedAt(a)}, pods(a, b), true},
		"OnDelete, one is gone":                     {View{Replicas: 2, Strategy: OnDelete, Template: images(b), Cleared: clearedAt(a)}, pods(a), true},
		"all pods gone, cleared differs":            {View{Replicas: 1, Strategy: RollingUpdate, Template: images(b), Cleared: clearedAt(a)}, nil, true},
		"all pods gone, cleared agrees":             {View{Replicas: 1, Strategy: RollingUpdate, Template: images(b), Cleared: clearedAt(b)}, nil, false},
		"a revision that is gone is unknown":        {View{Replicas: 1, Strategy: RollingUpdate, Template: images(b)}, pods("app:gone"), false},
		"a revision known from cleared alone":       {View{Replicas: 1, Strategy: RollingUpdate, Template: images(b), Cleared: &Cleared{Revision: "r-app:gone", Canary: images(a)}}, pods("app:gone"), true},
		"ordinals below the own partition are kept": {View{Replicas: 2, Strategy: RollingUpdate, Template: images(b), Partition: ptr.To(int32(1))}, pods(a, b), false},
		"paused":        {View{Strategy: RollingUpdate, Template: images(b), Cleared: clearedAt(a)}, nil, false},
		"being deleted": {View{Replicas: 2, Template: images(b), Deleting: true}, pods(a, b), false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, c.view.InFlight(c.pods, revisions, PaceImages))
		})
	}
}

func TestOutdated(t *testing.T) {
	t.Parallel()
	const a, b = "app:a", "app:b"
	revisions := Revisions{"r-app:a": images(a), "r-app:b": images(b)}
	old := Fleet{{Revision: "r-app:a"}}
	cases := map[string]struct {
		view View
		pods Fleet
		want bool
	}{
		"OnDelete, never ran":               {View{Replicas: 1, Strategy: OnDelete, Template: images(b)}, old, true},
		"OnDelete, cleared says otherwise":  {View{Replicas: 1, Strategy: OnDelete, Template: images(b), Cleared: clearedAt(b)}, old, true},
		"OnDelete, at the template":         {View{Replicas: 1, Strategy: OnDelete, Template: images(a)}, old, false},
		"OnDelete, held":                    {View{Replicas: 1, Strategy: OnDelete, Template: images(b), HasHeld: true}, old, false},
		"OnDelete, being deleted":           {View{Replicas: 1, Strategy: OnDelete, Template: images(b), Deleting: true}, old, false},
		"RollingUpdate: Kubernetes does it": {View{Replicas: 1, Strategy: RollingUpdate, Template: images(b)}, old, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, c.view.Outdated(c.pods, revisions, PaceImages))
		})
	}
}
