package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"

	"github.com/emco-orchestrator/emco/scripts/e2e/fleet"
	"github.com/emco-orchestrator/emco/scripts/e2e/program"
)

// faultWriter is the only client of a deployment and of some documents. It knows what was accepted.
type faultWriter struct {
	*faultStorm
	d       fleet.Deployment
	number  int
	actions int // so far; names the next one

	runs      bool              // it is wanted on the clusters
	token     string            // that the desired revision delivers
	values    string            // that the profile holds
	revision  int64             // the last one
	tokens    map[int64]string  // by revision, of those that were carried out before their values changed again
	deliver   map[string]int    // how often each token may have been written to a cluster
	documents map[string]string // descriptions of projects
}

func newFaultWriter(f *faultStorm, n int) *faultWriter {
	return &faultWriter{
		faultStorm: f, d: apps(fmt.Sprintf("tenant%d", n), 1, 3), number: n, values: "blue",
		tokens: map[int64]string{}, deliver: map[string]int{}, documents: map[string]string{},
	}
}

// operate does one random operation and waits until it is accepted.
func (w *faultWriter) operate(ctx context.Context) {
	kind := w.random.n(100)
	switch {
	case kind < 40:
		w.kinds.add("documents")
		w.writeDocument(ctx)
	case !w.runs:
		w.kinds.add("instantiates")
		w.act(ctx, "instantiate", "")
		w.runs = true
		w.desire(w.revision+1, w.values)
	case kind < 85:
		w.kinds.add("updates")
		w.actions++
		values := fmt.Sprintf("t%d-%d", w.number, w.actions)
		w.retry(ctx, "change a value", func(api *client.Client) error {
			f, err := fleet.Open(*w.api.Load())
			if err != nil {
				return err
			}
			return f.Revalue(ctx, w.d, w.d.Apps[0].Chart, "colour: "+values+"\n")
		})
		w.values = values
		body := w.act(ctx, "update", "")
		if got, err := strconv.ParseInt(strings.TrimSpace(body), 10, 64); err != nil || got != w.revision+1 {
			w.count(&w.doubled, "an update of %s made revision %s, want %d", w.d.Name, body, w.revision+1)
			return
		}
		w.desire(w.revision+1, values)
	case kind < 92:
		w.kinds.add("terminates")
		w.act(ctx, "terminate", "")
		w.runs = false
	default:
		to := w.earlier(ctx)
		if to == 0 {
			return
		}
		w.kinds.add("rollbacks")
		w.act(ctx, "rollback", fmt.Sprintf(`{"metadata":{"name":"back"},"spec":{"revision":"%d"}}`, to))
		w.desire(w.revision+1, w.tokens[to])
	}
	if w.random.n(3) == 0 { // the others overtake each other
		w.settle(ctx)
	} else {
		w.look(ctx)
	}
}

// earlier returns a revision that a rollback can bring back; 0 if there is none. Those that were overtaken
// do not exist, and an update delivers the values at the time when it is carried out.
func (w *faultWriter) earlier(ctx context.Context) (revision int64) {
	w.retry(ctx, "list revisions", func(api *client.Client) error {
		list, err := client.Get[v2.RevisionsAnswer](ctx, api, w.d.Path()+"/revisions")
		for _, r := range list.Revisions {
			if r.Kept && !r.Current && w.tokens[r.Number] != "" {
				revision = r.Number // the newest, which the sweep leaves alone
				return nil
			}
		}
		return err
	})
	return revision
}

// desire notes an accepted revision.
func (w *faultWriter) desire(revision int64, token string) {
	w.revision, w.token = revision, token
	w.deliver[token]++
}

// writeDocument creates, changes or deletes a project.
func (w *faultWriter) writeDocument(ctx context.Context) {
	name := fmt.Sprintf("t%d-%d", w.number, w.random.n(5))
	_, there := w.documents[name]
	w.actions++
	text := fmt.Sprintf("written %d", w.actions)
	body := client.JSON([]byte(fmt.Sprintf(`{"metadata":{"name":%q,"description":%q}}`, name, text)))
	switch {
	case !there:
		w.send(ctx, client.Request{Method: http.MethodPost, Path: "projects", Body: body}, http.StatusConflict)
		w.documents[name] = text
	case w.random.n(3) == 0:
		w.send(ctx, client.Request{Method: http.MethodDelete, Path: "projects/" + name}, http.StatusNotFound)
		delete(w.documents, name)
	default:
		w.send(ctx, client.Request{Method: http.MethodPut, Path: "projects/" + name, Body: body}, 0)
		w.documents[name] = text
	}
}

