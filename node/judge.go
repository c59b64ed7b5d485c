package node

// Paused reports a node that runs nothing or is not to be queued: replicas 0, or paused "true".
func (v View) Paused() bool { return v.Replicas == 0 || v.PausedByHand }

// HasWish reports a node that carries a wish which waits: held (native gate) or deferred (pin gate).
func (v View) HasWish() bool { return v.HasHeld || v.HasDeferred }

// Gated reports a node whose wish is kept from its pods: it waits, or its partition is HeldPartition.
func (v View) Gated() bool {
	return v.HasWish() || (v.Partition != nil && *v.Partition == HeldPartition)
}

// Closed reports that Kubernetes itself holds the pods: the partition on RollingUpdate, or a template that
// is pinned to what they run; on OnDelete nothing restarts by itself, so held alone says so. A node can carry held or
// deferred and roll all the same, where its strategy, partition or template was changed while no webhook looked.
func (v View) Closed(pace Pace) bool {
	if v.Strategy == OnDelete {
		return v.Gated()
	}
	if v.HasDeferred && v.Pinned != nil {
		running, known := v.Running()
		return !known || v.Pinned.Equal(running, pace)
	}
	return (v.Partition != nil && *v.Partition == HeldPartition) || v.Lowering()
}

// Lowering reports a node whose writer lowered its own partition while the two parts of the set run different
// paced fields: it is held at the partition that cleared carries, until a slot lets the lower ordinals roll.
func (v View) Lowering() bool {
	if v.Strategy != RollingUpdate || v.Held == nil || v.Held.Partition == nil || v.Cleared == nil || v.Partition == nil {
		return false
	}
	return *v.Partition == v.Cleared.Partition && *v.Held.Partition < v.Cleared.Partition &&
		v.Template.Equal(v.Cleared.Canary, PaceImages)
}

// Runs reports a node that counts for the budget: it was seen running (cleared, not with
// "ready":false), is not paused and not being deleted.
func (v View) Runs() bool {
	return v.Cleared != nil && v.Cleared.Ready && !v.Paused() && !v.Deleting
}

// Running returns the paced fields that drift is measured against: those of cleared (what the
// ordinals from the writer's partition up run), without it those of held, without it the
// stored template's own. False: the node is gated and nothing readable says what it runs.
func (v View) Running() (Paced, bool) {
	switch {
	case v.Cleared != nil:
		return v.Cleared.Canary, true
	case v.Held != nil:
		return v.Held.Running, true
	case v.Pinned != nil:
		return *v.Pinned, true
	case v.Gated():
		return Paced{}, false
	}
	return v.Template, true
}

// Drift reports that the template's paced fields differ from the running fields, or that a lowered partition
// is to bring more ordinals to them. A gated node
// that runs nothing readable drifts: it stays held until the reconciler has seen what it runs.
func (v View) Drift(pace Pace) bool {
	running, known := v.Running()
	return !known || !v.Template.Equal(running, pace) || v.Lowering()
}

// Settled reports that nothing of a paced change is in flight, judged of the object before a
// request: it is gated; or cleared agrees with its template; or, without cleared (just installed),
// its status is observed, currentRevision is updateRevision and a pod is ready.
func (v View) Settled(pace Pace) bool {
	switch {
	case v.Gated():
		return true
	case v.Cleared != nil:
		return v.Cleared.Canary.Equal(v.Template, pace)
	}
	return v.Status.Observed && v.Status.CurrentRevision == v.Status.UpdateRevision && v.Status.Ready > 0
}

// FirstUpdated is the lowest ordinal that an update replaces. Kubernetes counts a partition from the
// first pod's ordinal.
func (v View) FirstUpdated() int32 { return v.Start + v.OwnPartition() }

// OwnPartition is the partition that the writer last stated: what is given back when a hold ends.
func (v View) OwnPartition() int32 {
	if v.Partition != nil && *v.Partition != HeldPartition && !v.Lowering() {
		return *v.Partition
	}
	if v.Held != nil && v.Held.Partition != nil {
		return *v.Held.Partition
	}
	return 0
}
