package v2

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// The views below /v2/views are additions to upstream's API: counts and pages of the whole
// fleet. docs/views.md describes them.

// States of pairs (one app on one cluster), clusters and deployments in views, the worst
// first. A cluster or deployment is as bad as its worst pair.
const (
	ViewFailed      = "failed"      // a user must act
	ViewNotReady    = "notReady"    // the cluster reports that something is wrong
	ViewUnknown     = "unknown"     // the cluster has not reported, or is silent
	ViewBlocked     = "blocked"     // it waits for a dependency, a wave or an approval
	ViewLeaving     = "leaving"     // it is being removed
	ViewProgressing = "progressing" // it is being delivered
	ViewReady       = "ready"       // the cluster reports this very content as ready
	ViewIdle        = "idle"        // nothing is desired there
)

// ViewStates returns the states of views, the worst first.
func ViewStates() []string {
	return []string{ViewFailed, ViewNotReady, ViewUnknown, ViewBlocked, ViewLeaving, ViewProgressing, ViewReady, ViewIdle}
}

// ViewPage is what all pages of views begin with.
type ViewPage struct {
	At       time.Time `json:"at"`                 // when the answer was made
	Mark     int64     `json:"mark"`               // revision of the AppContext that it is as new as
	Total    int       `json:"total"`              // number of items on all pages
	Continue string    `json:"continue,omitempty"` // token of the next page
}

// ViewCounts counts by state. States that count nothing are left out.
type ViewCounts map[string]int

// FleetView counts all clusters and pairs.
type FleetView struct {
	At       time.Time    `json:"at"`
	Mark     int64        `json:"mark"`
	Clusters ViewCounts   `json:"clusters"`
	HourAgo  ViewCounts   `json:"hourAgo,omitempty"` // of clusters; only without filters, and when the process has counted for an hour
	Pairs    ViewCounts   `json:"pairs"`             // of the clusters that pass the filters
	Groups   []FleetGroup `json:"groups"`
}

// FleetGroup is the clusters of a group, in order of their names.
type FleetGroup struct {
	Key      string     `json:"key"`
	Clusters int        `json:"clusters"`
	Counts   ViewCounts `json:"counts"`
	Cells    string     `json:"cells"` // a letter for each bin of clusters, in order of name: its worst state
	Bin      int        `json:"bin"`   // number of clusters of a letter
}

// ClusterViews is a page of clusters.
type ClusterViews struct {
	ViewPage
	Items []ClusterView `json:"items"`
}

// ClusterView is a cluster in a page.
type ClusterView struct {
	Provider    string     `json:"provider"`
	Cluster     string     `json:"cluster"`
	Labels      []string   `json:"labels,omitempty"`
	Type        string     `json:"type,omitempty"`   // its sync type; empty for a direct cluster
	Branch      string     `json:"branch,omitempty"` // its branch shard
	State       string     `json:"state"`
	Counts      ViewCounts `json:"counts"` // of its pairs
	LastHeard   time.Time  `json:"lastHeard,omitzero"`
	SilentSince time.Time  `json:"silentSince,omitzero"`
	Why         string     `json:"why,omitempty"` // of its worst place
}

// ClusterDetail is one cluster with all pairs on it.
type ClusterDetail struct {
	At   time.Time `json:"at"`
	Mark int64     `json:"mark"`
	ClusterView
	Capacity *ClusterCapacity `json:"capacity,omitempty"` // missing if its monitor does not report it, and for direct clusters
	Places   []PlaceView      `json:"places"`             // the pairs
	More     int              `json:"more,omitempty"`     // pairs that are left out
}

// ClusterCapacity is what the nodes of a cluster have free, by the last report of its monitor.
type ClusterCapacity struct {
	Reported  time.Time          `json:"reported,omitzero"` // when the monitor was heard last
	Changed   time.Time          `json:"changed,omitzero"`  // when it reported this first
	Nodes     int                `json:"nodes"`
	Open      int                `json:"open"`                // nodes that take new pods
	Resources []ResourceCapacity `json:"resources,omitempty"` // of the nodes that take new pods, in order of their names
	Problem   string             `json:"problem,omitempty"`   // why nothing is known
}