// act sends an action until it is accepted, always with the same key.
func (w *faultWriter) act(ctx context.Context, action, body string) string {
	w.actions++
	return w.send(ctx, client.Request{
		Method: http.MethodPost, Path: w.d.Path() + "/" + action, Key: fmt.Sprintf("%s-%d", w.d.Name, w.actions), Body: client.JSON([]byte(body)),
	}, 0)
}

// send sends a request until it is accepted. After a lost answer, a status may say that it was accepted
// before.
func (w *faultWriter) send(ctx context.Context, r client.Request, done int) (body string) {
	lost := false
	w.retry(ctx, r.Method+" "+r.Path, func(api *client.Client) error {
		res, err := api.Do(ctx, r)
		if err != nil {
			lost = true
			return err
		}
		if lost && res.Status == done {
			return nil
		}
		lost = lost || res.Status >= 500
		body = string(res.Body)
		return res.Err(r.Method, r.Path)
	})
	return body
}

// retry does something until it succeeds.
func (w *faultWriter) retry(ctx context.Context, what string, do func(api *client.Client) error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := program.Poll(ctx, 50*time.Millisecond, func() error {
		api, err := client.New(client.Options{BaseURL: *w.api.Load(), Timeout: 10 * time.Second})
		if err == nil {
			err = do(api)
		}
		if errs.Is(err, errs.NotFound) || errs.Is(err, errs.Invalid) {
			cancel() // no repetition helps
		}
		return err
	})
	if err != nil {
		w.count(&w.lost, "%s %s was not accepted: %v", w.d.Name, what, err)
	}
}

// settle waits until the status reports what is desired.
func (w *faultWriter) settle(ctx context.Context) {
	want := v2.StatusTerminated
	if w.runs {
		want = v2.StatusInstantiated
	}
	if w.revision == 0 {
		return
	}
	w.retry(ctx, "does not become "+want, func(api *client.Client) error {
		st, err := w.read(ctx, api)
		if err == nil && st.DeployedStatus != want {
			err = errors.New("it is " + st.DeployedStatus)
		}
		return err
	})
	if w.runs {
		w.tokens[w.revision] = w.token
	}
}

// look compares one answer of the status with the branch.
func (w *faultWriter) look(ctx context.Context) {
	api, err := client.New(client.Options{BaseURL: *w.api.Load(), Timeout: 5 * time.Second})
	if err == nil {
		_, _ = w.read(ctx, api) // it may be down
	}
}

// read reads the status. Each change that it reports as done must be on the branch, which has no other writer.
func (w *faultWriter) read(ctx context.Context, api *client.Client) (v2.Status, error) {
	st, err := client.Get[v2.Status](ctx, api, w.d.Path()+"/status?status=deployed&output=summary")
	if err != nil {
		return st, err
	}
	w.looks.Add(1)
	switch {
	case st.DeployedStatus == v2.StatusInstantiated && !w.runs, st.DeployedStatus == v2.StatusTerminated && w.runs:
		w.count(&w.lies, "the status of %s is %s, although the opposite was accepted", w.d.Name, st.DeployedStatus)
	case st.DeployedStatus == v2.StatusInstantiated:
		if on := w.onBranch(st.States.StatusCtxID); len(on) != faultClusters || !only(on, w.token) {
			w.count(&w.lies, "the status of %s is %s, and the branch has %v, want %s", w.d.Name, st.DeployedStatus, on, w.token)
		}
	case st.DeployedStatus == v2.StatusTerminated:
		if on := w.onBranch(st.States.StatusCtxID); len(on) > 0 {
			w.count(&w.lies, "the status of %s is %s, and the branch has %v", w.d.Name, st.DeployedStatus, on)
		}
	}
	return st, nil
}

func only(on map[string]string, token string) bool {
	for _, t := range on {
		if t != token {
			return false
		}
	}
	return true
}

var tokenLine = regexp.MustCompile(`colour: "?([a-z0-9-]+)"?`)

