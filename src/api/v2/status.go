package v2

import (
	"encoding/json"
	"time"
)

// Status is the answer to a status query of a deployment intent group, a logical
// cloud or a cluster. Members are upstream's; additions are optional and marked "ours".
type Status struct {
	StatusSubject
	States States `json:"states"`

	DeployedStatus string         `json:"deployedStatus,omitempty"` // with status=..., see Deployed
	Status         string         `json:"status,omitempty"`         // the same, with type=...
	ReadyStatus    string         `json:"readyStatus,omitempty"`    // "Ready" or "NotReady"
	DeployedCounts map[string]int `json:"deployedCounts,omitempty"` // Pending Applied Failed Retrying Deleted
	RsyncCounts    map[string]int `json:"rsyncStatus,omitempty"`    // the same, with type=rsync
	ReadyCounts    map[string]int `json:"readyCounts,omitempty"`    // Ready NotReady NotPresent
	ClusterCounts  map[string]int `json:"clusterStatus,omitempty"`  // the same, with type=cluster

	Apps            []AppStatus     `json:"apps,omitempty"`     // of a deployment intent group
	Clusters        []ClusterStatus `json:"clusters,omitempty"` // of a logical cloud
	Cluster         *ClusterStatus  `json:"cluster,omitempty"`  // of a cluster
	ChildContextIDs []string        `json:"ChildContextIDs,omitempty"`

	Failure    string      `json:"failure,omitempty"`    // ours: why the last operation failed as a whole
	Stopped    bool        `json:"stopped,omitempty"`    // ours: the deployment is not reconciled
	MovedTo    string      `json:"movedTo,omitempty"`    // ours: the group that took over the objects on clusters
	Use        *Use        `json:"use,omitempty"`        // ours: what the revision puts on clusters
	Outdated   string      `json:"outdated,omitempty"`   // ours: what an update would place elsewhere or render again
	Leaving    []Leaving   `json:"leaving,omitempty"`    // ours: apps of earlier revisions that are not removed yet
	Conditions []Condition `json:"conditions,omitempty"` // ours

	Hooks   []WorkflowStatus `json:"hooks,omitempty"`   // ours: the last run of each hook, in order of type and name
	Renewal *Renewal         `json:"renewal,omitempty"` // ours: of a stage of a certificate authority
}

// Renewal says when EMCO renews the certificates of a stage of a certificate authority.
type Renewal struct {
	At       time.Time `json:"at,omitzero"`       // when the first certificate must be renewed
	NotAfter time.Time `json:"notAfter,omitzero"` // when the first certificate that clusters have ends
	Problem  string    `json:"problem,omitempty"` // why the last renewal was refused; it is tried again
}

// Use is what a deployment uses on its clusters, as quotas count it.
type Use struct {
	Clusters int   `json:"clusters"`
	Objects  int64 `json:"objects"` // on all clusters, with definitions and hooks
	Bytes    int64 `json:"bytes"`   // of these objects, as rendered
}

// Leaving is an app that is being removed from a cluster.
type Leaving struct {
	App      string    `json:"app"`
	Provider string    `json:"clusterProvider"`
	Cluster  string    `json:"cluster"`
	Phase    string    `json:"phase"` // Deleting Retrying Failed Pending
	Error    string    `json:"error,omitempty"`
	Blocked  string    `json:"blocked,omitempty"`
	Since    time.Time `json:"since,omitzero"`

	Attempts    int       `json:"attempts,omitempty"`   // failed ones, in a row
	NextAttempt time.Time `json:"nextAttempt,omitzero"` // time of the next one
}

// Key returns the key of the cluster.
func (l Leaving) Key() ClusterKey { return NewClusterKey(l.Provider, l.Cluster) }

