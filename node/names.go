package node

// Every name that something outside this repository sees stands here once. W names who writes it,
// R who reads it.
const (
	// Domain is the prefix of every label and annotation of Paceline.
	Domain = "paceline.io/"

	// LabelPacing on a namespace ("enabled") makes it a cell; on a StatefulSet ("disabled") it opts
	// the StatefulSet out. W: people. R: webhook, reconcilers.
	LabelPacing = Domain + "pacing"
	// PacingEnabled is LabelPacing's value on a cell.
	PacingEnabled = "enabled"
	// PacingDisabled is LabelPacing's value on a StatefulSet that is opted out.
	PacingDisabled = "disabled"
	// LabelSlot carries a slot Lease's index in decimal. W: cell reconciler. R: people, caches.
	LabelSlot = Domain + "slot"
	// LabelManagedBy and ManagedBy mark what Paceline made.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// ManagedBy is LabelManagedBy's value.
	ManagedBy = "paceline.io"
)

// Annotations of a namespace. W: people. R: webhook, reconcilers.
const (
	// AnnotationBudget is the percentage of the cell's nodes that may roll at once: digits, 0 to 100.
	AnnotationBudget = Domain + "drift-update-budget-percent"
	// AnnotationFreeze "true": nothing is granted.
	AnnotationFreeze = Domain + "freeze"
	// AnnotationPace is images or template.
	AnnotationPace = Domain + "pace"
	// AnnotationGate is native or pin.
	AnnotationGate = Domain + "gate"
)

// Annotations of a StatefulSet that a person writes.
const (
	// AnnotationPaused "true": the node is not queued. W: people. R: webhook, reconcilers.
	AnnotationPaused = Domain + "paused"
	// AnnotationReleaseSlot Ready (default) or Updated: when a slot is given back. W: people. R: planner.
	AnnotationReleaseSlot = Domain + "release-slot"
)

// Annotations that Paceline owns. The webhook carries them over from the old object unless
// Paceline's own account writes; touch is the exception, anyone may write it.
const (
	// AnnotationSlot on a StatefulSet: the gate is open. W: node reconciler. R: webhook.
	AnnotationSlot = Domain + "slot"
	// AnnotationHeld on a StatefulSet: its wish waits. W: webhook. R: webhook, reconcilers.
	AnnotationHeld = Domain + "held"
	// AnnotationDeferred on a StatefulSet: what a pinned template would be (pin gate). W, R: webhook.
	AnnotationDeferred = Domain + "deferred"
	// AnnotationCleared on a StatefulSet: what it runs. W: node reconciler. R: webhook, reconcilers.
	AnnotationCleared = Domain + "cleared"
	// AnnotationPlan on a slot Lease: the holder's plan and its progress; on a StatefulSet: an
	// unpaced plan. W: cell reconciler creates, node reconciler advances. R: both, kubectl plugin.
	AnnotationPlan = Domain + "plan"
	// AnnotationResetDone on a StatefulSet: the last reset token carried out. W, R: node reconciler.
	AnnotationResetDone = Domain + "reset-done"
	// AnnotationTouch on a StatefulSet: a value that changes so that admission looks again. W: anyone.
	AnnotationTouch = Domain + "touch"
	// AnnotationHolderUID on a slot Lease: the UID of its holder. W: cell reconciler. R: all.
	AnnotationHolderUID = Domain + "holder-uid"
)

// Owned lists the annotations that are carried over from the old object, in the order of the
// documentation.
func Owned() []string {
	return []string{
		AnnotationSlot, AnnotationHeld, AnnotationDeferred, AnnotationCleared, AnnotationPlan, AnnotationResetDone,
	}
}

// Names of Kubernetes that we read.
const (
	// LabelRevision on a pod names the ControllerRevision that made it.
	LabelRevision = "controller-revision-hash"
	// HeldPartition is the partition that holds every pod of a gated node. It is reserved: in any
	// request it means "not stated". The number is the largest int32, which no ordinal reaches.
	HeldPartition int32 = 2147483647
)

// Condition types of a node, mirrored to StatefulSet status.conditions.
const (
	// ConditionUpdate says where the node's update stands. W: node reconciler. R: people.
	ConditionUpdate = "NodeUpdateInProgress"
	// ConditionReconciling is True while the node waits or rolls (kstatus). W: node reconciler. R: Flux, Helm 4.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is True while the node is stuck (kstatus). W: node reconciler. R: Flux, Helm 4.
	ConditionStalled = "Stalled"
	// ConditionPaused is True while the node is paused. W: node reconciler. R: people.
	ConditionPaused = "Paused"
)

// Reasons of conditions: a stable enum.
const (
	ReasonUpdateStarted  = "UpdateStarted"
	ReasonUpdateDeferred = "UpdateDeferred"
	ReasonUpdateComplete = "UpdateComplete"
	ReasonUpdateFailed   = "UpdateFailed"
	ReasonNoDrift        = "NoDrift"
	ReasonProgressing    = "Progressing"
	ReasonWaiting        = "Waiting"
	ReasonFrozen         = "Frozen"
	ReasonNotPaced       = "NotPaced"
	ReasonSettled        = "Settled"
	ReasonStuck          = "ProgressDeadlineExceeded"
	ReasonPaused         = "Paused"
	ReasonRunning        = "Running"
)

// Reasons of Events. W: reconcilers. R: people.
const (
	EventDeferred    = "UpdateDeferred"
	EventSlotTaken   = "SlotTaken"
	EventSlotFreed   = "SlotFreed"
	EventTaskFailed  = "TaskFailed"
	EventStuck       = "UpdateStuck"
	EventLifted      = "UpdateLifted"
	EventAdopted     = "UpdateAdopted"
	EventInvalidCell = "InvalidCellAnnotation"
)
