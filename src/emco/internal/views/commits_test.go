package views

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/gitstate"
	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
	"github.com/emco-orchestrator/emco/src/emco/internal/trailers"
	"github.com/emco-orchestrator/emco/src/emco/internal/views/branchlog"
	"github.com/emco-orchestrator/emco/src/git"
)

const fleetURL = "https://git/fleet.git"

// branchLog answers with one log for every branch.
type branchLog struct {
	branchlog.Log
	err   error
	asked []string
}

func (l *branchLog) Read(_ context.Context, url, branch string) (branchlog.Log, error) {
	l.asked = append(l.asked, url+" "+branch)
	return l.Log, l.err
}

// writing is a world that writes the branch main, with its log.
func writing(t *testing.T, log *branchLog) *world {
	t.Helper()
	w := newWorld(t)
	b := branches{records: []gitstate.Branch{{URL: fleetURL, Name: "main", Commit: "c0ffee"}}}
	w.views.Lanes = b.view(w)
	w.views.Lanes.Logs = log
	w.mount()
	w.tally.Advanced(1)
	return w
}

// as has the requests of a world come from a caller with roles at places.
func (w *world) as(roles map[string][]authz.Rule, bindings ...authz.Binding) {
	open, may := w.api, authz.NewAuthority(authz.New(roles, bindings), "user:ann", nil, noon)
	w.api = http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		open.ServeHTTP(out, r.WithContext(authz.With(r.Context(), may)))
	})
}

func bound(role, place string) authz.Binding {
	return authz.Binding{Name: role, Role: role, Place: place, Subjects: []string{"user:ann"}}
}

// carrying is a commit of EMCO with revisions.
func carrying(id, title string, carried ...trailers.Carried) branchlog.Commit {
	return branchlog.Commit{ID: git.Hash(id), When: noon, Author: git.DefaultAuthor, Title: title, Ours: true, Carried: carried, Clusters: 2 * len(carried)}
}

func TestCommitsOfABranchNameWhatTheyCarried(t *testing.T) {
	t.Parallel()
	log := &branchLog{}
	w := writing(t, log)
	prod := w.group("prod").Deployment()
	log.Log = branchlog.Log{At: noon.Add(-time.Second), Older: true, Err: errs.New(errs.Unavailable, "502"), Commits: []branchlog.Commit{
		carrying("c5", "Update 7 deployments on 14 clusters", trailers.Carried{Deployment: prod, Revision: 3}, trailers.Carried{Deployment: "901"}, trailers.Carried{Deployment: "902", Revision: 1},
			trailers.Carried{Deployment: "903", Revision: 1}, trailers.Carried{Deployment: "904", Revision: 1}, trailers.Carried{Deployment: "905", Revision: 1}, trailers.Carried{Deployment: "906", Revision: 1}),
		{ID: "c4", When: noon, Author: "Bob <bob@example.org>", Title: "fix replicas", Signed: true},
		carrying("c3", "Update shop/till/v1/prod on 2 clusters", trailers.Carried{Deployment: prod, Revision: 2}),
		carrying("c2", "Update shop/till/v1/prod on 2 clusters", trailers.Carried{Deployment: prod, Revision: 1}),
	}}
	path := "/git/" + v2.LaneID(fleetURL, "main") + "/commits"
	page := read[v2.CommitViews](w, path)
	if page.Total != 4 || len(page.Items) != 4 || !page.Older || page.Why != "502" || !page.ReadAt.Equal(log.At) || page.URL != fleetURL || page.Branch != "main" || page.Continue != "" {
		t.Errorf("the page: %+v", page)
	}
	if c := page.Items[0]; c.Commit != "c5" || !c.Ours || c.Clusters != 14 || len(c.Groups) != maxCarried || c.More != 2 || c.Groups[0] != (v2.CarriedView{Path: groupPath("prod"), Deployment: string(prod), Revision: 3}) || c.Groups[1] != (v2.CarriedView{Deployment: "901"}) {
		t.Errorf("a commit with seven deployments: %+v", c)
	}
	if c := page.Items[1]; c.Ours || !c.Signed || c.Title != "fix replicas" || len(c.Groups) > 0 || !c.Time.Equal(noon) {
		t.Errorf("a commit of others: %+v", c)
	}
	var ids []string
	next := read[v2.CommitViews](w, path+"?limit=3")
	for n := 0; ; n++ {
		for _, c := range next.Items {
			ids = append(ids, c.Commit)
		}
		if next.Continue == "" || n > 9 {
			break
		}
		next = read[v2.CommitViews](w, path+"?limit=3&continue="+next.Continue)
	}
	if fmt.Sprint(ids) != "[c5 c4 c3 c2]" || next.Total != 4 {
		t.Errorf("pages: %v of %d", ids, next.Total)
	}
	for q, want := range map[string]int{"TILL": 3, "bob": 1, "c3": 1, "502": 0} {
		if got := read[v2.CommitViews](w, path+"?q="+q); got.Total != want {
			t.Errorf("with %s: %d, want %d", q, got.Total, want)
		}
	}

	first := read[v2.CommitViews](w, path+"?limit=1")
	log.Commits = log.Commits[1:]
	if got := w.get(path + "?limit=1&continue=" + first.Continue); got.Code != http.StatusBadRequest || !strings.Contains(got.Body.String(), "begin again") {
		t.Errorf("a page after a commit that is gone: %d %s", got.Code, got.Body)
	}
	for _, query := range []string{"?state=ready", "?sort=name", "?limit=201", "?branch=main"} {
		if got := w.get(path + query); got.Code != http.StatusBadRequest {
			t.Errorf("%s: %d %s", query, got.Code, got.Body)
		}
	}
	asked := len(log.asked)
	if got := w.get("/git/0123456789ab/commits"); got.Code != http.StatusNotFound || len(log.asked) != asked {
		t.Errorf("a branch that is not written: %d %s, asked for %v", got.Code, got.Body, log.asked[asked:])
	}
	log.err = errs.Throttle("read", fleetURL, time.Minute, fmt.Errorf("used up"))
	if got := w.get(path); got.Code != http.StatusTooManyRequests || got.Header().Get("Retry-After") == "" {
		t.Errorf("a budget that is used up: %d %v %s", got.Code, got.Header(), got.Body)
	}
}