// StatusSubject identifies the subject of a status. Deployment intent groups have all members,
// logical clouds project and name, clusters the provider and the name.
type StatusSubject struct {
	ClusterProvider     string `json:"clusterProvider,omitempty"` // ours
	Project             string `json:"project,omitempty"`
	CompositeApp        string `json:"compositeApp,omitempty"`
	CompositeAppVersion string `json:"compositeAppVersion,omitempty"`
	CompositeProfile    string `json:"compositeProfile,omitempty"`
	Name                string `json:"name"`
}

// States is the history of a deployment; the last action is the current state.
type States struct {
	StatusCtxID string   `json:"statusctxid"`
	Actions     []Action `json:"actions"`
}

// Action is one change of state.
type Action struct {
	State    string    `json:"state"`
	Instance string    `json:"instance"` // decimal context id; empty for Created and Approved
	Time     time.Time `json:"time"`
	Revision int64     `json:"revision"`
}

// AppStatus is the status of one app.
type AppStatus struct {
	Name     string          `json:"name"`
	Clusters []ClusterStatus `json:"clusters,omitempty"`
	Failure  *AppFailure     `json:"failure,omitempty"`  // ours: why the app could not be deployed
	Findings []string        `json:"findings,omitempty"` // ours: warnings

	Conditions []Condition `json:"conditions,omitempty"` // ours
}

// AppFailure is why an app could not be placed or rendered. It is an addition to upstream's
// answer.
type AppFailure struct {
	Stage  string `json:"stage"` // "placement" or "rendering"
	File   string `json:"file,omitempty"`
	Reason string `json:"reason"`
}

// ClusterStatus is the status of one cluster, for one app or for a logical cloud.
type ClusterStatus struct {
	Provider     string           `json:"clusterProvider"`
	Cluster      string           `json:"cluster"`
	Connectivity string           `json:"connectivity,omitempty"` // Available Retrying Unknown; with status=...
	ReadyStatus  string           `json:"readyStatus,omitempty"`  // the same, with type=...
	Resources    []ResourceStatus `json:"resources,omitempty"`

	Phase    string     `json:"phase,omitempty"`    // ours: Pending Applied Failed Retrying Deleting
	Revision int64      `json:"revision,omitempty"` // ours: the revision that is applied
	Commit   string     `json:"commit,omitempty"`   // ours: the Git commit that holds it
	Error    string     `json:"error,omitempty"`    // ours: why it is not applied
	Since    *time.Time `json:"since,omitempty"`    // ours: start of the phase
	Findings []string   `json:"findings,omitempty"` // ours: warnings
	Blocked  string     `json:"blocked,omitempty"`  // ours: what it waits for
	Step     int        `json:"step,omitempty"`     // ours: the current step, from 1

	Attempts    int        `json:"attempts,omitempty"`    // ours: failed ones, in a row
	NextAttempt *time.Time `json:"nextAttempt,omitempty"` // ours: time of the next one

	LastReport *time.Time `json:"lastReport,omitempty"` // ours: time of the cluster's last report
	Stale      bool       `json:"stale,omitempty"`      // ours: the last report is too old to be trusted
	Reconciled string     `json:"reconciled,omitempty"` // ours: the Git commit that the cluster's reconciler has applied

	ExternalEdit *ExternalEdit `json:"foreignEdit,omitempty"` // ours: a change of its files in Git by others
}

// Key returns the key of the cluster.
func (c ClusterStatus) Key() ClusterKey {
	return NewClusterKey(c.Provider, c.Cluster)
}

// ExternalEdit is a change of the files of an app in Git by others.
type ExternalEdit struct {
	Commit string    `json:"commit"`
	Author string    `json:"author,omitempty"` // "Name <mail>" of the commit
	Paths  []string  `json:"paths"`            // the first ones
	More   int       `json:"more,omitempty"`   // number of other paths
	At     time.Time `json:"at"`               // time of detection
	Held   bool      `json:"held,omitempty"`   // it stays, and delivery waits, until an operator adopts or restores
	Kept   bool      `json:"kept,omitempty"`   // an operator adopted it: it stays until the next delivery
	Undone string    `json:"undone,omitempty"` // commit that overwrote it
}

