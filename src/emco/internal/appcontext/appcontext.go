// Package appcontext is the state that services share: what each deployment shall
// look like on each cluster, and where each cluster stands. Content is kept once by
// digest; clusters point at it. It lives in etcd, embedded or external.
//
//	blob/<sha256>/<chunk>               compressed content, chunks <= 256 KiB
//	head/<uid>                          Head; the only contended key of a deployment
//	dep/<uid>/act/<seq>                 Action, append-only
//	dep/<uid>/rev/<n>                   Revision, written once, together with the head
//	dep/<uid>/place/<n>/<try>/<k>       up to 500 placements, written once
//	op/<uid>/<id>                       Operation that waits for the orchestrator
//	pair/<cluster>/<uid>/<app>          Pair, by rsync
//	report/<cluster>/<uid>/<app>        Report, by status sources
//	own/<shard>                         lease holder; its create revision fences writes
//
// Heads and operations have spaces of their own, so that a list or a watch of them
// carries nothing else. The revision names the try that wrote its placements; others
// are left by crashes and never seen. No value is above 256 KiB, no transaction above
// 128 operations or 1 MiB.
package appcontext

import (
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// Head is where a deployment stands. It changes only by compare-and-swap.
type Head struct {
	UID     string     `json:"uid"`     // the deployment's id (EMCO's statusctxid), the <id> of Git paths and labels
	Subject string     `json:"subject"` // key of the document it belongs to: a deployment intent group or a logical cloud
	State   State      `json:"state"`
	Seq     int64      `json:"seq"`               // number of actions so far
	LastRev int64      `json:"lastRev"`           // highest revision number ever given out
	Rev     int64      `json:"rev"`               // revision that is desired now; 0 for none
	Gone    bool       `json:"gone"`              // desired state is "nothing"
	Op      *Operation `json:"op,omitempty"`      // operation that is being worked on, if any
	Failure string     `json:"failure,omitempty"` // why the last operation could not produce a revision at all
	Mod     int64      `json:"-"`                 // etcd revision at which it was read; used for compare-and-swap
}

// Operation is work that the orchestrator does after the API has answered 202.
type Operation struct {
	ID       string    `json:"id"`
	UID      string    `json:"uid"`
	Kind     string    `json:"kind"`     // "instantiate", "update" or "rollback"
	Instance string    `json:"instance"` // EMCO's context id of the revision to write
	Rev      int64     `json:"rev"`
	From     int64     `json:"from,omitempty"` // for a rollback: the revision to bring back
	Actor    string    `json:"actor,omitempty"`
	At       time.Time `json:"at"`
}

// Action is one line of a deployment's history, as EMCO's states.actions.
type Action struct {
	State    State     `json:"state"`
	Instance string    `json:"instance"`
	Revision int64     `json:"revision"`
	Time     time.Time `json:"time"`
}

// Revision is one immutable version of a deployment.
type Revision struct {
	Number    int64     `json:"number"`
	Instance  string    `json:"instance"`
	Operation string    `json:"operation"`
	Author    string    `json:"author,omitempty"`
	At        time.Time `json:"at"`
	Namespace string    `json:"namespace"` // of the logical cloud
	Apps      []App     `json:"apps"`      // in the order they were onboarded
	Chunks    int       `json:"chunks"`    // number of placement values
}

// App is one app within a revision. An app with a Failure has no bundle of its own
// making: its placements, if any, carry what ran before.
type App struct {
	Name     string    `json:"name"`
	Bundles  []Digest  `json:"bundles,omitempty"`
	Failure  *Failure  `json:"failure,omitempty"`
	Verdicts []Verdict `json:"verdicts,omitempty"` // why clusters were left out; capped
	Findings []string  `json:"findings,omitempty"` // warnings for users: hooks that are not run, ...
}

// Failure says why an app could not be rendered or placed.
type Failure struct {
	Stage  string `json:"stage"` // "placement" or "rendering"
	File   string `json:"file,omitempty"`
	Reason string `json:"reason"`
}

// Verdict says why a cluster is not used for an app.
type Verdict struct {
	Cluster string `json:"cluster"`
	Reason  string `json:"reason"`
}

// Digest names content in the blob space.
type Digest = manifest.Digest

// Bundle is what one app puts on a cluster: its objects in order of application.
// It is stored as a blob and named by its digest.
type Bundle struct {
	Objects []Ref     `json:"objects"`
	CRDs    []Ref     `json:"crds,omitempty"`
	Hooks   []HookRef `json:"hooks,omitempty"`
}

// Ref points at one object's content.
type Ref struct {
	manifest.ID
	Digest Digest `json:"digest"`
}

// HookRef points at a hook.
type HookRef struct {
	Ref
	Events         []string `json:"events"`
	Weight         int      `json:"weight,omitempty"`
	DeletePolicies []string `json:"deletePolicies,omitempty"`
}

// Placement says which bundles a cluster holds.
type Placement struct {
	Cluster string            `json:"cluster"` // <provider>+<cluster>
	Apps    map[string]Digest `json:"apps"`    // app -> bundle
}

// PairKey names one app of one deployment on one cluster.
type PairKey struct{ Cluster, UID, App string }

// Pair is where one app stands on one cluster. It is written before anything is
// done on the cluster, so Held always covers what may be there.
type Pair struct {
	Key       PairKey   `json:"-"`
	Rev       int64     `json:"rev"`               // revision that asked for Desired
	Desired   Digest    `json:"desired,omitempty"` // bundle to hold; empty: nothing
	Held      []Digest  `json:"held,omitempty"`    // bundles of which objects may be there
	Applied   Digest    `json:"applied,omitempty"` // bundle proved to be there
	Commit    string    `json:"commit,omitempty"`  // Git commit that holds it
	Phase     Phase     `json:"phase"`
	Attempt   int       `json:"attempt,omitempty"`
	NextRetry time.Time `json:"nextRetry,omitzero"`
	Error     string    `json:"error,omitempty"`
	Findings  []string  `json:"findings,omitempty"` // what users should know although it worked
	At        time.Time `json:"at"`
}

// Report is what a cluster said of one app.
type Report struct {
	Key       PairKey          `json:"-"`
	Resources []ResourceStatus `json:"resources"`
	Truncated int              `json:"truncated,omitempty"` // resources left out, because a value has 256 KiB
	At        time.Time        `json:"at"`
}

// ResourceStatus is one object's condition as a cluster sees it.
type ResourceStatus struct {
	manifest.ID
	Status string `json:"status"` // kstatus: Current, InProgress, Failed, Terminating, NotFound, Unknown
	Reason string `json:"reason,omitempty"`
}
