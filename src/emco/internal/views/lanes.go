package views

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/gitstate"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/shards"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/views/tally"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
	"github.com/emco-orchestrator/emco/src/git/budget"
)

// Branches reads the records of the branches that were written.
type Branches interface {
	// Branches yields all records, in no order.
	Branches(ctx context.Context) iter.Seq2[gitstate.Branch, error]
}

// LaneWriters reads what this process knows of the branches that it writes.
type LaneWriters interface {
	// Lanes returns the branches that were written since the start, or that jobs wait for.
	Lanes() []batch.Lane
}

// LaneUsers knows the clusters whose files this process writes.
type LaneUsers interface {
	// OnBranch returns how many clusters are on a branch, and the sum of what numbers has for these.
	OnBranch(url, branch string, numbers map[v2.ClusterKey]int) (clusters, sum int)
}

// LaneOwners reads which process writes which branches.
type LaneOwners interface {
	// ShardOwners returns the names of the processes that own the shards of a group, by number.
	ShardOwners(ctx context.Context, g shards.Group) (map[int]string, error)
}

// LaneBudgets knows what is left of the limits of Git servers.
type LaneBudgets interface {
	Remaining(r git.Repo) (pushes, calls budget.Standing)
}

// Lanes serves the view of the Git branches, of the process that writes them.
type Lanes struct {
	Branches Branches
	Writers  LaneWriters
	Logs     BranchLogs
	Users    LaneUsers
	Owners   LaneOwners
	Budgets  LaneBudgets
	Edited   func() map[v2.ClusterKey]int // clusters with files that others have changed, and of how many pairs
	Now      func() time.Time
}

// laneOrder lists the states of lanes, the worst first.
var laneOrder = []string{v2.LaneRewritten, v2.LaneRefused, v2.LaneResting, v2.LaneWaiting, v2.LaneDecided, v2.LaneOK}

// list answers with a page of branches, the worst first.
func (l Lanes) list(w http.ResponseWriter, r *http.Request) error {
	values := r.URL.Query()
	states := values["state"]
	delete(values, "state") // of lanes, not of clusters
	q, err := readPage(values, []string{"-worst", "name"})
	if err == nil {
		err = checkLaneStates(states)
	}
	if err != nil {
		return err
	}
	lanes, repos, err := l.all(r.Context())
	if err != nil {
		return err
	}
	owners, err := l.Owners.ShardOwners(r.Context(), route.Group)
	if err != nil {
		return err
	}
	var rows []pageRow
	items := map[string]v2.LaneView{}
	for _, item := range lanes {
		name := item.URL + " " + item.Branch
		if len(states) > 0 && !slices.Contains(states, item.State) || !q.admits(tally.None, name) {
			continue
		}
		key := name
		if q.sort == "-worst" {
			key = string([]byte{'0' + byte(slices.Index(laneOrder, item.State)), ' '}) + name
		}
		rows, items[name] = append(rows, pageRow{key, name}), item
	}
	out := v2.LaneViews{Total: len(rows), Items: []v2.LaneView{}}
	rows, out.Continue = q.cut(rows)
	edited := l.Edited()
	for _, row := range rows {
		item := items[row.name]
		item.Writer = owners[route.Branch{URL: item.URL, Name: item.Branch}.Shard()]
		item.Clusters, item.Foreign = l.Users.OnBranch(item.URL, item.Branch, edited)
		if repo, reached := repos[item.Lane]; reached {
			item.Budget = l.budget(repo)
		}
		out.Items = append(out.Items, item)
	}
	return answer(w, r, &out, func(o *v2.LaneViews) { o.At = l.Now().UTC() })
}

func checkLaneStates(states []string) error {
	for _, s := range states {
		if !slices.Contains(laneOrder, s) {
			return errs.New(errs.Invalid, "Invalid query state: give one of "+strings.Join(laneOrder, ", "))
		}
	}
	return nil
}

// budget returns what is left of the limits of a repository's server; nil without limits.
func (l Lanes) budget(repo git.Repo) *v2.LaneBudget {
	left := func(s budget.Standing) *v2.BudgetLeft {
		if s == (budget.Standing{}) {
			return nil
		}
		out := &v2.BudgetLeft{Left: s.Remaining, Of: s.Of}
		if !s.Full.IsZero() {
			out.Resets = s.Full.UTC().Truncate(time.Second)
		}
		return out
	}
	pushes, calls := l.Budgets.Remaining(repo)
	out := v2.LaneBudget{Pushes: left(pushes), API: left(calls)}
	if out == (v2.LaneBudget{}) {
		return nil
	}
	return &out
}

// all returns the branches that were ever written, and those that are written for the first time. It also returns
// the repositories of those that this process has written, or will.
func (l Lanes) all(ctx context.Context) (map[string]v2.LaneView, map[string]git.Repo, error) {
	out, repos := map[string]v2.LaneView{}, map[string]git.Repo{}
	for b, err := range l.Branches.Branches(ctx) {
		if err != nil {
			return nil, nil, err
		}
		item := newLane(b.URL, b.Name)
		item.Commit = b.Commit
		if b.Adopted > b.Rewritten || b.Decided > b.CarriedOut {
			item.State, item.Why = v2.LaneDecided, "an operator has decided, and the branch is not written yet"
		}
		out[item.Lane] = item
	}
	for _, known := range l.Writers.Lanes() {
		item, written := out[v2.LaneID(known.URL, known.Branch)]
		if !written {
			item = newLane(known.URL, known.Branch)
		}
		out[item.Lane], repos[item.Lane] = withLane(item, known), known.Repo
	}
	return out, repos, nil
}

// laneMark returns a text that changes with the states, the queues and the last commits of branches.
func laneMark(lanes []batch.Lane) string {
	all := make([]string, len(lanes))
	for i, known := range lanes {
		state := v2.LaneOK
		if known.Err != nil {
			state = laneState(known)
		}
		all[i] = fmt.Sprintln(v2.LaneID(known.URL, known.Branch), state, known.Queued, known.Commit)
	}
	slices.Sort(all)
	sum := sha256.Sum256([]byte(strings.Join(all, "")))
	return hex.EncodeToString(sum[:])
}

func newLane(url, branch string) v2.LaneView {
	return v2.LaneView{Lane: v2.LaneID(url, branch), URL: url, Branch: branch, State: v2.LaneOK}
}

// withLane adds what the writer knows of a branch.
func withLane(item v2.LaneView, known batch.Lane) v2.LaneView {
	item.Queued, item.OldestQueued, item.LastPush, item.Since = known.Queued, known.Oldest.UTC(), known.Pushed.UTC(), known.Since.UTC()
	item.Commit = cmp.Or(item.Commit, string(known.Commit))
	if known.Err == nil {
		return item
	}
	item.State, item.Why = laneState(known), known.Err.Error()
	if !known.CoolingUntil.IsZero() {
		item.NextTry = known.CoolingUntil.UTC()
	}
	return item
}

// laneState returns the state of a branch whose last batch failed.
func laneState(known batch.Lane) string {
	if _, rewritten := errors.AsType[*batch.RewrittenError](known.Err); rewritten {
		return v2.LaneRewritten
	}
	if _, proposed := errors.AsType[*batch.ProposedError](known.Err); proposed {
		return v2.LaneWaiting
	}
	if !known.CoolingUntil.IsZero() {
		return v2.LaneResting
	}
	return v2.LaneRefused
}
