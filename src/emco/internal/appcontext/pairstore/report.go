package pairstore

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// Report is what a cluster reports on one app. The receiver sets Ready and Since. A new member also
// belongs in sharedReport, sharedText, parseShared, intake.digestOf, pairs.digestOf, and mirror.Report
// with compact and repeats; tests find a forgotten one (F21).
type Report struct {
	Key       Key              `json:"-"`
	Resources []ResourceStatus `json:"resources"`
	Truncated int              `json:"truncated,omitempty"` // resources left out, because a value has at most 256 KiB
	At        time.Time        `json:"at"`                  // the zero time if the report is stored with others: the agent's record has its last time
	Seq       uint64           `json:"seq,omitempty"`       // of the agent's report, SharedSeq if it is stored with others; 0 from a cluster that is watched directly
	Commit    string           `json:"commit,omitempty"`    // that the cluster's reconciler had applied, if the agent knows it
	Proof     Proof            `json:"proof,omitzero"`      // of objects that the agent may not read
	Ready     bool             `json:"ready,omitempty"`     // set by rsync's pairs.Store: all objects of the pair's desired bundle are Current, with the desired content
	Since     time.Time        `json:"since,omitzero"`      // when Ready last changed; a moment later if the report is stored with others
}

// Proof is the fact that one commit contains another one. Histories grow, and reading far back is bounded, so what was found
// once is kept. A program that does not know it drops it: then the history decides again.
type Proof struct {
	By    string `json:"by,omitempty"`    // a commit that the cluster's reconciler had applied
	Holds string `json:"holds,omitempty"` // the commit that delivered the pair
}

// SharedSeq is the sequence of a report that is stored with others.
const SharedSeq = 1

// ResourceStatus is one object's status on a cluster.
type ResourceStatus struct {
	manifest.ID
	Status  string `json:"status"` // kstatus: Current, InProgress, Failed, Terminating, NotFound, Unknown
	Reason  string `json:"reason,omitempty"`
	Content string `json:"content,omitempty"` // the object's manifest.Stamp, which identifies its content
	Extra   bool   `json:"extra,omitempty"`   // it belongs to the app, but is in no bundle, such as a Pod
}

// sharedReport is what equal reports have in common, as etcd holds it.
type sharedReport struct {
	Resources []ResourceStatus `json:"resources"`
	Truncated int              `json:"truncated,omitempty"`
	Commit    string           `json:"commit,omitempty"`
	Ready     bool             `json:"ready,omitempty"`
	Proof     Proof            `json:"proof,omitzero"`
}

// sharedText returns what a report has in common with equal ones, as JSON; false if it is too large
// for a table.
func sharedText(r Report) (string, bool) {
	text, err := json.Marshal(sharedReport{r.Resources, r.Truncated, r.Commit, r.Ready, r.Proof})
	return string(text), err == nil && len(text) <= maxReport
}

// parseShared reads a text of sharedText.
func parseShared(text string) (Report, error) {
	var s sharedReport
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return Report{}, err
	}
	return Report{Resources: s.Resources, Truncated: s.Truncated, Seq: SharedSeq, Commit: s.Commit, Ready: s.Ready, Proof: s.Proof}, nil
}

// cutReport returns a report that fits into one value. It does not change r. Long reasons are
// shortened first, then resources that are Current are left out, then others; Truncated counts
// those that were left out.
func cutReport(r Report) Report {
	key := strings.Join([]string{string(r.Key.Cluster), string(r.Key.Deployment), r.Key.App}, "/")
	if _, err := etcdkv.Encode(key, r); !errs.Is(err, errs.TooLarge) {
		return r
	}
	kept, room := cutReasons(r.Resources), etcdkv.MaxValue-512
	currentLast := func(x ResourceStatus) int {
		if x.Status == "Current" {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(kept, func(a, b ResourceStatus) int { return cmp.Compare(currentLast(a), currentLast(b)) })
	for i, x := range kept {
		text, err := etcdkv.Encode(key, x)
		if room -= len(text) + 1; err != nil || room < 0 {
			r.Truncated += len(kept) - i
			kept = kept[:i]
			break
		}
	}
	r.Resources = kept
	return r
}

// cutReasons returns a copy of list with no reason above 512 bytes.
func cutReasons(list []ResourceStatus) []ResourceStatus {
	const limit = 512
	list = slices.Clone(list)
	for i, x := range list {
		if len(x.Reason) > limit {
			list[i].Reason = strings.ToValidUTF8(x.Reason[:limit], "") + "…"
		}
	}
	return list
}