// ResourceStatus is the status of one Kubernetes object.
type ResourceStatus struct {
	GVK            GVK             `json:"GVK"`
	Name           string          `json:"name"`
	Detail         json.RawMessage `json:"detail,omitempty"` // the object, with output=detail
	DeployedStatus string          `json:"deployedStatus,omitempty"`
	ReadyStatus    string          `json:"readyStatus,omitempty"`
	RsyncStatus    string          `json:"rsyncStatus,omitempty"`
	ClusterStatus  string          `json:"clusterStatus,omitempty"`
	Namespace      string          `json:"namespace,omitempty"` // ours
	Reason         string          `json:"reason,omitempty"`    // ours
	Extra          bool            `json:"extra,omitempty"`     // ours: the cluster created it, such as a Pod; it was not rendered
}

// GVK is the type of a Kubernetes object, with upstream's capitals.
type GVK struct {
	Group   string `json:"Group"`
	Version string `json:"Version"`
	Kind    string `json:"Kind"`
}

// Condition follows the Kubernetes convention. It is an addition to upstream's answer.
type Condition struct {
	Type    string    `json:"type"`   // see Placed and the others
	Status  string    `json:"status"` // "True", "False", "Unknown"
	Reason  string    `json:"reason,omitempty"`
	Message string    `json:"message,omitempty"`
	Since   time.Time `json:"lastTransitionTime,omitzero"` // absent if it is not known
}

// The types of conditions, of a deployment and of one of its apps.
const (
	Placed    = "Placed"    // clusters were found
	Rendered  = "Rendered"  // the content was made
	Committed = "Committed" // what goes through Git is on its branch
	Synced    = "Synced"    // the clusters hold what is desired
	Healthy   = "Healthy"   // the clusters report that it works
	Stalled   = "Stalled"   // it needs an operator to act
)

// The statuses of conditions.
const (
	True    = "True"
	False   = "False"
	Unknown = "Unknown" // also a readyStatus: there is no report, or no recent one
)

// The values of deployedStatus: the state of the last operation.
const (
	StatusInstantiating     = "Instantiating"
	StatusInstantiated      = "Instantiated"
	StatusInstantiateFailed = "InstantiateFailed"
	StatusTerminating       = "Terminating"
	StatusTerminated        = "Terminated"
	StatusTerminateFailed   = "TerminateFailed"
	StatusUpdated           = "Updated" // of an instance that is not the latest one
)

// The values of readyStatus, of a deployment and of a resource.
const (
	Ready      = "Ready"
	NotReady   = "NotReady"
	NotPresent = "NotPresent"
)

// AppsAnswer is the answer to ?apps.
type AppsAnswer struct {
	StatusSubject
	Apps []string `json:"apps"`
}

// ClustersAnswer is the answer to ?clusters.
type ClustersAnswer struct {
	StatusSubject
	ClustersByApp []ClustersByApp `json:"clustersByApp"`
}

// ClustersByApp is the clusters of one app.
type ClustersByApp struct {
	App      string       `json:"app"`
	Clusters []ClusterRef `json:"clusters"`
}

// ClusterRef is a ClusterKey as the answers of upstream EMCO write it.
type ClusterRef struct {
	Provider string `json:"clusterProvider"`
	Cluster  string `json:"cluster"`
}

// ResourcesAnswer is the answer to ?resources.
type ResourcesAnswer struct {
	StatusSubject
	ResourcesByApp []ResourcesByApp `json:"resourcesByApp"`
}

// ResourcesByApp is the resources of one app on one cluster; pairs are never merged.
type ResourcesByApp struct {
	App       string        `json:"app"`
	Provider  string        `json:"clusterProvider"`
	Cluster   string        `json:"cluster"`
	Resources []ResourceKey `json:"resources"`
}

// ResourceKey names a Kubernetes object.
type ResourceKey struct {
	Name string `json:"name"`
	GVK  GVK    `json:"GVK"`
}
