package views

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
	"github.com/emco-orchestrator/emco/src/emco/internal/views/branchlog"
	"github.com/emco-orchestrator/emco/src/emco/internal/views/tally"
)

// maxCarried bounds the revisions that are shown of one commit.
const maxCarried = 5

// BranchLogs reads the newest commits of branches.
type BranchLogs interface {
	Read(ctx context.Context, url, branch string) (branchlog.Log, error)
}

// readsBranches is what callers need who may see all commits of a branch, also those of others.
var readsBranches = authz.Permission{Verb: authz.List, Type: "branches", Confined: true}

// commits answers with a page of the newest commits of a branch.
func (v *Views) commits(w http.ResponseWriter, r *http.Request) error {
	q, err := readPage(r.URL.Query(), []string{"-time"})
	if err == nil && q.states != nil {
		err = errs.New(errs.Invalid, "Invalid query state: commits have none")
	}
	if err != nil {
		return err
	}
	ctx, id := r.Context(), mux.Vars(r)["lane"]
	all, _, err := v.Lanes.all(ctx)
	if err != nil {
		return err
	}
	lane, known := all[id]
	if !known {
		return noLane(id)
	}
	log, err := v.Lanes.Logs.Read(ctx, lane.URL, lane.Branch)
	if err != nil {
		return err
	}
	s := v.commitSight(ctx)
	out := v2.CommitViews{URL: lane.URL, Branch: lane.Branch, Older: log.Older, Items: []v2.CommitView{}}
	if log.Err != nil {
		out.Why = log.Err.Error()
	}
	if err := fillCommits(&out, q, log, s); err != nil {
		return err
	}
	if !s.whole && !slices.ContainsFunc(log.Commits, s.sees) {
		return noLane(id)
	}
	return answer(w, r, &out, func(o *v2.CommitViews) { o.At, o.ReadAt = v.Now().UTC(), log.At.UTC() })
}

// noLane is also the answer to callers who may see no commit of a branch.
func noLane(id string) error {
	return errs.New(errs.NotFound, "Branch not found: "+id+"; GET /v2/views/git lists the branches")
}

// fillCommits adds the commits of a page.
func fillCommits(out *v2.CommitViews, q pageQuery, log branchlog.Log, s commitSight) error {
	first := 0
	if q.after != "" {
		i := slices.IndexFunc(log.Commits, func(c branchlog.Commit) bool { return string(c.ID) == q.after })
		if i < 0 {
			return errs.New(errs.Invalid, "Invalid query continue: the page before ended with a commit that is not among the newest of the branch any longer; begin again without continue")
		}
		first = i + 1
	}
	last := ""
	for i, c := range log.Commits {
		row, seen := s.row(c)
		if !seen || !q.admits(tally.None, textOf(row)) {
			continue
		}
		out.Total++
		switch {
		case i < first:
		case len(out.Items) < q.limit:
			row.More = max(0, len(row.Groups)-maxCarried)
			row.Groups = row.Groups[:min(len(row.Groups), maxCarried)]
			out.Items, last = append(out.Items, row), row.Commit
		default:
			out.Continue = q.token(last)
		}
	}
	return nil
}

// textOf returns what a search looks at.
func textOf(c v2.CommitView) string {
	text := []string{c.Commit, c.Author, c.Title}
	for _, g := range c.Groups {
		text = append(text, g.Path)
	}
	return strings.Join(text, " ")
}

// commitSight is what the caller of a request may see of commits.
type commitSight struct {
	*callerAccess
	whole    bool // it may read branches as such, with commits that carry no deployment
	subjects map[v2.DeploymentID]string
}

func (v *Views) commitSight(ctx context.Context) commitSight {
	return commitSight{sightOf(ctx), authz.From(ctx).May(readsBranches.Verb, readsBranches.Type, ""), v.documents()}
}

// sees reports whether the caller may know of a commit: it carries a deployment that the caller may read, or
// none and the caller may read branches.
func (s commitSight) sees(c branchlog.Commit) bool {
	if len(c.Carried) == 0 {
		return s.whole
	}
	for _, one := range c.Carried {
		if s.path(s.subjects[one.Deployment]) {
			return true
		}
	}
	return false
}

// row returns what the caller may see of a commit, with all revisions; false if it is nothing. The title and the
// number of clusters are about all deployments of the commit.
func (s commitSight) row(c branchlog.Commit) (out v2.CommitView, seen bool) {
	if !s.sees(c) {
		return out, false
	}
	out = v2.CommitView{Commit: string(c.ID), Time: c.When, Author: c.Author, Title: c.Title, Ours: c.Ours, Signed: c.Signed, Clusters: c.Clusters}
	for _, one := range c.Carried {
		path := s.subjects[one.Deployment]
		if !s.path(path) {
			out.Title, out.Clusters = "", 0
			continue
		}
		out.Groups = append(out.Groups, v2.CarriedView{Path: path, Deployment: string(one.Deployment), Revision: one.Revision})
	}
	return out, true
}

const (
	minHash   = 4    // hexadecimal digits of a commit that a search needs, as Git does
	maxLooked = 2000 // records of commits that one search looks at
)

// commitHits returns the commits that carried revisions which the caller may read, by the beginning of their names.
func (v *Views) commitHits(ctx context.Context, text string) (out []v2.SearchHit, err error) {
	if len(text) < minHash || len(text) > 64 || strings.Trim(text, "0123456789abcdef") != "" {
		return nil, nil
	}
	heads, sees, looked := v.Tally.Heads(), sightOf(ctx), 0
	for c, err := range v.Commits.FindCommits(ctx, text) {
		if err != nil {
			return nil, err
		}
		if looked++; looked > maxLooked || len(out) == maxKindHits {
			break
		}
		if head, known := heads[c.UID]; known && sees.path(head.Document) {
			out = append(out, commitHit(c, head.Document))
		}
	}
	return out, nil
}

func commitHit(c appcontext.FoundCommit, subject string) v2.SearchHit {
	href := "/v2/" + subject
	if isGroup(subject) {
		href += fmt.Sprintf("/revisions/%d", c.Rev)
	}
	clusters := fmt.Sprintf("%d clusters", c.Clusters)
	if c.Clusters == 1 {
		clusters = "1 cluster"
	}
	return v2.SearchHit{
		Kind: "commit", Title: c.Commit, Href: href,
		Sub: fmt.Sprintf("%s, %s revision %d, %s", c.Branch, v2.ShortName(subject), c.Rev, clusters),
	}
}
