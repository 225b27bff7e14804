package wrap

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/embedded"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/gitstate"
	"github.com/emco-orchestrator/emco/src/emco/internal/failpoint"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/sqlite"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
	"github.com/emco-orchestrator/emco/src/git/gittest"
	"github.com/emco-orchestrator/emco/src/git/plain"
)

// faultTrial is a set where one point fails at a time.
type faultTrial struct {
	*testing.T
	set *failpoint.Set
}

func newTrial(t *testing.T) faultTrial { return faultTrial{t, failpoint.New(Points()...)} }

func (t faultTrial) must(err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fails has one point fail, once, and checks that do does so, as if the part was away.
func (t faultTrial) fails(point string, do func() error) {
	t.Helper()
	t.must(t.set.Arm(point + "=error(once)"))
	err := do()
	if !errs.Is(err, errs.Unavailable) || !strings.Contains(err.Error(), point) {
		t.Errorf("%s: got %v, want unavailable", point, err)
	}
	if n := t.set.Counts().Fired; n != 1 {
		t.Errorf("%s: %d times, want once", point, n)
	}
}

// passes checks that do comes by the points, in order of their names, and does well.
func (t faultTrial) passes(do func() error, points ...string) {
	t.Helper()
	t.must(t.set.Arm(""))
	t.must(do())
	var got []string
	counts := t.set.Counts()
	for _, p := range counts.Points {
		if counts.Reached[p] > 0 {
			got = append(got, p)
		}
	}
	if !slices.Equal(got, points) {
		t.Errorf("it came by %q, want %q", got, points)
	}
}

func TestPointsAreNamedOnce(t *testing.T) {
	t.Parallel()
	all := Points()
	if n := len(slices.Compact(slices.Clone(all))); n != len(all) || n < 40 {
		t.Errorf("%d points, %d of them different", len(all), n)
	}
}

func TestDocuments(t *testing.T) {
	t.Parallel()
	trial, ctx := newTrial(t), t.Context()
	real, err := sqlite.Open(filepath.Join(t.TempDir(), "d.db"), sqlite.WithoutFsync())
	trial.must(err)
	defer real.Close()
	d := Documents(trial.set, real)
	doc := store.Doc{Key: "a/b", UID: "1", Rev: 1, Tag: 7}
	there := func() bool { _, err := real.Get(ctx, doc.Key); return err == nil }
	put := func() error { return d.Put(ctx, doc, 0) }
	trial.fails(DocumentPutBefore, put)
	if there() {
		t.Error("the document is there, although the failure was before")
	}
	trial.fails(DocumentPutAfter, put)
	if !there() {
		t.Error("the document is not there, although the failure was after")
	}
	trial.fails(DocumentRead, func() error { _, err := d.Get(ctx, doc.Key); return err })
	trial.fails(DocumentRead, func() error {
		for _, err := range d.List(ctx, "", store.Query{}) {
			return err
		}
		return nil
	})
	trial.fails(DocumentRemoveBefore, func() error { return d.Remove(ctx, doc.Key, 7) })
	trial.fails(DocumentRemoveAfter, func() error { return d.Remove(ctx, doc.Key, 7) })
	if there() {
		t.Error("the document is there, although it was removed")
	}
	trial.passes(put, DocumentPutAfter, DocumentPutBefore)
}

// Every kind of write of the AppContext has its own points.
func TestEtcdWritesAreToldApart(t *testing.T) {
	t.Parallel()
	trial, ctx := newTrial(t), t.Context()
	server, err := embedded.Start(ctx, embedded.Options{Dir: t.TempDir(), NoFsync: true})
	trial.must(err)
	defer server.Close()
	client := server.Client()
	client.KV = KV(trial.set, "/emco/", client.KV)
	s := appcontext.New(client, "/emco")

	var h appcontext.Head
	step := func() (err error) {
		h, err = s.ChangeHead(ctx, h, appcontext.Head{UID: "7"}, make([]appcontext.HistoryEntry, 1), &appcontext.Operation{ID: "op"})
		return err
	}
	trial.fails(writeStep.before(), step)
	trial.passes(step, "etcd.step.after", "etcd.step.before")
	trial.fails(writeStep.after(), func() error { _, err := s.ChangeHead(ctx, h, h, nil, nil); return err })
	trial.passes(func() (err error) { h, err = s.Head(ctx, "7"); return err }, EtcdRead)

	var bundle appcontext.Digest
	trial.passes(func() (err error) { bundle, err = s.PutBundle(ctx, appcontext.Bundle{}); return err },
		"etcd.blob.after", "etcd.blob.before", EtcdRead)
	places := slices.Values([]appcontext.Placement{{Cluster: "p+c", Apps: map[string]appcontext.Digest{"a": bundle}}})
	publish := func() error { _, err := s.Publish(ctx, h, appcontext.Revision{Number: 1}, places); return err }
	trial.fails(writePlace.before(), publish)
	trial.fails(writePublish.before(), publish)
	trial.passes(publish, "etcd.place.after", "etcd.place.before", "etcd.publish.after", "etcd.publish.before")

	trial.passes(func() error {
		return s.RecordCommit(ctx, "7", 1, appcontext.RevisionCommit{Commit: "c"})
	}, "etcd.commit.after", "etcd.commit.before", EtcdRead)

	key := appcontext.PairKey{Cluster: "p+c", Deployment: "7", App: "a"}
	putPair := func(p appcontext.Pair) func() error {
		p.Key = key
		return func() error { return s.PutPairs(ctx, appcontext.Fence{}, []appcontext.Pair{p}, nil) }
	}
	trial.passes(putPair(appcontext.Pair{Phase: appcontext.Pending}), "etcd.intend.after", "etcd.intend.before")
	trial.passes(putPair(appcontext.Pair{Phase: appcontext.Deleting}), "etcd.intend.after", "etcd.intend.before")
	trial.passes(putPair(appcontext.Pair{Phase: appcontext.Applied}), "etcd.settle.after", "etcd.settle.before")
	trial.passes(putPair(appcontext.Pair{Phase: appcontext.Retrying, Attempt: 1}), "etcd.settle.after", "etcd.settle.before")
	trial.passes(func() error { return s.PutReports(ctx, appcontext.Fence{}, []appcontext.Report{{Key: key}}, nil) }, "etcd.report.after", "etcd.report.before")
	trial.passes(func() error { return s.PutPairs(ctx, appcontext.Fence{}, nil, []appcontext.PairKey{key}) }, "etcd.settle.after", "etcd.settle.before")
	trial.passes(func() error { return s.AddEvents(ctx, appcontext.Event{UID: "7", Type: appcontext.Normal}) }, "etcd.event.after", "etcd.event.before")
	trial.passes(func() error { return s.AskRelocation(ctx, gitstate.Relocation{Cluster: "p+c", Number: 1}) },
		"etcd.move.after", "etcd.move.before", EtcdRead)
	trial.passes(func() error { return s.Delete(ctx, "7") }, EtcdRead, "etcd.remove.after", "etcd.remove.before") // it reads the names of commits
	trial.passes(func() error {
		_, err := client.Txn(ctx).Then(clientv3.OpPut("/emco/own/all", "me")).Commit()
		return err
	}, "etcd.own.after", "etcd.own.before")
	trial.passes(func() error { _, err := client.Delete(ctx, "/emco/blob/", clientv3.WithPrefix()); return err }, "etcd.blob.after", "etcd.blob.before")
}

func TestGit(t *testing.T) {
	t.Parallel()
	trial, ctx := newTrial(t), t.Context()
	server, err := gittest.Serve(t.TempDir())
	trial.must(err)
	defer server.Close()
	_, err = server.Seed(ctx, "r", "main")
	trial.must(err)
	real := plain.New(plain.Options{})
	defer real.Close()
	h, repo := Host(trial.set, real), git.Repo{URL: server.URL("r")}

	var tip git.Hash
	head := func() (err error) { tip, err = h.Head(ctx, repo, "main"); return err }
	trial.fails(GitHeadBefore, head)
	trial.fails(GitHeadAfter, head)
	trial.passes(head, GitHeadAfter, GitHeadBefore)
	commit := func() error {
		_, err := h.Commit(ctx, repo, "main", tip, []git.Edit{{Path: "f", File: []byte("x")}}, git.Message{Title: "t"})
		return err
	}
	trial.fails(GitCommitBefore, commit)
	if now, err := real.Head(ctx, repo, "main"); err != nil || now != tip {
		t.Errorf("the branch moved, although the failure was before: %v", err)
	}
	trial.fails(GitCommitAfter, commit)
	if now, err := real.Head(ctx, repo, "main"); err != nil || now == tip {
		t.Errorf("the branch did not move, although the failure was after: %v", err)
	}
	read := func() error {
		for e, err := range h.Tree(ctx, repo, tip, "") {
			if err != nil {
				return err
			}
			_, err = h.Blob(ctx, repo, e.ID)
			return err
		}
		return errors.New("an empty tree")
	}
	trial.fails(GitRead, read)
	trial.passes(read, GitRead)

	w := batch.New(h, batch.Options{})
	defer w.Close()
	job := batch.Job{Repo: repo, Branch: "main", Edits: []git.Edit{{Path: "g", File: []byte("x")}}, Title: "t"}
	submit := func() error { _, err := Commits(trial.set, w).Submit(ctx, job); return err }
	trial.fails(GitAnswer, submit)
	trial.must(submit())
}

func TestAPI(t *testing.T) {
	t.Parallel()
	trial := newTrial(t)
	done := 0
	server := httptest.NewServer(API(trial.set, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		done++
		w.Header().Set("X-Did", "it")
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, "said")
	})))
	defer server.Close()
	ask := func(method string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, server.URL, nil)
		trial.must(err)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, ""
		}
		defer res.Body.Close()
		body, _ := io.ReadAll(res.Body)
		return res.StatusCode, res.Header.Get("X-Did") + " " + string(body)
	}
	for _, c := range []struct {
		rules, method string
		status, done  int
		body          string
	}{
		{"", "POST", 202, 1, "it said"},
		{"api.request=error", "POST", 503, 0, ""},
		{"api.answer=error", "POST", 0, 1, ""},
		{"api.*=error", "GET", 202, 1, "it said"},
	} {
		trial.must(trial.set.Arm(c.rules))
		done = 0
		if status, body := ask(c.method); status != c.status || done != c.done || c.body != "" && body != c.body {
			t.Errorf("%q, %s: status %d, %q, done %d times; want %+v", c.rules, c.method, status, body, done, c)
		}
	}
}

