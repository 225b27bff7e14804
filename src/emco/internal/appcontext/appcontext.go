// Package appcontext is the state that services share: what each deployment shall
// look like on each cluster, and where each cluster stands. Content is kept once by
// digest; clusters point at it. It lives in etcd, embedded or external.
//
//	blob/<sha256>/<chunk>               compressed content, chunks <= 256 KiB
//	head/<uid>                          Head; the only contended key of a deployment
//	dep/<uid>/act/<seq>                 Action, append-only
//	event/<uid>/<time>-<random>         Event; the newest few hundred of a deployment
//	dep/<uid>/rev/<n>                   Revision, written once, together with the head
//	dep/<uid>/place/<n>/<try>/<k>       placements of up to 4,096 clusters, written once
//	dep/<uid>/commit/<n>                Git commits that carried revision n, by rsync
//	use/<uid>                           when a head was last needed by another one's move
//	op/<uid>/<id>                       Operation that waits for the orchestrator
//	pair/<cluster>/<uid>/<app>          Pair, by rsync
//	report/<cluster>/<uid>/<app>        Report, by status sources
//	heard/<cluster>                     Agent: when the cluster's agent last said something, and its tokens
//	said/<cluster>/<part>               the last document of an agent that reports by HTTPS
//	git/<hash>                          Branch, by rsync and by operators
//	move/<cluster>                      Relocation of a cluster in Git, by clm and by rsync
//	member/<kind>/<holder>              a process that shares the work of a kind, on a lease
//	own/<shard>                         lease holder; its create revision fences writes, its last one keeps them in order
//
// Heads and operations have spaces of their own, so that a list or a watch of them
// carries nothing else. The revision names the try that wrote its placements; others
// are left by crashes and never seen. No value is above 256 KiB, no transaction above
// 128 operations or 1 MiB.
package appcontext

import (
	"cmp"
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

	Stopped   bool   `json:"stopped,omitempty"`   // nothing more is to be done towards what is desired
	Inherited string `json:"inherited,omitempty"` // id that clusters know it by, if that is not UID; see Deployment
	MovedTo   string `json:"movedTo,omitempty"`   // uid of the head that took over what this one had on clusters
}

// Deployment is the id by which clusters, Git paths and pairs know what the head is
// about: its own, unless a migration handed it that of another head.
func (h Head) Deployment() string { return cmp.Or(h.Inherited, h.UID) }

// Owns reports whether clusters hold what they hold of Deployment because of this head,
// and not of one that took it over.
func (h Head) Owns() bool { return h.MovedTo == "" }

// TookOver reports whether the head was handed what runs under the id of another one, and
// has no revision of its own for it yet: what runs stays as it is until then.
func (h Head) TookOver() bool {
	return h.Owns() && !h.Gone && h.Rev == 0 && h.Inherited != ""
}

// Operation is work that the orchestrator does after the API has answered 202.
type Operation struct {
	ID       string    `json:"id"`
	UID      string    `json:"uid"`
	Kind     string    `json:"kind"`     // "instantiate", "update", "rollback" or "migrate"
	Instance string    `json:"instance"` // EMCO's context id of the revision to write
	Rev      int64     `json:"rev"`
	From     int64     `json:"from,omitempty"`  // for a rollback: the revision to bring back
	Force    bool      `json:"force,omitempty"` // large removals are meant
	Actor    string    `json:"actor,omitempty"`
	Reason   string    `json:"reason,omitempty"` // in the user's words
	At       time.Time `json:"at"`
}

// Action is one line of a deployment's history, as EMCO's states.actions.
type Action struct {
	State    State     `json:"state"`
	Instance string    `json:"instance"`
	Revision int64     `json:"revision"`
	Time     time.Time `json:"time"`
	Actor    string    `json:"actor,omitempty"`
	Reason   string    `json:"reason,omitempty"` // in the user's words
	Ask      string    `json:"ask,omitempty"`    // what was asked for: the event, and what its request named
	Key      string    `json:"key,omitempty"`    // Idempotency-Key of the request that did it
}

// Revision is one immutable version of a deployment.
type Revision struct {
	Number    int64     `json:"number"`
	Instance  string    `json:"instance"`
	Operation string    `json:"operation"`
	Kind      string    `json:"kind,omitempty"` // of the operation: "instantiate", "update", ...
	From      int64     `json:"from,omitempty"` // for a rollback: the revision that it brings back
	Author    string    `json:"author,omitempty"`
	Reason    string    `json:"reason,omitempty"` // in the author's words
	At        time.Time `json:"at"`
	Deployed  string    `json:"deployment,omitempty"` // the id that its objects carry, see Head.Deployment; set by Publish
	Namespace string    `json:"namespace"`            // of the logical cloud
	Cloud     Cloud     `json:"cloud,omitzero"`       // as it was then
	Apps      []App     `json:"apps"`                 // in the order they were onboarded
	Chunks    int       `json:"chunks"`               // number of placement values
}

// Cloud is what reconcilers on clusters are told of a logical cloud.
type Cloud struct {
	Name     string `json:"name"`               // "<project>+<logical cloud>"
	Confined bool   `json:"confined,omitempty"` // its apps may have objects in its namespace only
	Account  string `json:"account,omitempty"`  // ServiceAccount that its apps are applied as
}

