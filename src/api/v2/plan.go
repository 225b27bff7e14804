package v2

import "encoding/json"

// Plan is the answer to an action with ?dryRun=true: what the action would do. It changes
// nothing. It is an addition to upstream's API.
type Plan struct {
	StatusSubject
	Digest   string      `json:"plan"`              // of the outcome: the action with the header If-Plan and this value does this or nothing
	Action   string      `json:"action"`            // "instantiate", "update", "rollback" or "migrate"
	Revision int64       `json:"revision"`          // the number that the revision would get
	From     int64       `json:"from,omitempty"`    // the revision that is desired now
	Confirm  string      `json:"confirm,omitempty"` // why the action needs ?force=true, if it does
	Notes    []string    `json:"notes,omitempty"`   // remarks on the plan as a whole
	Apps     []AppPlan   `json:"apps"`
	Summary  PlanSummary `json:"summary"`
}

// PlanSummary counts placements: one app on one cluster each.
type PlanSummary struct {
	Add    int `json:"add"`
	Change int `json:"change"`
	Remove int `json:"remove"`
	Keep   int `json:"keep"`
	Failed int `json:"failed"` // apps that cannot be placed or rendered
}

// Empty reports whether the action would change nothing on any cluster.
func (s PlanSummary) Empty() bool { return s.Add+s.Change+s.Remove == 0 }

// AppPlan is what an action would do with one app.
type AppPlan struct {
	Name      string           `json:"name"`
	Failure   *AppFailure      `json:"failure,omitempty"`
	Findings  []string         `json:"findings,omitempty"`
	DependsOn []PlanDependency `json:"dependsOn,omitempty"`
	LeaveLast bool             `json:"leaveLast,omitempty"` // as AppSpec has it
	Rollout   *Rollout         `json:"rollout,omitempty"`   // as AppSpec has it
	Classes   []PlanClass      `json:"classes,omitempty"`
	Refused   []PlanRefusal    `json:"refused,omitempty"` // clusters that the app's intent does not reach, or may not use
}

// PlanDependency is an app that must be deployed first.
type PlanDependency struct {
	App    string `json:"app"`
	Status string `json:"opStatus"` // "Deployed" or "Ready"
	Wait   int    `json:"wait,omitempty"`
}

// PlanRefusal is a cluster that the app does not use, with the reason.
type PlanRefusal struct {
	Cluster string `json:"cluster"` // <provider>+<cluster>
	Reason  string `json:"reason"`
}

// PlanClass is a set of clusters with the same change: they hold the same now, and will
// hold the same.
type PlanClass struct {
	Change   string         `json:"change"` // "add", "change", "remove" or "keep"
	Clusters []PlanCluster  `json:"clusters"`
	Objects  []ObjectChange `json:"objects"`
}

// PlanCluster is a cluster with the reason why the app is placed there, or leaves.
type PlanCluster struct {
	Cluster string `json:"cluster"` // <provider>+<cluster>
	Reason  string `json:"reason,omitempty"`
}

// ObjectChange is the change of one Kubernetes object. Values of Secrets are hidden, but
// not that they differ. Objects that stay as they are come without content. The annotation
// emco/content, which follows from the rest, is left out.
type ObjectChange struct {
	GVK       GVK             `json:"GVK"`
	Name      string          `json:"name"`
	Namespace string          `json:"namespace,omitempty"`
	Hook      string          `json:"hook,omitempty"` // the events at which it runs, if it is a hook
	Change    string          `json:"change"`         // "add", "change", "remove" or "keep"
	Before    json.RawMessage `json:"before,omitempty"`
	After     json.RawMessage `json:"after,omitempty"`
}

// The changes of a placement or an object.
const (
	ChangeAdd    = "add"
	ChangeChange = "change"
	ChangeRemove = "remove"
	ChangeKeep   = "keep"
)

// ActionPreview is the answer to a dry run of an action that has no plan.
type ActionPreview struct {
	Action string `json:"action"`
	State  string `json:"state"` // that it would lead to
}