func TestKube(t *testing.T) {
	t.Parallel()
	trial, done := newTrial(t), 0
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { done++ }))
	defer server.Close()
	client := &http.Client{Transport: Kube(trial.set, http.DefaultTransport)}
	for _, c := range []struct {
		method, path  string
		before, after string
	}{
		{"GET", "/api/v1/pods", KubeRead, ""},
		{"GET", "/api/v1/pods?watch=true", "", ""},
		{"PATCH", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/x", KubeDefineBefore, KubeDefineAfter},
		{"PATCH", "/api/v1/namespaces/n/configmaps/x", KubeApplyBefore, KubeApplyAfter},
		{"DELETE", "/api/v1/namespaces/n/configmaps/x", KubePruneBefore, KubePruneAfter},
	} {
		for i, point := range []string{"", c.before, c.after} {
			rules := ""
			if point != "" {
				rules = point + "=error"
			}
			trial.must(trial.set.Arm(rules))
			done = 0
			req, err := http.NewRequestWithContext(context.Background(), c.method, server.URL+c.path, nil)
			trial.must(err)
			res, err := client.Do(req)
			if err == nil {
				res.Body.Close()
			}
			stopped := i == 1 && point != ""
			if (err != nil) != (point != "") || stopped == (done == 1) {
				t.Errorf("%s %s with %q: %v, done %d times", c.method, c.path, rules, err, done)
			}
		}
	}
}

type nothing struct{}

func (nothing) Edition() string { return "nothing" }

func (nothing) Render(context.Context, render.Request) (render.Result, error) {
	return render.Result{}, nil
}

func TestRenderer(t *testing.T) {
	t.Parallel()
	trial := newTrial(t)
	do := func() error {
		_, err := Renderer(trial.set, nothing{}).Render(t.Context(), render.Request{})
		return err
	}
	trial.fails(RenderBefore, do)
	trial.fails(RenderAfter, do)
	trial.passes(do, RenderAfter, RenderBefore)
}
