package app_test

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/embedded"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/all"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
	"github.com/emco-orchestrator/emco/src/git/gittest"
)

func TestWholeLoop(t *testing.T) {
	t.Parallel()
	s := newStageWith(t, onSQLite)
	s.stop()
	s.options = nil // the program as users run it
	s.start()
	foreign := "clusters/edge+a/platform/settings.yaml"
	_, err := s.bare.CommitExternal(t.Context(), branch, map[string]gittest.File{foreign: {Content: "mine\n"}})
	s.must("commit as another author", err)
	s.fleet("a", "b", "c")
	s.onboard("web", "cache")
	g := s.group("autumn", appPlaces{"web": nil, "cache": {"c"}})
	wantEqual(s, "history", history(g.status()), []string{"Created - 0", "Approved - 0"})

	g.act("instantiate")
	if st := g.status(); st.DeployedStatus != "Instantiating" && st.DeployedStatus != "Instantiated" || st.States.StatusCtxID == "" {
		t.Errorf("right after the answer: deployedStatus %q, statusctxid %q", st.DeployedStatus, st.States.StatusCtxID)
	}
	st := g.becomes("Instantiated")
	id := st.States.StatusCtxID
	wantEqual(s, "history", history(st), []string{"Created - 0", "Approved - 0", "Instantiated first 1"})
	wantEqual(s, "pairs", pairs(st), []string{"cache c Applied", "web a Applied", "web b Applied", "web c Applied"})
	if st.DeployedCounts["Applied"] != 4 || len(st.DeployedCounts) != 1 {
		t.Errorf("counts: %v, want 4 Applied", st.DeployedCounts)
	}
	files := []string{foreign, object("a", id, "web"), object("b", id, "web"), object("c", id, "web"), object("c", id, "cache")}
	s.wantTree(files...)
	for _, want := range []string{"greeting: profile", "emco/deployment-id: " + id + "-web", "name: r1-web"} {
		if text := s.file(object("a", id, "web")); !strings.Contains(text, want) {
			t.Errorf("the file lacks %q:\n%s", want, text)
		}
	}
	if text := s.file(object("b", id, "web")); text != s.file(object("a", id, "web")) {
		t.Error("clusters of one class hold different bytes")
	}
	if got := s.do("GET", "/metrics", "").Body; !strings.Contains(got, "\nemco_renders_total 2\n") {
		t.Error("two apps on three clusters were not rendered twice")
	}

	g.act("terminate")
	if got := g.status().DeployedStatus; got != "Terminating" && got != "Terminated" {
		t.Errorf("right after the answer: deployedStatus %q", got)
	}
	g.becomes("Terminated")
	s.wantTree(foreign)

	g.act("instantiate") // without another approval
	st = g.becomes("Instantiated")
	wantEqual(s, "history", history(st), []string{
		"Created - 0", "Approved - 0", "Instantiated first 1", "Terminated first 0", "Instantiated other 2",
	})
	s.wantTree(files...) // the paths of the first life
	g.act("terminate")
	g.becomes("Terminated")
	s.wantTree(foreign)

	s.expect(202, "POST", cloud+"/terminate", "")
	s.removeAll()
	s.stop()
	s.wantNothingLeft()
}

// removeAll deletes every document, the last ones first.
func (s *testStage) removeAll() {
	s.Helper()
	g := till + "/deployment-intent-groups/autumn"
	paths := []string{
		g + "/intents/all",
		g + "/generic-placement-intents/places/app-intents/web", g + "/generic-placement-intents/places/app-intents/cache",
		g + "/generic-placement-intents/places", g,
		till + "/composite-profiles/small/profiles/web", till + "/composite-profiles/small/profiles/cache", till + "/composite-profiles/small",
		till + "/apps/web", till + "/apps/cache", till,
		cloud + "/cluster-references/a", cloud + "/cluster-references/b", cloud + "/cluster-references/c", cloud, "projects/shop",
	}
	for _, c := range []string{"a", "b", "c"} {
		paths = append(paths, provider+"/clusters/"+c+"/labels/all", provider+"/clusters/"+c)
	}
	for _, p := range append(paths, provider+"/cluster-sync-objects/repo", provider) {
		s.expect(204, "DELETE", p, "")
	}
}

