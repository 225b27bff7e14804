// Package pairstore stores pairs, the state of each app on each cluster, and what clusters report on
// them. How pairs change is in svc/rsync/pair; svc/rsync/pairs keeps those of one shard in memory.
//
//	pair/<cluster>/<uid>/<app>          the record of one pair
//	pairtable/<uid>/<app>/<shard>       Table: groups of pairs that stand alike, each with its clusters
//	pairroster/<shard>/<part>           the clusters of a shard, whose numbers the tables use
//	report/<cluster>/<uid>/<app>        the record of one report
//	reporttable/<uid>/<app>/<shard>     ReportTable: groups of equal reports, each with its clusters
//
// Pairs with equal state form a group, if enough of them come together: the state and a set of
// cluster numbers. Other pairs have a record each. Only the owner of a shard writes its pairs, by a
// Writer, which moves them between records and tables; a transaction leaves each pair in exactly one
// place. Store reads the pairs of all shards. Reports are stored in the same way, with the same numbers;
// ReportStore reads them. A number is free for another cluster only when neither kind of table uses it, so
// both are in this package. PutPairs and PutReports, which write records without a Writer, are for tests.
package pairstore

import (
	"cmp"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// Digest names content in the blob space.
type Digest = manifest.Digest

// Key names one app of one deployment on one cluster.
type Key struct {
	Cluster    v2.ClusterKey
	Deployment v2.DeploymentID
	App        string
}

// Compare orders keys by cluster, deployment and app.
func (k Key) Compare(other Key) int {
	return cmp.Or(cmp.Compare(k.Cluster, other.Cluster), cmp.Compare(k.Deployment, other.Deployment), cmp.Compare(k.App, other.App))
}

// ComparePairs orders pairs by their keys.
func ComparePairs(a, b Pair) int { return a.Key.Compare(b.Key) }

// Pair is the state of one app on one cluster. It is written before the cluster is changed,
// so Held always covers what the cluster may hold. Pairs that differ only in Key and Registration
// share one value in etcd, see State. So a new member must get equal values in pairs that change
// together, and valuesOf must contain it.
type Pair struct {
	Key          Key       `json:"-"`
	Rev          int64     `json:"rev"`                // revision that requires Desired
	Desired      Digest    `json:"desired,omitempty"`  // bundle that the cluster must hold; empty: none
	Held         []Digest  `json:"held,omitempty"`     // bundles whose objects the cluster may hold
	Registration string    `json:"identity,omitempty"` // id of the cluster's registration at that time; another cluster of the same name has another id
	Applied      Digest    `json:"applied,omitempty"`  // bundle that the cluster is proved to hold
	Commit       string    `json:"commit,omitempty"`   // Git commit that contains it
	Phase        Phase     `json:"phase"`
	Attempt      int       `json:"attempt,omitempty"`
	NextRetry    time.Time `json:"nextRetry,omitzero"`
	Error        string    `json:"error,omitempty"`
	Reason       string    `json:"reason,omitempty"`   // one word for Error that users may search for; usually empty
	Findings     []string  `json:"findings,omitempty"` // warnings for users about what was delivered
	Overlaps     []string  `json:"overlaps,omitempty"` // warnings for users about objects that other deployments place on the cluster, too; each delivery there finds them again, so an older version may lose them
	At           time.Time `json:"at"`                 // when Desired, Step or the outcome last changed; of an Applied pair, since when it is Applied

	Change  Change `json:"change,omitempty"`  // decides which hooks run on the way to Desired; empty once the app is removed
	From    Digest `json:"from,omitempty"`    // bundle that ran before the change; empty: none
	Step    int    `json:"step,omitempty"`    // current step of the change, from 0
	Sent    bool   `json:"sent,omitempty"`    // the step was delivered; the report that the next step needs is missing
	Halted  bool   `json:"halted,omitempty"`  // a hook failed: only another revision continues
	Blocked string `json:"blocked,omitempty"` // why no step may be delivered now: text for users, or pair.Stopped; empty: a step may be delivered

	Edit *ExternalEdit `json:"edit,omitempty"` // the last one since the last revision; nil: none

	Waiting string `json:"waiting,omitempty"` // the server that a delivery has waited for, and since when; text for users

	Outcome *Outcome `json:"outcome,omitempty"` // of the objects, if the last attempt failed; nil: the error concerns all

	Shard string `json:"shard,omitempty"` // of rsync that owns it; only a move of the cluster changes that; empty: unknown
}

// Outcome is what became of the objects in an attempt that failed: the API server refused
// some. It accepted the others, or did not get them if the attempt ended early.
type Outcome struct {
	Refused  []Refusal     `json:"refused,omitempty"`
	Ended    bool          `json:"ended,omitempty"`    // the attempt ended early: only Accepted were accepted
	Accepted []manifest.ID `json:"accepted,omitempty"` // if Ended
}

// Refusal is why an object was refused.
type Refusal struct {
	manifest.ID
	Reason string `json:"reason"`
}

// ExternalEdit is a change of the files of a pair in Git that rsync did not make.
type ExternalEdit struct {
	Commit string    `json:"commit"`
	Author string    `json:"author,omitempty"`
	Paths  []string  `json:"paths"`            // some of them
	More   int       `json:"more,omitempty"`   // number of other paths
	At     time.Time `json:"at"`               // when it was found
	Held   bool      `json:"held,omitempty"`   // it stays until an operator decides
	Kept   bool      `json:"kept,omitempty"`   // an operator decided that it stays until the next delivery
	Undone string    `json:"undone,omitempty"` // commit that overwrote it
}

// Phase is the state of a pair.
type Phase string

// The phases of a pair, in upstream's words where it has one.
const (
	Pending  Phase = "Pending"  // desired, not proved yet
	Applied  Phase = "Applied"  // proved, by the API server's answer or the commit on the branch
	Retrying Phase = "Retrying" // failed, retried at NextRetry
	Failed   Phase = "Failed"   // refused permanently, or retried often; still retried, at long intervals
	Deleting Phase = "Deleting" // being removed
)

// Change is how a pair's desired bundle changes the app, in Helm's words.
type Change string

// The changes. Pairs that were written by versions without steps have the empty one.
const (
	Install  Change = "install"
	Upgrade  Change = "upgrade"
	RollBack Change = "rollback"
	Remove   Change = "delete"
)
