package v2

import "time"

// PlanClasses is the answer to a dry run with ?output=classes: a Plan without the names of all
// clusters and without the contents of objects, which can be read in parts until a time.
type PlanClasses struct {
	StatusSubject
	Digest   string       `json:"plan"`  // as Plan has it
	Until    time.Time    `json:"until"` // the server forgets the parts then, or earlier if many plans are made
	Action   string       `json:"action"`
	Revision int64        `json:"revision"`
	From     int64        `json:"from,omitempty"`
	Confirm  string       `json:"confirm,omitempty"`
	Notes    []string     `json:"notes,omitempty"`
	Apps     []AppClasses `json:"apps"`
	Summary  PlanSummary  `json:"summary"`
}

// AppClasses is what a planned action would do with one app.
type AppClasses struct {
	Name     string        `json:"name"`
	Failure  *AppFailure   `json:"failure,omitempty"`
	Findings []string      `json:"findings,omitempty"`
	Classes  []ClassDigest `json:"classes"`
	Left     int           `json:"left,omitempty"`    // classes that the answer leaves out
	Refused  int           `json:"refused,omitempty"` // clusters that the app's intent does not reach, or may not use
}

// ClassDigest is a PlanClass in short.
type ClassDigest struct {
	ID      string         `json:"id"`               // in the paths of its parts
	Change  string         `json:"change"`           // "add", "change", "remove" or "keep"
	Count   int            `json:"count"`            // its clusters
	Reason  string         `json:"reason,omitempty"` // of the first cluster
	Sample  []string       `json:"sample"`           // the first clusters
	Objects []ObjectDigest `json:"objects"`          // those that change
	Left    int            `json:"left,omitempty"`   // objects that change, and that the answer leaves out
}

// ObjectDigest is an ObjectChange in short.
type ObjectDigest struct {
	ID        string `json:"id"` // for ?object= of the difference
	GVK       GVK    `json:"GVK"`
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
	Hook      string `json:"hook,omitempty"`
	Change    string `json:"change"`
}

// PlanClusters is a page of the clusters of a class.
type PlanClusters struct {
	Total    int           `json:"total"`
	Continue string        `json:"continue,omitempty"`
	Items    []PlanCluster `json:"items"`
}