// kept begins keys of what is kept of a deployment that was deleted: content that is swept, and what clusters held.
var kept = []string{"blob/", "clusterhistory/", "clusterlist/"}

// ofTheInstallation are keys of etcd that no deployment made.
var ofTheInstallation = []string{"generation", "identity", "member/level", "progress"}

// wantNothingLeft looks into the stores of a program that has stopped. Content is
// shared, so it goes when it is swept, and not with what named it.
func (s *testStage) wantNothingLeft() {
	s.Helper()
	s.inside(func(ctx context.Context, db *store.DB, etcd *clientv3.Client) {
		for doc, err := range db.List(ctx, "", store.Query{}) {
			s.must("list documents", err)
			s.Errorf("document %s is left", doc.Key)
		}
		s.must("sweep uploads", db.SweepBlobs(ctx, 0))
		for _, key := range s.keys(ctx, etcd) {
			if !slices.ContainsFunc(kept, func(prefix string) bool { return strings.HasPrefix(key, prefix) }) && !slices.Contains(ofTheInstallation, key) {
				s.Errorf("key %s is left", key)
			}
		}
		for range 2 { // the first marks what is unused
			later := appcontext.WithClock(func() time.Time { return time.Now().Add(91 * 24 * time.Hour) }) // than what clusters held is kept
			_, err := appcontext.New(etcd, s.config.Etcd.Prefix, appcontext.WithGrace(0), later).Sweep(ctx, 0)
			s.must("sweep", err)
		}
		if left := s.keys(ctx, etcd); !slices.Equal(left, ofTheInstallation) {
			s.Errorf("left after the sweep: %v", left)
		}
	})
	left, err := files(s.config.Path("packages"))
	s.must("list uploads", err)
	if len(left) > 0 {
		s.Errorf("uploads are left: %v", left)
	}
}

// inside opens the stores of a program that has stopped.
func (s *testStage) inside(look func(ctx context.Context, db *store.DB, etcd *clientv3.Client)) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 30*time.Second)
	defer cancel()
	server, err := embedded.Start(ctx, embedded.Options{Dir: s.config.Path("etcd"), Log: slog.New(slog.DiscardHandler)})
	s.must("open etcd", err)
	defer func() { s.must("close etcd", server.Close()) }()
	driver, blobs, err := all.Drivers()[cmp.Or(s.config.Store.Driver, "sqlite")](ctx, all.Place{
		File: s.config.Path("documents.db"), Packages: s.config.Path("packages"),
		Etcd: etcdkv.New(server.Client(), s.config.Etcd.Prefix, etcdkv.Options{}),
	})
	s.must("open documents", err)
	defer func() { s.must("close documents", driver.Close()) }()
	look(ctx, store.New(driver, blobs, seal.New(seal.NewKey())), server.Client())
}

// keys lists etcd, without the prefix, and without the audit log.
func (s *testStage) keys(ctx context.Context, etcd *clientv3.Client) (out []string) {
	s.Helper()
	res, err := etcd.Get(ctx, "", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	s.must("list etcd", err)
	for _, kv := range res.Kvs {
		if key := strings.TrimPrefix(string(kv.Key), s.config.Etcd.Prefix); !strings.HasPrefix(key, "audit/") {
			out = append(out, key)
		}
	}
	return out
}

// files lists all files below a folder but for locks.
func files(dir string) (out []string, err error) {
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && d.Name() != "lock" {
			out = append(out, path)
		}
		return err
	})
	slices.Sort(out)
	return out, err
}
