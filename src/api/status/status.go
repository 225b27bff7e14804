// Package status defines the reports of the agents on clusters to the control plane: the
// status of the objects of each app, in one document per cluster. Agent and control plane
// are released apart, so the form is versioned and both sides enforce its limits.
//
//	{"schema": "emco.status/v1", "cluster": "edge+c1", "seq": 1781, "at": "2026-…",
//	 "apps": [{"label": "42-web", "commit": "8c1f…", "objects": [
//	    {"group": "apps", "version": "v1", "kind": "Deployment", "namespace": "shop",
//	     "name": "web", "status": "InProgress", "reason": "…", "content": "90ab…"}]}],
//	 "unseen": [{"kind": "Secret", "reason": "excluded"}]}
//
// A report is complete: an app or an object that is not in it is not on the cluster. There are three exceptions. If Same is
// set, nothing has changed, and the report lists no apps. If Truncated is set, apps or objects were left out. Objects of the
// kinds in Unseen are not known.
package status

import "time"

// Schema names the form that this package reads and writes. New members keep the name; a
// form with another meaning gets another one.
const Schema = "emco.status/v1"

// DeploymentLabel is the label of objects that belong to an app. Its value is App.Label.
const DeploymentLabel = "emco/deployment-id"

// ContentAnnotation is the annotation with the stamp of an object's content.
const ContentAnnotation = "emco/content"

// Report is the report of a cluster.
type Report struct {
	Schema    string    `json:"schema"`
	Cluster   string    `json:"cluster"`             // <provider>+<cluster>
	Seq       uint64    `json:"seq"`                 // higher than in all earlier reports, also after a restart of the agent; gaps mean nothing
	At        time.Time `json:"at"`                  // by the cluster's clock; for people, not for ordering
	Agent     string    `json:"agent,omitempty"`     // name and version of the agent
	Apps      []App     `json:"apps"`                // in order of their labels
	Truncated int       `json:"truncated,omitempty"` // apps left out because the report was too large
	Unseen    []Unseen  `json:"unseen,omitempty"`    // kinds whose objects the agent does not see; sorted
	Capacity  Capacity  `json:"capacity,omitzero"`   // what the nodes have free, if the agent reports it

	// Same is the Digest of the last report with content, if nothing has changed since;
	// then this report has no apps. Only over HTTPS.
	Same string `json:"same,omitempty"`
}

// App is one app of one deployment.
type App struct {
	Label     string   `json:"label"`               // value of DeploymentLabel
	Commit    string   `json:"commit,omitempty"`    // that the cluster's reconciler applied last, if it reports one
	Error     string   `json:"error,omitempty"`     // the present error of the reconciler
	Objects   []Object `json:"objects,omitempty"`   // sorted
	Truncated int      `json:"truncated,omitempty"` // objects left out: the report was too large, or the agent cannot read them now
}

// Object is the status of one object.
type Object struct {
	Group     string `json:"group,omitempty"`
	Version   string `json:"version"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Status    string `json:"status"`            // one of the statuses below
	Reason    string `json:"reason,omitempty"`  // why it is not Current; short
	Content   string `json:"content,omitempty"` // value of ContentAnnotation
	// Unread marks an object that the agent may not read; the reconciler reports that it
	// applied it from App.Commit. Its content is not known.
	Unread bool `json:"unread,omitempty"`
}

// The statuses of an object, as in kstatus.
const (
	Current     = "Current"
	InProgress  = "InProgress"
	Failed      = "Failed"
	Terminating = "Terminating"
	NotFound    = "NotFound"
	Unknown     = "Unknown"
)

// Unseen is a kind of the cluster whose objects the agent does not see. If an object of
// such a kind is not in the report, its status is not known.
type Unseen struct {
	Group  string `json:"group,omitempty"`
	Kind   string `json:"kind"`
	Reason string `json:"reason"` // for people: "forbidden", "excluded", "no answer"
}
