package appcontext

import (
	"cmp"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// Head is the state of a deployment. It changes only by compare-and-swap.
type Head struct {
	UID      HeadID     `json:"uid"`
	Document string     `json:"subject"` // key of the document it belongs to: a deployment intent group or a logical cloud
	State    State      `json:"state"`
	Seq      int64      `json:"seq"`               // number of actions so far
	LastRev  int64      `json:"lastRev"`           // highest number of a revision, except lost ones
	Rev      int64      `json:"rev"`               // desired revision; 0 for none
	Gone     bool       `json:"gone"`              // desired state is "nothing"
	Op       *Operation `json:"op,omitempty"`      // operation in progress, if any
	Failure  string     `json:"failure,omitempty"` // why the last operation produced no revision
	Mod      int64      `json:"-"`                 // etcd revision at which it was read; used for compare-and-swap

	Stopped   bool            `json:"stopped,omitempty"`   // reconciling is stopped
	Inherited v2.DeploymentID `json:"inherited,omitempty"` // the deployment that a migration passed to it; see Deployment
	MovedTo   HeadID          `json:"movedTo,omitempty"`   // id of the head that took over what this one had on clusters

	Terminated time.Time `json:"terminated,omitzero"` // time of the last terminate; a failure before it is tried again

	Traceparent string `json:"traceparent,omitempty"` // span of the last action, if it is recorded; deliveries continue its trace

	Lost RevisionGap `json:"lost,omitzero"` // by the last restore from a backup

	Promoted Promotion `json:"promoted,omitzero"` // the last one, maybe of an earlier revision; see Promotion

	Use Use `json:"use,omitzero"` // what the desired revision puts on clusters; not known of revisions of older versions
}

// Use is what a deployment uses on its clusters.
type Use struct {
	Clusters int   `json:"clusters,omitempty"` // that it is placed on
	Objects  int64 `json:"objects,omitempty"`  // on all of them, with definitions and hooks
	Bytes    int64 `json:"bytes,omitempty"`    // of these objects, as rendered
}

// BundleSize is what a bundle puts on one cluster.
type BundleSize struct {
	Objects int64 `json:"objects"`
	Bytes   int64 `json:"bytes"`
}

// RevisionGap are the revisions above After and below Before. They may have been made after a backup, and
// the restore of that backup lost them. Branches and clusters may still hold them, so their numbers are
// not given again.
type RevisionGap struct {
	After  int64 `json:"after"`
	Before int64 `json:"before"`
}

// NextRevision returns the number of the next revision.
func (h Head) NextRevision() int64 { return max(h.LastRev+1, h.Lost.Before) }

// Knows reports whether a revision was made from this state, and not in a time that a restore lost.
func (h Head) Knows(revision int64) bool {
	return revision <= h.LastRev && (revision <= h.Lost.After || revision >= h.Lost.Before)
}

// Deployment returns the deployment of the head, whose id Git paths, labels and pairs carry
// (upstream's statusctxid): the one with the head's own id, unless a migration passed it another.
func (h Head) Deployment() v2.DeploymentID { return cmp.Or(h.Inherited, h.UID.Deployment()) }

// Owns reports whether this head decides what clusters hold of Deployment, and not one that
// took it over.
func (h Head) Owns() bool { return h.MovedTo == "" }

// TookOver reports whether the head took over what runs under the id of another head, and
// has no revision of its own yet: what runs stays as it is until then.
func (h Head) TookOver() bool {
	return h.Owns() && !h.Gone && h.Rev == 0 && h.Inherited != ""
}

// Promotion returns how far the desired revision was promoted.
func (h Head) Promotion() Promotion {
	if h.Promoted.Rev != h.Rev {
		return Promotion{Rev: h.Rev}
	}
	return h.Promoted
}

// Operation is work that the orchestrator does after the API has answered 202.
type Operation struct {
	ID          string    `json:"id"`
	UID         HeadID    `json:"uid"`
	Kind        string    `json:"kind"`     // "instantiate", "update", "rollback" or "migrate"; with hooks also "terminate"
	Instance    string    `json:"instance"` // upstream's context id of the revision to write
	Rev         int64     `json:"rev"`
	From        int64     `json:"from,omitempty"`    // for a rollback: the revision to restore
	Force       bool      `json:"force,omitempty"`   // large removals are confirmed
	Outcome     string    `json:"outcome,omitempty"` // digest of the only outcome that the user accepts; empty for any
	Actor       string    `json:"actor,omitempty"`
	Reason      string    `json:"reason,omitempty"` // in the user's words
	At          time.Time `json:"at"`
	Traceparent string    `json:"traceparent,omitempty"` // span of the request, if it is recorded

	Hooks   bool   `json:"hooks,omitempty"`   // hooks run before it: nothing is done until these are complete
	Before  State  `json:"before,omitempty"`  // of a termination with hooks: the state that an abort returns to
	Failure string `json:"failure,omitempty"` // of a termination with hooks: that of the deployment after an abort
}

// Terminates reports whether the operation ends the deployment. Others make a revision.
func (o Operation) Terminates() bool { return o.Kind == OperationTerminate }

// OperationTerminate is the kind of operations that wait for hooks before a termination.
const OperationTerminate = "terminate"

// HistoryEntry is one line of a deployment's history, as upstream's states.actions.
type HistoryEntry struct {
	State    State     `json:"state"`
	Instance string    `json:"instance"`
	Revision int64     `json:"revision"`
	Time     time.Time `json:"time"`
	Actor    string    `json:"actor,omitempty"`
	Reason   string    `json:"reason,omitempty"` // in the user's words
	Ask      string    `json:"ask,omitempty"`    // the request: its event, and what it named
	Key      string    `json:"key,omitempty"`    // Idempotency-Key of the request
	Seq      int64     `json:"-"`                // its number in the history, see Head.Seq; 0 if it is not stored yet

	Reviewed *Reviewed `json:"reviewed,omitempty"` // which changes an approval covers; nil where changes are not noted
}

// Reviewed holds the last changes, counted by package review, that a review of a group covers.
type Reviewed struct {
	App   int64 `json:"app"`   // of the version of the composite app, and what is below it outside of groups
	Group int64 `json:"group"` // of the group, and what is below it
}

// Revision is one immutable version of a deployment.
type Revision struct {
	Number    int64           `json:"number"`
	Instance  string          `json:"instance"`
	Operation string          `json:"operation"`
	Kind      string          `json:"kind,omitempty"` // of the operation: "instantiate", "update", ...
	From      int64           `json:"from,omitempty"` // for a rollback: the revision that it restores
	Author    string          `json:"author,omitempty"`
	Reason    string          `json:"reason,omitempty"` // in the author's words
	At        time.Time       `json:"at"`
	Deployed  v2.DeploymentID `json:"deployment,omitempty"` // the id that its objects carry, see Head.Deployment; set by Publish
	Namespace string          `json:"namespace"`            // of the logical cloud
	Cloud     Cloud           `json:"cloud,omitzero"`       // at that time
	Apps      []App           `json:"apps"`                 // in order of name
	Chunks    int             `json:"chunks"`               // number of placement values

	Labelled map[string]Members `json:"labelled,omitempty"` // by label that a wave names: the placements on clusters that had it
}

// Cloud is what reconcilers on clusters need to know of a logical cloud.
type Cloud struct {
	Name     string `json:"name"`               // "<project>+<logical cloud>"
	Confined bool   `json:"confined,omitempty"` // its apps may have objects in the namespaces of its permissions only
	Account  string `json:"account,omitempty"`  // ServiceAccount that its apps are applied as
	User     string `json:"user,omitempty"`     // whom EMCO acts as on direct clusters; empty for level 0
}

// App is one app of a revision. An app with a Failure has no new bundle: its placements, if
// any, keep what ran before.
type App struct {
	Name     string       `json:"name"`
	Bundles  []Digest     `json:"bundles,omitempty"`
	Sizes    []BundleSize `json:"sizes,omitempty"`   // of each bundle; none in revisions of older versions
	Class    Digest       `json:"class,omitempty"`   // of all input of the bundle, if there is one
	Classes  []Digest     `json:"classes,omitempty"` // the same of each bundle, if there are several
	Sources  Digest       `json:"sources,omitempty"` // plan.App.Sources; none in revisions of older versions
	Failure  *Failure     `json:"failure,omitempty"`
	Verdicts []Verdict    `json:"verdicts,omitempty"` // why clusters were left out; capped
	Findings []string     `json:"findings,omitempty"` // warnings for users

	Duplicates []string `json:"duplicates,omitempty"` // warnings about objects that another app of the revision has, too

	DependsOn []Dependency `json:"dependsOn,omitempty"`
	LeaveLast bool         `json:"leaveLast,omitempty"` // it is removed from clusters only when it is ready on the remaining ones
	Rollout   *Rollout     `json:"rollout,omitempty"`   // nil: everywhere at once
}

// ClassList returns the digest of the input of each bundle; none if it is not known.
func (a App) ClassList() []Digest {
	switch {
	case len(a.Classes) > 0 && len(a.Classes) == len(a.Bundles):
		return a.Classes
	case a.Class != "" && len(a.Bundles) == 1:
		return []Digest{a.Class}
	}
	return nil
}

// SetClasses sets the digests of the input of the bundles.
func (a *App) SetClasses(digests []Digest) {
	if len(digests) == 1 {
		a.Class, a.Classes = digests[0], nil
		return
	}
	a.Class, a.Classes = "", digests
}

// Dependency makes an app wait for another app, on all clusters of both.
type Dependency struct {
	App   string `json:"app"`
	Ready bool   `json:"ready,omitempty"` // it must be ready; else applied is enough
	Delay int    `json:"wait,omitempty"`  // seconds to wait after that
}

// Rollout brings a change of an app to its clusters in waves: a wave begins when all
// clusters of the waves before have been ready for Bake. Clusters in no wave come last.
type Rollout struct {
	Waves []Wave `json:"waves"`
	Bake  int    `json:"bake,omitempty"` // seconds
}

// BakeAfter returns how many seconds the clusters of a wave must be ready before the next one begins.
func (r Rollout) BakeAfter(wave int) int {
	if own := r.Waves[wave].Bake; own != nil {
		return *own
	}
	return r.Bake
}

// Wave is which of the app's clusters, of those in no earlier wave, change together. Clusters, Percent and Label exclude each other.
type Wave struct {
	Clusters int    `json:"clusters,omitempty"` // as many, in order of their names
	Percent  int    `json:"percent,omitempty"`  // the same, as a share of all clusters of the app, rounded up
	Label    string `json:"label,omitempty"`    // those that have it by Revision.Labelled
	Bake     *int   `json:"bake,omitempty"`     // seconds; nil: that of the rollout
	Pause    bool   `json:"pause,omitempty"`    // later waves wait for a Promotion
}

// Promotion lets the rollouts of a revision go on after waves with a Pause.
type Promotion struct {
	Rev  int64 `json:"rev,omitempty"`
	Wave int   `json:"wave,omitempty"` // pauses after the waves up to this one, which counts from 1, are over in all apps
	Full bool  `json:"full,omitempty"` // no cluster waits for waves any more
}

// Failure states why an app could not be rendered or placed.
type Failure struct {
	Stage  string `json:"stage"` // "placement", "rendering" or "policy"
	File   string `json:"file,omitempty"`
	Reason string `json:"reason"`
}

// Verdict states why a cluster is not used for an app.
type Verdict struct {
	Cluster v2.ClusterKey `json:"cluster"`
	Reason  string        `json:"reason"`
}

// Digest names content in the blob space.
type Digest = manifest.Digest
