package harness

// The names that a user of Paceline writes and reads. They are spelt here anew, as a user would, so
// that changing one in the product is seen.
const (
	LabelPacing        = "paceline.io/pacing"
	AnnotationBudget   = "paceline.io/drift-update-budget-percent"
	AnnotationFreeze   = "paceline.io/freeze"
	AnnotationPace     = "paceline.io/pace"
	AnnotationGate     = "paceline.io/gate"
	AnnotationPaused   = "paceline.io/paused"
	AnnotationHeld     = "paceline.io/held"
	AnnotationDeferred = "paceline.io/deferred"
	AnnotationSlot     = "paceline.io/slot"
	AnnotationCleared  = "paceline.io/cleared"

	// AnnotationReadyAfter on a pod template sets how long its pods take until they are ready.
	AnnotationReadyAfter = "rig.paceline.io/ready-after"
	// LabelNeverReady "true" on a pod template: its pods do not become ready.
	LabelNeverReady = "rig.paceline.io/never-ready"

	// Container is the name of a node's container.
	Container = "app"
)

// HeldPartition holds every pod of a node that waits.
const HeldPartition int32 = 2147483647