func TestCommitsAreUnchangedUntilTheBranchIs(t *testing.T) {
	t.Parallel()
	log := &branchLog{Log: branchlog.Log{At: noon, Commits: []branchlog.Commit{{ID: "c1", Title: "by hand"}}}}
	w := writing(t, log)
	path := "/git/" + v2.LaneID(fleetURL, "main") + "/commits"
	tag := w.get(path).Header().Get("ETag")
	again := func() int {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v2/views"+path, nil)
		r.Header.Set("If-None-Match", tag)
		out := httptest.NewRecorder()
		w.api.ServeHTTP(out, r)
		return out.Code
	}
	log.At = noon.Add(time.Minute)
	if got := again(); got != http.StatusNotModified {
		t.Errorf("read again without news: %d", got)
	}
	log.Commits = append(log.Commits, branchlog.Commit{ID: "c0"})
	if got := again(); got != http.StatusOK {
		t.Errorf("with news: %d", got)
	}
}

// Callers see commits of the deployments that they may read, and nothing of others.
func TestCommitsShowOnlyWhatTheCallerMayRead(t *testing.T) {
	t.Parallel()
	const secret = "projects/secret/composite-apps/vault/v1/deployment-intent-groups/prod"
	everywhere := []authz.Rule{{Verbs: []string{authz.Get, authz.List}, Types: []string{"branches"}}}
	for _, tt := range []struct {
		name     string
		bindings []authz.Binding
		want     string // commit title clusters groups
	}{
		{"of the whole platform", []authz.Binding{bound(authz.Viewer, "")}, "[c4 both 4 2, c3 mine 2 1, c2 theirs 2 1, c1 by hand 0 0, c0 gone 2 1]"},
		{"of one project", []authz.Binding{bound(authz.Viewer, "projects/shop")}, "[c4  0 1, c3 mine 2 1]"},
		{"of one project, who may list branches", []authz.Binding{bound(authz.Viewer, "projects/shop"), bound("brancher", "")}, "[c4  0 1, c3 mine 2 1, c1 by hand 0 0]"},
		{"of another project", []authz.Binding{bound(authz.Viewer, "projects/other")}, "404"},
		{"without a role", nil, "404"}, // the access layer refuses it before
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			log := &branchLog{}
			w := writing(t, log)
			mine, theirs := trailers.Carried{Deployment: w.group("prod").Deployment(), Revision: 1}, trailers.Carried{Deployment: w.deployment(secret).Deployment(), Revision: 1}
			log.Commits = []branchlog.Commit{
				carrying("c4", "both", mine, theirs), carrying("c3", "mine", mine), carrying("c2", "theirs", theirs),
				{ID: "c1", Title: "by hand"},
				carrying("c0", "gone", trailers.Carried{Deployment: "999", Revision: 1}),
			}
			w.as(map[string][]authz.Rule{"brancher": everywhere}, tt.bindings...)
			path := "/git/" + v2.LaneID(fleetURL, "main") + "/commits"
			if code := w.get(path).Code; code != http.StatusOK {
				if fmt.Sprint(code) != tt.want {
					t.Errorf("answered %d, want %s", code, tt.want)
				}
				return
			}
			page, got := read[v2.CommitViews](w, path), []string{}
			for _, c := range page.Items {
				got = append(got, fmt.Sprint(c.Commit, " ", c.Title, " ", c.Clusters, " ", len(c.Groups)+c.More))
			}
			if text := "[" + strings.Join(got, ", ") + "]"; text != tt.want || page.Total != len(got) {
				t.Errorf("got %s of %d, want %s", text, page.Total, tt.want)
			}
			hidden := !strings.Contains(tt.want, "theirs")
			if body := w.get(path).Body.String(); strings.Contains(body, "vault") == hidden {
				t.Errorf("the answer names what is hidden: %s", body)
			}
			if found := read[v2.CommitViews](w, path+"?q=vault"); hidden && found.Total > 0 {
				t.Errorf("a search finds what is hidden: %+v", found)
			}
		})
	}
}