// ResourceCapacity is a resource of the nodes of a cluster, in quantities of Kubernetes.
type ResourceCapacity struct {
	Name        string `json:"name"`
	Free        string `json:"free"`        // of all nodes together
	Allocatable string `json:"allocatable"` // of all nodes together
	Largest     string `json:"largest"`     // the most that one node has free
}

// PlaceView is one app of a deployment on one cluster.
type PlaceView struct {
	Project    string    `json:"project"`
	App        string    `json:"compositeApp"`
	Version    string    `json:"compositeAppVersion"`
	Group      string    `json:"deploymentIntentGroup"`
	Name       string    `json:"app"`
	State      string    `json:"state"`
	Phase      string    `json:"phase,omitempty"`
	Revision   int64     `json:"revision,omitempty"`
	Since      time.Time `json:"since,omitzero"`
	ReadySince time.Time `json:"readySince,omitzero"`
	Commit     string    `json:"commit,omitempty"`
	Reconciled string    `json:"reconciled,omitempty"` // commit that the cluster's reconciler has applied
	Blocked    string    `json:"blocked,omitempty"`
	Why        string    `json:"why,omitempty"`
}

// DeploymentViews is a page of deployments.
type DeploymentViews struct {
	ViewPage
	Items []DeploymentView `json:"items"`
}

// DeploymentView is a deployment intent group in a page.
type DeploymentView struct {
	Path      string     `json:"path"`               // of the group, below /v2
	State     string     `json:"state"`              // as bad as its worst place
	Lifecycle string     `json:"lifecycle"`          // the state of its life cycle, such as Approved
	Deployed  string     `json:"deployed,omitempty"` // upstream's deployedStatus
	Revision  int64      `json:"revision,omitempty"` // that is desired
	Kind      string     `json:"kind,omitempty"`     // what made the revision, such as update
	Author    string     `json:"author,omitempty"`
	Reason    string     `json:"reason,omitempty"` // in the author's words
	Since     time.Time  `json:"since,omitzero"`   // of the revision
	Apps      int        `json:"apps"`
	Clusters  int        `json:"clusters"`
	Counts    ViewCounts `json:"counts"` // of its pairs
	Why       string     `json:"why,omitempty"`
	MovedTo   string     `json:"movedTo,omitempty"` // the group that took its deployment over
	Foreign   int        `json:"foreign,omitempty"` // pairs whose files in Git others have changed, and nothing has written over that yet

	Conditions []ViewCondition `json:"conditions,omitempty"` // Placed, Rendered, Delivered, Healthy, Stalled; missing if nothing is desired
}

// Conditions of a deployment in a page, in the order in which a revision meets them.
const (
	ConditionPlaced    = "Placed"    // its apps have clusters
	ConditionRendered  = "Rendered"  // all apps
	ConditionDelivered = "Delivered" // all pairs are Applied
	ConditionHealthy   = "Healthy"   // all clusters report this very content as ready
	ConditionStalled   = "Stalled"   // it does not go on until a user acts
)

// ViewCondition is a condition of a deployment.
type ViewCondition struct {
	Type   string `json:"type"`
	Status string `json:"status"` // True, False or Unknown
	Reason string `json:"reason,omitempty"`
}

// MatrixView is a page of a deployment's clusters with the state of each app.
type MatrixView struct {
	ViewPage
	Apps     []string    `json:"apps"` // in order of the letters of cells
	AllApps  int         `json:"allApps"`
	Revision int64       `json:"revision"`
	Counts   ViewCounts  `json:"counts"` // of all pairs of the deployment
	Items    []MatrixRow `json:"items"`
}

// MatrixRow is one cluster of a deployment.
type MatrixRow struct {
	Provider  string    `json:"provider"`
	Cluster   string    `json:"cluster"`
	Cells     string    `json:"cells"`    // a letter for each app; "-" where the app is not placed
	Revision  []int64   `json:"revision"` // that each app was last changed for; 0 where it is not placed
	LastHeard time.Time `json:"lastHeard,omitzero"`
	Why       string    `json:"why,omitempty"`
	Commit    string    `json:"commit,omitempty"`
}

