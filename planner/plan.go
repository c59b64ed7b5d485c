package planner

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"github.com/paceline/paceline/lease"
	"github.com/paceline/paceline/node"
)

// planVersion is the format that this Paceline writes and reads.
const planVersion = 1

// PlanType names a kind of plan.
type PlanType string

// PlanUpdate is the paced plan of a node that drifts.
const PlanUpdate PlanType = "update"

// TaskType names a step.
type TaskType string

// The steps of a plain update plan, in their order.
const (
	// TaskApply opens the gate.
	TaskApply TaskType = "apply-statefulset"
	// TaskReplace replaces the pods of older revisions, where Kubernetes does not.
	TaskReplace TaskType = "replace-pod"
	// TaskObserve waits until all pods carry the new revision.
	TaskObserve TaskType = "observe-image"
	// TaskReady waits until they are ready.
	TaskReady TaskType = "await-ready"
)

// TaskState is how far a step is.
type TaskState string

// The states of a task.
const (
	StatePending TaskState = "Pending"
	StateRunning TaskState = "Running"
	StateDone    TaskState = "Done"
	StateFailed  TaskState = "Failed"
)

// Plan is the ordered steps of one change of one node. It names task types and ids only, never
// images, addresses, Secret or file names: those are derived from the StatefulSet each time.
type Plan struct {
	Version int       `json:"v"`
	ID      string    `json:"id"`
	Type    PlanType  `json:"type"`
	Mode    string    `json:"mode"`
	Node    PlanNode  `json:"node"`
	Created time.Time `json:"createdAt"`
	Tasks   []Task    `json:"tasks"`
}

// PlanNode is whose plan it is.
type PlanNode struct {
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
}

// Task is one step.
type Task struct {
	Type    TaskType   `json:"type"`
	ID      string     `json:"id"`
	Attempt int        `json:"attempt"`
	State   TaskState  `json:"state"`
	Started *time.Time `json:"startedAt,omitempty"`
	Ended   *time.Time `json:"endedAt,omitempty"`
	Error   string     `json:"error,omitempty"`
}

// namespaceID seeds the ids of plans and tasks; it was made once, by uuidgen.
var namespaceID = uuid.MustParse("8c6a1f0e-5f0b-4f0e-9d2b-6f2f6f7f7a11")

// NewPlan makes the update plan of a node for what it asks for now, under the slot's transition.
func NewPlan(v node.View, pace node.Pace, transitions int32, now time.Time) Plan {
	plan := Plan{
		Version: planVersion, Type: PlanUpdate, Node: PlanNode{v.Name, v.UID},
		Created: now.UTC().Truncate(time.Second),
	}
	plan.ID = planID(v, pace, transitions, plan.Created)
	types := []TaskType{TaskApply, TaskReplace, TaskObserve}
	if !v.ReleaseWhenUpdated {
		types = append(types, TaskReady)
	}
	for index, taskType := range types {
		plan.Tasks = append(plan.Tasks, Task{
			Type: taskType, Attempt: 1, State: StatePending, ID: taskID(plan.ID, taskType, index, 1),
		})
	}
	return plan
}

// planID is the same for the same wish under the same slot: a new wish in mid-roll shows as another
// id, and is a new plan.
func planID(v node.View, pace node.Pace, transitions int32, created time.Time) string {
	name := fmt.Sprintf("%s/%d/%d/%s", v.UID, transitions, created.Unix(), v.Template.Digest(pace))
	return uuid.NewSHA1(namespaceID, []byte(name)).String()
}

func taskID(plan string, taskType TaskType, index, attempt int) string {
	name := plan + "/" + string(taskType) + "/" + strconv.Itoa(index) + "/" + strconv.Itoa(attempt)
	return uuid.NewSHA1(namespaceID, []byte(name)).String()
}

// another is the plan with one attempt more of its first task.
func (p Plan) another() *Plan {
	p.Tasks = slices.Clone(p.Tasks)
	p.Tasks[0].Attempt++
	p.Tasks[0].ID = taskID(p.ID, p.Tasks[0].Type, 0, p.Tasks[0].Attempt)
	return &p
}

// For reports that the plan is for what the node asks for now, under this slot.
func (p Plan) For(v node.View, pace node.Pace, slot lease.Slot) bool {
	return p.Node == PlanNode{v.Name, v.UID} && p.ID == planID(v, pace, slot.Transitions, p.Created)
}

// String is the annotation's value.
func (p Plan) String() string {
	text, err := json.Marshal(p)
	if err != nil { // plain data: cannot fail
		return ""
	}
	return string(text)
}

// ErrUnknownPlan says that another version of Paceline wrote the plan, or it names a task that this one does
// not know. It ends nothing and runs nothing.
var ErrUnknownPlan = errors.New("this Paceline does not know the plan: run the version that wrote it, or remove the annotation from the Lease and the plan is made anew")

// ParsePlan reads the annotation plan. What is no plan at all (empty, truncated) gives an error
// that is not ErrUnknownPlan: the plan is made anew from what the objects say.
func ParsePlan(text string) (Plan, error) {
	var plan Plan
	if err := json.Unmarshal([]byte(text), &plan); err != nil {
		return Plan{}, fmt.Errorf("annotation %s: %w", node.AnnotationPlan, err)
	}
	if plan.Version != planVersion || plan.Type != PlanUpdate {
		return Plan{}, fmt.Errorf("annotation %s: version %d, type %q: %w", node.AnnotationPlan, plan.Version, plan.Type, ErrUnknownPlan)
	}
	if len(plan.Tasks) == 0 {
		return Plan{}, fmt.Errorf("annotation %s: it names no task", node.AnnotationPlan)
	}
	for _, task := range plan.Tasks {
		if _, ok := registry(task.Type); !ok {
			return Plan{}, fmt.Errorf("annotation %s: task %q: %w", node.AnnotationPlan, task.Type, ErrUnknownPlan)
		}
	}
	return plan, nil
}