// App is one app within a revision. An app with a Failure has no bundle of its own
// making: its placements, if any, carry what ran before.
type App struct {
	Name     string    `json:"name"`
	Bundles  []Digest  `json:"bundles,omitempty"`
	Class    Digest    `json:"class,omitempty"` // of all that the bundle was rendered from
	Failure  *Failure  `json:"failure,omitempty"`
	Verdicts []Verdict `json:"verdicts,omitempty"` // why clusters were left out; capped
	Findings []string  `json:"findings,omitempty"` // warnings for users

	DependsOn []Dependency `json:"dependsOn,omitempty"`
	LeaveLast bool         `json:"leaveLast,omitempty"` // places that it left are cleared only when it is ready in the others
	Rollout   *Rollout     `json:"rollout,omitempty"`   // nil: everywhere at once
}

// Dependency makes an app wait for another one, on all clusters of both.
type Dependency struct {
	App   string `json:"app"`
	Ready bool   `json:"ready,omitempty"` // it must be ready; else it is enough that it is applied
	Wait  int    `json:"wait,omitempty"`  // seconds to wait after that
}

// Rollout lets a change of an app reach its clusters in waves: the next wave begins when
// all clusters of those before have been ready for as long as Bake. Whatever is in no
// wave is the last one.
type Rollout struct {
	Waves []Wave `json:"waves"`
	Bake  int    `json:"bake,omitempty"` // seconds
}

// Wave is how many of the app's clusters change together, in order of their names.
type Wave struct {
	Clusters int `json:"clusters,omitempty"`
	Percent  int `json:"percent,omitempty"` // of all clusters of the app, rounded up; if Clusters is 0
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
	Stamp  string `json:"stamp,omitempty"` // manifest.Stamp of the content: what clusters report of it
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
	Cluster string            // <provider>+<cluster>
	Apps    map[string]Digest // app -> bundle
}

// PairKey names one app of one deployment on one cluster.
type PairKey struct{ Cluster, UID, App string }

// Pair is where one app stands on one cluster. It is written before anything is
// done on the cluster, so Held always covers what may be there.
type Pair struct {
	Key       PairKey   `json:"-"`
	Rev       int64     `json:"rev"`                // revision that asked for Desired
	Desired   Digest    `json:"desired,omitempty"`  // bundle to hold; empty: nothing
	Held      []Digest  `json:"held,omitempty"`     // bundles of which objects may be there
	Identity  string    `json:"identity,omitempty"` // id of the cluster's registration when it was asked for; another cluster of that name has another one
	Applied   Digest    `json:"applied,omitempty"`  // bundle proved to be there
	Commit    string    `json:"commit,omitempty"`   // Git commit that holds it
	Phase     Phase     `json:"phase"`
	Attempt   int       `json:"attempt,omitempty"`
	NextRetry time.Time `json:"nextRetry,omitzero"`
	Error     string    `json:"error,omitempty"`
	Reason    string    `json:"reason,omitempty"`   // one word for Error that users may look for; empty for most
	Findings  []string  `json:"findings,omitempty"` // what users should know although it worked
	At        time.Time `json:"at"`

	Change  Change `json:"change,omitempty"`  // what the way to Desired is to the app; decides which hooks run; empty once it is gone
	From    Digest `json:"from,omitempty"`    // bundle that ran when the way began; empty: none did
	Step    int    `json:"step,omitempty"`    // of that way: the step that is being worked on, from 0
	Sent    bool   `json:"sent,omitempty"`    // the step was delivered; what the next one needs is not reported yet
	Halted  bool   `json:"halted,omitempty"`  // a hook failed: only another revision goes on
	Blocked string `json:"blocked,omitempty"` // what it waits for before it goes on, in words for users

	Edit *ForeignEdit `json:"edit,omitempty"` // the last one; nil: none since the last revision

	Shard string `json:"shard,omitempty"` // of rsync's work that it belongs to, for as long as it lives; empty: not said
}

// ForeignEdit is what somebody else did to the files of a pair in Git.
type ForeignEdit struct {
	Commit string    `json:"commit"`
	Author string    `json:"author,omitempty"`
	Paths  []string  `json:"paths"`            // some
	More   int       `json:"more,omitempty"`   // paths that are not named
	At     time.Time `json:"at"`               // when it was seen
	Held   bool      `json:"held,omitempty"`   // it stays until somebody decides
	Kept   bool      `json:"kept,omitempty"`   // somebody has decided that it stays until the next delivery
	Undone string    `json:"undone,omitempty"` // commit that wrote over it
}

// Report is what a cluster said of one app. Ready and Since are set when it is taken in.
type Report struct {
	Key       PairKey          `json:"-"`
	Resources []ResourceStatus `json:"resources"`
	Truncated int              `json:"truncated,omitempty"` // resources left out, because a value has 256 KiB
	At        time.Time        `json:"at"`
	Seq       uint64           `json:"seq,omitempty"`    // of the agent's report; 0 from a cluster that is watched directly
	Commit    string           `json:"commit,omitempty"` // that the cluster's reconciler had applied, if the agent knows
	Ready     bool             `json:"ready,omitempty"`  // all that the pair's desired bundle holds is Current, in that content
	Since     time.Time        `json:"since,omitzero"`   // since when Ready is as it is
}

// ResourceStatus is one object's condition as a cluster sees it.
type ResourceStatus struct {
	manifest.ID
	Status  string `json:"status"` // kstatus: Current, InProgress, Failed, Terminating, NotFound, Unknown
	Reason  string `json:"reason,omitempty"`
	Content string `json:"content,omitempty"` // the object's manifest.Stamp, which tells which content is there
	Extra   bool   `json:"extra,omitempty"`   // it belongs to the app, but is in no bundle: a Pod, say
}
