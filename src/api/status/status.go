// Package status is what the agent on a cluster tells the control plane: how the
// objects of each app are doing, in one document per cluster. Agent and control plane
// ship apart, so the form is versioned and both sides are strict about its limits.
//
//	{"schema": "emco.status/v1", "cluster": "edge+c1", "seq": 1781, "at": "2026-…",
//	 "apps": [{"label": "42-web", "commit": "8c1f…", "objects": [
//	    {"group": "apps", "version": "v1", "kind": "Deployment", "namespace": "shop",
//	     "name": "web", "status": "InProgress", "reason": "…", "content": "90ab…"}]}],
//	 "unseen": [{"kind": "Secret", "reason": "excluded"}]}
//
// A document is the whole truth of its cluster: an app or an object that is not in it
// is not on the cluster, unless Truncated or Unseen say that it may be.
package status

import "time"

// Schema is the form that this package reads and writes. Members may be added to it;
// a form that means something else gets another name.
const Schema = "emco.status/v1"

// DeploymentLabel is the label of objects that belong to an app. Its value is App.Label.
const DeploymentLabel = "emco/deployment-id"

// ContentAnnotation is the annotation that says which content an object has.
const ContentAnnotation = "emco/content"

// Report is what a cluster says.
type Report struct {
	Schema    string    `json:"schema"`
	Cluster   string    `json:"cluster"`             // <provider>+<cluster>
	Seq       uint64    `json:"seq"`                 // higher than in all reports before, over restarts of the agent; gaps mean nothing
	At        time.Time `json:"at"`                  // by the cluster's clock; tells people, orders nothing
	Agent     string    `json:"agent,omitempty"`     // name and version of who reports
	Apps      []App     `json:"apps"`                // in order of their labels
	Truncated int       `json:"truncated,omitempty"` // apps left out because the report was too large
	Unseen    []Unseen  `json:"unseen,omitempty"`    // kinds whose objects are not known; sorted

	// Same says that all is as the document has it that the receiver knows by this name
	// (see Digest); then there are no apps in this one. Only over HTTPS.
	Same string `json:"same,omitempty"`
}

// App is one app of one deployment.
type App struct {
	Label     string   `json:"label"`               // value of DeploymentLabel
	Commit    string   `json:"commit,omitempty"`    // that the cluster's reconciler applied last, if there is one and it says so
	Error     string   `json:"error,omitempty"`     // what the reconciler complains about now
	Objects   []Object `json:"objects,omitempty"`   // sorted
	Truncated int      `json:"truncated,omitempty"` // objects left out: the report was too large, or they cannot be seen now
}

// Object is how one object is doing.
type Object struct {
	Group     string `json:"group,omitempty"`
	Version   string `json:"version"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Status    string `json:"status"`            // one of the statuses below
	Reason    string `json:"reason,omitempty"`  // why it is not Current; short
	Content   string `json:"content,omitempty"` // value of ContentAnnotation
	// Unread says that the agent may not read the object; the reconciler says that it
	// applied it from App.Commit. Its content is not known.
	Unread bool `json:"unread,omitempty"`
}

// The statuses of an object, in the words of kstatus.
const (
	Current     = "Current"
	InProgress  = "InProgress"
	Failed      = "Failed"
	Terminating = "Terminating"
	NotFound    = "NotFound"
	Unknown     = "Unknown"
)

// Unseen is a kind that the cluster has but whose objects the agent does not see.
// Of an object of such a kind that is not in the report nothing is known.
type Unseen struct {
	Group  string `json:"group,omitempty"`
	Kind   string `json:"kind"`
	Reason string `json:"reason"` // for people: "forbidden", "excluded", "no answer"
}