// HistoryViews is a page of what clusters held, the newest first.
type HistoryViews struct {
	ViewPage
	Items []HistoryView `json:"items"`
}

// HistoryView is a time during which an app of a deployment had the same content on a cluster.
type HistoryView struct {
	Provider     string       `json:"provider"`
	Cluster      string       `json:"cluster"`
	Path         string       `json:"path,omitempty"`    // below /v2, of the group or logical cloud that the deployment belonged to, or belongs to if the cluster holds it still
	Project      string       `json:"project,omitempty"` // this and the three below: the group in Path
	CompositeApp string       `json:"compositeApp,omitempty"`
	Version      string       `json:"compositeAppVersion,omitempty"`
	Group        string       `json:"deploymentIntentGroup,omitempty"`
	DeploymentID DeploymentID `json:"deploymentId"` // the number in paths of Git
	App          string       `json:"app"`
	Change       string       `json:"change,omitempty"`   // what began it: install, upgrade or rollback; empty if it is not known
	Revision     int64        `json:"revision,omitempty"` // missing if it is not known
	Commit       string       `json:"commit,omitempty"`   // missing on direct clusters
	Bundle       string       `json:"bundle"`             // digest of the content: equal content has equal digests
	From         time.Time    `json:"from"`               // when EMCO knew that it was applied
	To           time.Time    `json:"to,omitzero"`        // missing while the cluster holds it
	Recorded     bool         `json:"recorded"`           // false: its beginning was not recorded, and From is the latest time at which it can have begun
}

// SearchView is what a search has found.
type SearchView struct {
	Hits []SearchHit `json:"hits"`
}

// SearchHit is something with the text in its name, or the number of its folders in Git.
type SearchHit struct {
	Kind  string `json:"kind"` // "commit", "cluster", "deployment", "app", "label", or "document" for another document with folders in Git
	Title string `json:"title"`
	Sub   string `json:"sub"`
	Href  string `json:"href"`
}

// StreamEvent is the data of an event of GET …/views/stream.
type StreamEvent struct {
	Resync   bool            `json:"resync,omitempty"`   // ask for the views again: what has changed is not known
	Topic    string          `json:"topic,omitempty"`    // of an event "rows"
	State    string          `json:"state,omitempty"`    // of the topic's cluster or deployment
	Counts   ViewCounts      `json:"counts,omitempty"`   // of its pairs
	Pairs    ViewCounts      `json:"pairs,omitempty"`    // of an event "fleet": all pairs
	Clusters []ClusterChange `json:"clusters,omitempty"` // of an event "fleet": those that have changed
}

// ClusterChange is a cluster that has changed, with its state now.
type ClusterChange struct {
	Cluster ClusterKey `json:"cluster"`
	State   string     `json:"state"`
}

// PlacementViews is a page of the clusters on which the current documents of a deployment place
// its apps, and of those on which they do not.
type PlacementViews struct {
	ViewPage
	In    int             `json:"in"`  // number of placements, of all pages
	Out   int             `json:"out"` // number of clusters that are left out, once per app
	Items []PlacementView `json:"items"`
}

// PlacementView is the verdict on one cluster for one app.
type PlacementView struct {
	App     string     `json:"app"`
	Cluster ClusterKey `json:"cluster,omitempty"` // empty if the app cannot be placed at all
	Verdict string     `json:"verdict"`           // "in" or "out"
	Reason  string     `json:"reason"`
	Score   *float64   `json:"score,omitempty"` // from 0 to 1; missing unless the clusters are compared
}

// EventViews is a page of the events of all deployments and logical clouds, the newest first.
type EventViews struct {
	ViewPage
	Items []EventView `json:"items"`
}

// EventView is an event with the deployment or logical cloud that it is about.
type EventView struct {
	Path string `json:"path"` // below /v2
	Event
}

// States of a branch that EMCO writes, the worst first.
const (
	LaneRewritten = "rewritten"          // it no longer contains our last commit: an operator must decide
	LaneRefused   = "refused"            // the server, or a check, refused the last commit
	LaneResting   = "resting"            // the server is down, throttles or refuses the credential; it is left alone for a while
	LaneWaiting   = "waitingPullRequest" // the changes wait for a merge
	LaneDecided   = "decided"            // an operator has decided about edits of others, and it is being carried out
	LaneOK        = "ok"                 // the last commit was pushed, or nothing had to be
)