// onBranch returns the token of a deployment on each cluster, now.
func (w *faultWriter) onBranch(id string) map[string]string {
	w.Helper()
	out := map[string]string{}
	listing, err := w.bare.Git(w.Context(), "", "ls-tree", "-r", branch, "--", "clusters/")
	w.must("list the branch", err)
	for line := range strings.SplitSeq(listing, "\n") {
		meta, path, _ := strings.Cut(line, "\t")
		cluster, rest, found := strings.Cut(strings.TrimPrefix(path, "clusters/"), "/context/"+id+"/")
		if !found || !strings.HasSuffix(rest, "+ConfigMap.yaml") {
			continue
		}
		text, err := w.bare.Git(w.Context(), "", "cat-file", "blob", strings.Fields(meta)[2])
		w.must("read "+path, err)
		if m := tokenLine.FindStringSubmatch(text); m != nil {
			out[cluster] = m[1]
		}
	}
	return out
}

func (f *faultStorm) count(what interface{ Add(int64) int64 }, format string, args ...any) {
	f.Helper()
	what.Add(1)
	f.Errorf(format, args...)
}

// compare waits until all work is done, and compares all that was accepted with what is stored.
func (f *faultStorm) compare() {
	f.Helper()
	ctx := f.Context()
	for _, w := range f.writers {
		w.settle(ctx)
	}
	api, err := client.New(client.Options{BaseURL: *f.api.Load()})
	f.must("open the API", err)
	all, err := client.Get[[]v2.Project](ctx, api, "projects")
	f.must("list projects", err)
	stored := map[string]string{}
	for _, p := range all {
		stored[p.Metadata.Name] = p.Metadata.Description
	}
	for _, w := range f.writers {
		w.compareDocuments(stored)
		w.compareRevisions(ctx, api)
	}
	f.compareHistory()
}

func (w *faultWriter) compareDocuments(stored map[string]string) {
	w.Helper()
	for n := range 5 {
		name := fmt.Sprintf("t%d-%d", w.number, n)
		got, there := stored[name]
		want, wanted := w.documents[name]
		switch {
		case there && !wanted:
			w.count(&w.lost, "the deletion of project %s is lost", name)
		case wanted && got != want:
			w.count(&w.lost, "project %s is %q, want %q", name, got, want)
		}
	}
}

// compareRevisions expects the last accepted revision, and each number once.
func (w *faultWriter) compareRevisions(ctx context.Context, api *client.Client) {
	w.Helper()
	if w.revision == 0 {
		return
	}
	list, err := client.Get[v2.RevisionsAnswer](ctx, api, w.d.Path()+"/revisions")
	w.must("list revisions", err)
	last := int64(0)
	if len(list.Revisions) > 0 {
		last = list.Revisions[0].Number
	}
	switch {
	case last < w.revision:
		w.count(&w.lost, "the last revision of %s is %d, want %d", w.d.Name, last, w.revision)
	case last > w.revision:
		w.count(&w.doubled, "the last revision of %s is %d, want %d", w.d.Name, last, w.revision)
	}
}

// compareHistory expects that commits write each token to each cluster only as often as accepted.
func (f *faultStorm) compareHistory() {
	f.Helper()
	log, err := f.bare.Git(f.Context(), "", "log", "--first-parent", "--no-renames", "--raw", "--no-abbrev", "--diff-filter=AM", "--format=", branch, "--", "clusters")
	f.must("read the history", err)
	texts, written := map[string]string{}, map[[2]string]int{}
	for line := range strings.SplitSeq(log, "\n") {
		meta, path, found := strings.Cut(line, "\t")
		if !found || !strings.HasSuffix(path, "+ConfigMap.yaml") {
			continue
		}
		blob := strings.Fields(meta)[3]
		if _, known := texts[blob]; !known {
			text, err := f.bare.Git(f.Context(), "", "cat-file", "blob", blob)
			f.must("read "+path, err)
			m := tokenLine.FindStringSubmatch(text)
			if m == nil {
				continue
			}
			texts[blob] = m[1]
		}
		written[[2]string{path, texts[blob]}]++
	}
	allowed := map[string]int{}
	for _, w := range f.writers {
		for token, n := range w.deliver {
			allowed[token] += n
		}
	}
	for at, n := range written {
		if most := allowed[at[1]]; n > most {
			f.count(&f.doubled, "%s was written %d times with %s, which was accepted %d times", at[0], n, at[1], most)
		}
	}
}