func TestASearchFindsCommitsByTheirBeginning(t *testing.T) {
	t.Parallel()
	w, prod := shop(t)
	secret := w.deployment("projects/secret/composite-apps/vault/v1/deployment-intent-groups/prod")
	cloud := w.deployment("projects/shop/logical-clouds/stores")
	commit := func(uid appcontext.HeadID, rev int64, id string, clusters int) {
		w.found = append(w.found, appcontext.FoundCommit{UID: uid, Rev: rev, RevisionCommit: appcontext.RevisionCommit{Repository: fleetURL, Branch: "main", Commit: id, Clusters: clusters}})
		slices.SortFunc(w.found, func(a, b appcontext.FoundCommit) int { return strings.Compare(a.Commit, b.Commit) })
	}
	commit(secret, 1, "abd1efc0", 1)
	commit(prod, 2, "abd1efc1", 280)
	commit(cloud, 1, "abd1efc2", 1)
	commit("999", 1, "abd1efc3", 1) // its head is gone
	hits := func(q string) (out []string) {
		for _, h := range read[v2.SearchView](w, "/search?q="+q).Hits {
			out = append(out, h.Kind+" "+h.Title+": "+h.Sub+" "+h.Href)
		}
		return out
	}
	want := []string{
		"commit abd1efc0: main, secret/vault/v1/prod revision 1, 1 cluster /v2/projects/secret/composite-apps/vault/v1/deployment-intent-groups/prod/revisions/1",
		"commit abd1efc1: main, shop/till/v1/prod revision 2, 280 clusters /v2/" + groupPath("prod") + "/revisions/2",
		"commit abd1efc2: main, shop/stores revision 1, 1 cluster /v2/projects/shop/logical-clouds/stores",
	}
	if got := hits("ABD1"); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, q := range []string{"abd", "xbd1", "abd1efc9"} {
		if got := hits(q); len(got) > 0 {
			t.Errorf("%s finds %q", q, got)
		}
	}
	w.as(nil, bound(authz.Viewer, "projects/shop"))
	if got := hits("abd1efc"); !slices.Equal(got, want[1:]) {
		t.Errorf("a viewer of one project finds %q, want %q", got, want[1:])
	}
	for i := range 3 * maxKindHits {
		commit(prod, 2, fmt.Sprintf("ffff%02d", i), 1)
	}
	if got := hits("ffff"); len(got) != maxKindHits {
		t.Errorf("%d hits, want %d", len(got), maxKindHits)
	}
}
