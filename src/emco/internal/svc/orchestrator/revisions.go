package orchestrator

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// groupNames are the names in the key of a deployment intent group.
type groupNames struct{ project, app, version, group string }

func groupNamesOf(group store.Key) groupNames {
	p := strings.Split(string(group), "/") // projects/P/composite-apps/C/V/deployment-intent-groups/D
	return groupNames{project: p[1], app: p[3], version: p[4], group: p[6]}
}

// listRevisions answers with all revisions of a group, newest first. Of those whose content
// is not kept any more, the history still knows who asked for them, when and why.
func (g *Groups) listRevisions(w http.ResponseWriter, r *http.Request) error {
	doc, err := g.group(r)
	if err != nil {
		return err
	}
	status, err := g.identity(doc)
	if err != nil {
		return err
	}
	out := v2.RevisionsAnswer{Identity: status.Identity}
	if out.Revisions, err = g.allRevisions(r.Context(), doc); err != nil {
		return err
	}
	return web.JSON(w, http.StatusOK, out)
}

// getRevision answers with one of them.
func (g *Groups) getRevision(w http.ResponseWriter, r *http.Request) error {
	doc, err := g.group(r)
	if err != nil {
		return err
	}
	asked := mux.Vars(r)["revision"]
	all, err := g.allRevisions(r.Context(), doc)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(rev v2.Revision) bool { return strconv.FormatInt(rev.Number, 10) == asked })
	if i < 0 {
		return errs.New(errs.NotFound, "revision "+strconv.Quote(asked)+" not found; GET …/revisions lists them")
	}
	return web.JSON(w, http.StatusOK, all[i])
}

// allRevisions puts together what the history, the revisions that are kept and the
// records of commits say.
func (g *Groups) allRevisions(ctx context.Context, doc store.Doc) ([]v2.Revision, error) {
	c, err := g.executor.Load(ctx, doc)
	if err != nil {
		return nil, err
	}
	commits, err := g.contexts.Commits(ctx, doc.UID)
	if err != nil {
		return nil, err
	}
	kept := map[int64]v2.Revision{}
	for rev, err := range g.contexts.Revisions(ctx, doc.UID) {
		if err != nil {
			return nil, err
		}
		shown, err := g.revisionStatus(ctx, c.Head, rev)
		if err != nil && !g.wasSwept(ctx, doc.UID, rev.Number) {
			return nil, err
		}
		if err == nil {
			kept[rev.Number] = shown
		}
	}
	out := []v2.Revision{}
	for _, a := range slices.Backward(c.Actions) {
		if a.Revision == 0 || a.State != appcontext.Instantiated {
			continue
		}
		rev, ok := kept[a.Revision]
		if !ok {
			rev = v2.Revision{Number: a.Revision, Instance: a.Instance, Kind: kindOf(a), Author: a.Actor, Reason: a.Reason, Time: a.Time}
		}
		for _, commit := range commits[a.Revision] {
			rev.Commits = append(rev.Commits, v2.RevisionCommit(commit))
		}
		out = append(out, rev)
	}
	return out, nil
}

// kindOf is the event that an action came of.
func kindOf(a appcontext.Action) string {
	event, _, _ := strings.Cut(a.Ask, " ")
	return event
}

// revisionStatus shows a revision that is kept, with its apps.
func (g *Groups) revisionStatus(ctx context.Context, head appcontext.Head, rev appcontext.Revision) (v2.Revision, error) {
	out := v2.Revision{
		Number: rev.Number, Instance: rev.Instance, Kind: rev.Kind, From: rev.From, Author: rev.Author, Reason: rev.Reason, Time: rev.At,
		Current: head.Rev == rev.Number && !head.Gone, Kept: restorable(head, rev),
	}
	clusters := map[string]int{}
	placements, err := g.contexts.Placements(ctx, head.UID, rev.Number)
	if err != nil {
		return out, err
	}
	for _, p := range placements {
		for app := range p.Apps {
			clusters[app]++
		}
	}
	for _, a := range rev.Apps {
		app := v2.RevisionApp{Name: a.Name, Clusters: clusters[a.Name], Failed: a.Failure != nil}
		for _, d := range a.Bundles {
			app.Bundles = append(app.Bundles, string(d))
		}
		out.Apps = append(out.Apps, app)
	}
	return out, nil
}

// wasSwept reports whether a revision has been removed meanwhile.
func (g *Groups) wasSwept(ctx context.Context, uid string, n int64) bool {
	_, err := g.contexts.Revision(ctx, uid, n)
	return errs.Is(err, errs.NotFound)
}

// listEvents answers with what happened to a group.
func (g *Groups) listEvents(w http.ResponseWriter, r *http.Request) error {
	doc, err := g.group(r)
	if err != nil {
		return err
	}
	status, err := g.identity(doc)
	if err != nil {
		return err
	}
	return g.events.Serve(w, r, doc.UID, status.Identity)
}