// LaneViews is a page of the branches that EMCO writes.
type LaneViews struct {
	At       time.Time  `json:"at"`
	Total    int        `json:"total"`
	Continue string     `json:"continue,omitempty"`
	Items    []LaneView `json:"items"`
}

// LaneView is one branch.
type LaneView struct {
	Lane         string    `json:"lane"` // its name in paths
	URL          string    `json:"url"`
	Branch       string    `json:"branch"`
	State        string    `json:"state"`
	Since        time.Time `json:"since,omitzero"`    // of the state
	Why          string    `json:"why,omitempty"`     // of a state other than ok
	NextTry      time.Time `json:"nextTry,omitzero"`  // while it rests
	LastPush     time.Time `json:"lastPush,omitzero"` // by this process
	Commit       string    `json:"commit,omitempty"`  // our last one
	Queued       int       `json:"queued"`            // changes of targets that wait for a commit
	OldestQueued time.Time `json:"oldestQueued,omitzero"`

	Clusters int         `json:"clusters"`         // clusters that this process delivers to on it
	Writer   string      `json:"writer,omitempty"` // the process that writes it now; empty while nobody does
	Budget   *LaneBudget `json:"budget,omitempty"` // missing if nothing limits requests, or the branch was not written since the start
	Foreign  int         `json:"foreign"`          // pairs on it whose files others have changed, and nothing has written over that yet
}

// LaneBudget is what is left of the limits of a branch's Git server, as this process knows it.
type LaneBudget struct {
	Pushes *BudgetLeft `json:"pushes,omitempty"` // of the repository
	API    *BudgetLeft `json:"api,omitempty"`    // calls of the credential, by the limit that is nearest to its end
}

// BudgetLeft is what is left of a limit.
type BudgetLeft struct {
	Left   int       `json:"left"`
	Of     int       `json:"of"`              // the most that can be saved up
	Resets time.Time `json:"resets,omitzero"` // when that much is left again; missing if it is
}

// LaneID returns the name in paths of a branch that EMCO writes.
func LaneID(url, branch string) string {
	sum := sha256.Sum256([]byte(url + "\x00" + branch))
	return hex.EncodeToString(sum[:6])
}

// CommitViews is a page of the newest commits of a branch, the newest first.
type CommitViews struct {
	At       time.Time    `json:"at"`
	ReadAt   time.Time    `json:"readAt"` // when the Git server was asked for the head of the branch
	URL      string       `json:"url"`
	Branch   string       `json:"branch"`
	Total    int          `json:"total"`
	Continue string       `json:"continue,omitempty"`
	Older    bool         `json:"older,omitempty"` // the branch has older commits, which no page shows
	Why      string       `json:"why,omitempty"`   // why the Git server was not asked again after readAt
	Items    []CommitView `json:"items"`
}

// CommitView is a commit of a branch.
type CommitView struct {
	Commit   string        `json:"commit"`
	Time     time.Time     `json:"time,omitzero"`
	Author   string        `json:"author,omitempty"`
	Title    string        `json:"title,omitempty"`    // missing if it could name a deployment that the caller may not read
	Ours     bool          `json:"ours"`               // EMCO made it, as its trailers say
	Signed   bool          `json:"signed,omitempty"`   // it has a signature, which EMCO does not check
	Groups   []CarriedView `json:"groups,omitempty"`   // the first of the revisions that it carried
	More     int           `json:"more,omitempty"`     // further ones
	Clusters int           `json:"clusters,omitempty"` // number of clusters that it is for; missing like the title
}

// CarriedView is a revision that a commit carried.
type CarriedView struct {
	Path       string `json:"path,omitempty"`     // of the deployment, below /v2; empty if it does not exist any longer
	Deployment string `json:"deployment"`         // the id in paths of Git
	Revision   int64  `json:"revision,omitempty"` // missing if the commit names none
}
