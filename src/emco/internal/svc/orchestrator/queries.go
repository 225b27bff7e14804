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
	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
	"github.com/emco-orchestrator/emco/src/emco/internal/eventlog"
	"github.com/emco-orchestrator/emco/src/emco/internal/lifecycle"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement"
	"github.com/emco-orchestrator/emco/src/emco/internal/statusview"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/orchestrator/plan"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/orchestrator/quota"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// Queries answers what is known of deployment intent groups: status, events, revisions, placement, and what their
// projects use.
type Queries struct {
	groupDocs
	contexts *appcontext.Store
	planner  plan.Planner
	executor lifecycle.Executor // loads histories
	events   *eventlog.Log
	quotas   quota.Checker
	reader   *statusview.Reader
}

// mount adds the routes.
func (g Queries) mount(r *mux.Router) {
	need := authz.Permission{Verb: authz.Get, Type: "deployment-intent-groups"}
	for path, h := range map[string]web.HandlerFunc{
		"/status": g.status, "/revisions": g.listRevisions, "/revisions/{revision}": g.getRevision, "/events": g.listEvents, "/placement": g.placement,
	} {
		web.Handle(r, http.MethodGet, groupPath+path, need, h)
	}
	web.Handle(r, http.MethodGet, "/v2/projects/{project}/usage", need, g.getUsage)
}

// status answers a status query.
func (g Queries) status(w http.ResponseWriter, r *http.Request) error {
	doc, err := g.group(r)
	if err != nil {
		return err
	}
	q, err := statusview.ParseGroup(r.URL.Query())
	if err != nil {
		return err
	}
	return g.reader.Serve(w, r, q, g.feed(doc, q))
}

// Status returns a feed of a group's status; NotFound if the group does not exist.
func (g Queries) Status(ctx context.Context, who v2.StatusSubject, q statusview.Query) (statusview.Feed, error) {
	doc, err := g.groupAt(ctx, store.Key(who.Group().StoreKey()))
	return g.feed(doc, q), err
}

// feed reads the document for each answer: it ends with NotFound when the document is deleted.
func (g Queries) feed(doc store.Doc, q statusview.Query) statusview.Feed {
	return statusview.Feed{Doc: doc, Read: func(ctx context.Context) (statusview.Answer, error) {
		doc, err := g.groupAt(ctx, doc.Key)
		if err != nil {
			return statusview.Answer{}, err
		}
		who, err := subjectOf(doc)
		if err != nil {
			return statusview.Answer{}, err
		}
		apps := func(ctx context.Context) ([]string, error) { return g.planner.AppNames(ctx, compositeApp(doc)) }
		places := func(ctx context.Context) (*placement.Places, error) { return g.planner.Places(ctx, doc) }
		return g.reader.Group(ctx, statusview.Subject{Doc: doc, Identity: who, Apps: apps, Places: places}, q)
	}}
}

// listEvents answers with the event log of a group.
func (g Queries) listEvents(w http.ResponseWriter, r *http.Request) error {
	doc, err := g.group(r)
	if err != nil {
		return err
	}
	who, err := subjectOf(doc)
	if err != nil {
		return err
	}
	return g.events.Serve(w, r, appcontext.HeadID(doc.UID), who)
}

// listRevisions answers with all revisions of a group, newest first. Of revisions whose
// content is gone, the history still has author, time and reason.
func (g Queries) listRevisions(w http.ResponseWriter, r *http.Request) error {
	doc, err := g.group(r)
	if err == nil {
		err = web.CheckQuery(r.URL.Query(), "limit", "continue")
	}
	if err != nil {
		return err
	}
	page, err := web.ReadPage(r.URL.Query())
	if err != nil {
		return err
	}
	out := v2.RevisionsAnswer{}
	if out.StatusSubject, err = subjectOf(doc); err != nil {
		return err
	}
	all, err := g.revisionsOf(r.Context(), doc)
	if err == nil {
		out.Revisions, out.Continue, err = web.Cut(page, all, func(rev v2.Revision) string { return strconv.FormatInt(rev.Number, 10) })
	}
	if err != nil {
		return err
	}
	return web.JSON(w, http.StatusOK, out)
}

// getRevision answers with one revision.
func (g Queries) getRevision(w http.ResponseWriter, r *http.Request) error {
	doc, err := g.group(r)
	if err == nil {
		err = web.CheckQuery(r.URL.Query())
	}
	if err != nil {
		return err
	}
	number := mux.Vars(r)["revision"]
	all, err := g.revisionsOf(r.Context(), doc)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(rev v2.Revision) bool { return strconv.FormatInt(rev.Number, 10) == number })
	if i < 0 {
		return errs.New(errs.NotFound, "revision "+strconv.Quote(number)+" not found; GET …/revisions lists them")
	}
	return web.JSON(w, http.StatusOK, all[i])
}

// revisionsOf joins the history with the kept revisions and the records of commits.
func (g Queries) revisionsOf(ctx context.Context, doc store.Doc) ([]v2.Revision, error) {
	s, err := g.executor.Load(ctx, doc)
	if err != nil {
		return nil, err
	}
	commits, err := g.contexts.Commits(ctx, appcontext.HeadID(doc.UID))
	if err != nil {
		return nil, err
	}
	kept := map[int64]v2.Revision{}
	for rev, err := range g.contexts.Revisions(ctx, appcontext.HeadID(doc.UID)) {
		if err != nil {
			return nil, err
		}
		shown, err := g.keptRevision(ctx, s.Head, rev)
		if err != nil {
			if _, gone := g.contexts.Revision(ctx, appcontext.HeadID(doc.UID), rev.Number); errs.Is(gone, errs.NotFound) {
				continue // a sweep removed it meanwhile
			}
			return nil, err
		}
		kept[rev.Number] = shown
	}
	out := []v2.Revision{}
	for _, a := range slices.Backward(s.History) {
		if a.Revision == 0 || a.State != appcontext.Instantiated {
			continue
		}
		rev, ok := kept[a.Revision]
		if !ok {
			kind, _, _ := strings.Cut(a.Ask, " ")
			rev = v2.Revision{Number: a.Revision, Instance: a.Instance, Kind: kind, Author: a.Actor, Reason: a.Reason, Time: a.Time}
		}
		for _, commit := range commits[a.Revision] {
			rev.Commits = append(rev.Commits, v2.RevisionCommit(commit))
		}
		out = append(out, rev)
	}
	return out, nil
}

// keptRevision returns a revision whose content is kept, with its apps.
func (g Queries) keptRevision(ctx context.Context, head appcontext.Head, rev appcontext.Revision) (v2.Revision, error) {
	out := v2.Revision{
		Number: rev.Number, Instance: rev.Instance, Kind: rev.Kind, From: rev.From, Author: rev.Author, Reason: rev.Reason, Time: rev.At,
		Current: head.Rev == rev.Number && !head.Gone, Kept: isRestorable(head, rev),
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

// getUsage answers with what a project uses of its quotas.
func (g Queries) getUsage(w http.ResponseWriter, r *http.Request) error {
	if err := web.CheckQuery(r.URL.Query()); err != nil {
		return err
	}
	v, err := web.Vars(r)
	if err != nil {
		return err
	}
	project := v["project"]
	if _, err := g.db.Get(r.Context(), store.Key(v2.ProjectStoreKey(project))); err != nil {
		return store.NotFoundAs(err, "Project not found")
	}
	out, err := g.quotas.Report(r.Context(), project)
	if err != nil {
		return err
	}
	return web.JSON(w, http.StatusOK, out)
}
