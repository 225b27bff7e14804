package gitstatus

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/status"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/intake"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncobjects"
	"github.com/emco-orchestrator/emco/src/git/gittest"
)

const ready = ": web=Current@aa11 conf=Current@bb22"

func (l *gitFixture) wantLook(what, results string, reports ...string) {
	l.Helper()
	got, becomes := l.look()
	if becomes != results || !slices.Equal(saidAll(got), reports) {
		l.Errorf("%s: documents were %q, reports are\n%q, want %q and\n%q", what, becomes, saidAll(got), results, reports)
	}
}

func TestChangedReportsAreRead(t *testing.T) {
	t.Parallel()
	l := newLab(t, syncobjects.StatusRef, "edge+a", "edge+b")
	l.wantLook("nothing there", "")
	l.send("edge+a", l.good("edge+a", 7))
	l.send("edge+b", l.good("edge+b", 9))
	l.wantLook("both new", "taken taken", "edge+a/web#7"+ready, "edge+b/web#9"+ready)
	slices.Sort(l.agents)
	if !slices.Equal(l.agents, []v2.ClusterKey{"edge+a", "edge+b"}) {
		t.Errorf("clusters with an agent are %v", l.agents)
	}
	before := l.host.Stats()
	l.wantLook("nothing changed", "")
	if s := l.host.Stats(); s.Adverts != before.Adverts+1 || s.Fetches != before.Fetches {
		t.Errorf("a look without change costs %d conversations and %d packs, want one listing", s.Adverts-before.Adverts, s.Fetches-before.Fetches)
	}
	r := l.good("edge+a", 8)
	r.Apps[0].Objects[0].Status, r.Apps[0].Objects[0].Reason = status.Failed, "crash loop"
	r.Apps[0].Objects = append(r.Apps[0].Objects, object(appcontext.Ref{ID: manifest.ID{Version: "v1", Kind: "Pod", Namespace: "shop", Name: "web-1"}}, status.Failed))
	l.send("edge+a", r)
	l.wantLook("one changed", "taken", "edge+a/web#8: web=Failed@aa11(crash loop) conf=Current@bb22 web-1=Failed+")
}

// A missing object counts as missing only where the report would have named it.
func TestWhatAReportLeavesOut(t *testing.T) {
	t.Parallel()
	crd := ref("CustomResourceDefinition", "things.example.org", "cc33")
	custom := appcontext.Ref{ID: manifest.ID{Group: "example.org", Version: "v1", Kind: "ClusterThing", Namespace: "shop", Name: "one"}, Stamp: "dd44"}
	pair := webPair("edge+a")
	pair.Objects = append(pair.Objects, ref("Secret", "s", "ee55"), crd, custom)
	pair.Hooks = []appcontext.Ref{ref("Job", "migrate", "ff66")}
	clusterThing := object(custom, status.Current)
	clusterThing.Namespace, clusterThing.Version = "", "v2"
	for _, c := range []struct {
		name   string
		change func(*status.Report)
		want   string
	}{
		{"all of it", func(r *status.Report) { r.Apps = nil }, "web=NotFound conf=NotFound s=NotFound things.example.org=NotFound one=NotFound"},
		{"all of it, and apps were left out", func(r *status.Report) { r.Apps, r.Truncated = nil, 1 }, "web=Unknown(the report is truncated) conf=Unknown(the report is truncated) s=Unknown(the report is truncated) things.example.org=Unknown(the report is truncated) one=Unknown(the report is truncated)"},
		{"an object of a kind that is not seen", func(r *status.Report) { r.Unseen = []status.Unseen{{Kind: "Secret", Reason: "excluded"}} }, "web=Current@aa11 conf=Current@bb22 s=Unknown(the agent cannot read objects of kind Secret: excluded) things.example.org=NotFound one=NotFound"},
		{"some, because of an error", func(r *status.Report) {
			r.Apps[0].Error = "Kustomization not ready: build failed"
			r.Apps[0].Objects = r.Apps[0].Objects[:1]
			r.Apps[0].Objects[0].Content = "0ld"
		}, "web=Current@0ld(Kustomization not ready: build failed) conf=NotFound(Kustomization not ready: build failed) s=NotFound(Kustomization not ready: build failed) things.example.org=NotFound(Kustomization not ready: build failed) one=NotFound(Kustomization not ready: build failed)"},
		{"a definition that another app brings too, a kind of unknown scope, a hook", func(r *status.Report) {
			r.Apps[0].Objects = append(r.Apps[0].Objects, clusterThing, object(pair.Hooks[0], status.InProgress))
			r.Apps = append(r.Apps, status.App{Label: "7-other", Objects: []status.Object{object(crd, status.Current)}})
		}, "web=Current@aa11 conf=Current@bb22 s=NotFound things.example.org=Current@cc33 one=Current@dd44 migrate=InProgress@ff66"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, syncobjects.StatusRef, "edge+a")
			l.fleet.pairs["edge+a"] = []intake.Pair{pair}
			r := l.good("edge+a", 1)
			c.change(&r)
			l.send("edge+a", r)
			l.wantLook(c.name, "taken", "edge+a/web#1: "+c.want)
		})
	}
}

// An object that the agent may not read counts once the cluster has applied the commit
// that holds it.
func TestUnreadObjectsCountByCommit(t *testing.T) {
	t.Parallel()
	l := newLab(t, syncobjects.StatusRef, "edge+a")
	var line []string
	for _, text := range []string{"1", "2", "3"} {
		at, err := l.bare.CommitExternal(t.Context(), "main", map[string]gittest.File{"f": {Content: text}})
		if err != nil {
			t.Fatal(err)
		}
		line = append(line, at)
	}
	pair := webPair("edge+a")
	pair.Objects, pair.Commit = []appcontext.Ref{ref("Secret", "s", "ee55")}, line[1]
	pair.Hooks, pair.HookCommit = []appcontext.Ref{ref("Secret", "h", "dd44")}, line[2]
	l.fleet.pairs["edge+a"] = []intake.Pair{pair}
	const hook = " h=Current(the agent may not read it, and the reconciler has not yet reported the commit that holds it)"
	const not = "s=Current(the agent may not read it, and the reconciler has not yet reported the commit that holds it)"
	const failed = "s=Unknown(Kustomization not ready) h=Unknown(Kustomization not ready)"
	const current, unknown = status.Current, status.Unknown
	for i, c := range []struct {
		name, commit, state, why, desired, want string
	}{
		{"an earlier commit", line[0], current, "", line[1], not + hook},
		{"the commit itself", line[1], current, "", line[1], "s=Current@ee55" + hook},
		{"a later commit", line[2], current, "", line[1], "s=Current@ee55 h=Current@dd44"},
		{"a later commit, not fully applied", line[2], unknown, "Kustomization not ready", line[1], failed},
		{"a later commit, after which Git was out of reach", line[2], current, "GitRepository not ready", line[1], "s=Current@ee55 h=Current@dd44"},
		{"no commit is desired yet", line[2], current, "", "", not + " h=Current@dd44"},
		{"no commit is applied", "", current, "", line[1], not + hook},
		{"a commit of nowhere", strings.Repeat("1", 40), current, "", line[1], not + hook},
	} {
		l.fleet.pairs["edge+a"][0].Commit = c.desired
		r := l.good("edge+a", uint64(i+1))
		o := object(ref("Secret", "s", ""), c.state)
		h := object(ref("Secret", "h", ""), c.state)
		o.Unread, h.Unread = true, true
		r.Apps[0] = status.App{Label: "42-web", Commit: c.commit, Error: c.why, Objects: []status.Object{o, h}}
		l.send("edge+a", r)
		l.clock(time.Hour)
		got, _ := l.look()
		if len(got) != 1 || !strings.HasSuffix(reportLine(got[0]), ": "+c.want) {
			t.Errorf("%s: reports are %q, want %s", c.name, saidAll(got), c.want)
		}
	}
}

// H-21: what is refused changes nothing, is counted, and is noted for people.
func TestH21BadReportsAreQuarantined(t *testing.T) { // alone: it counts what is allocated
	noise := make([]byte, 8<<20)
	_, _ = rand.Read(noise)
	encode := func(r status.Report) []byte {
		text, err := status.Encode(r, 0)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for _, c := range []struct {
		name, result string
		text         func(*gitFixture) []byte
	}{
		{"it speaks for another cluster", intake.Forged, func(l *gitFixture) []byte { return encode(l.good("edge+b", 100)) }},
		{"it is older than what was taken in", intake.Replayed, func(l *gitFixture) []byte { return encode(l.good("edge+a", 9)) }},
		{"the same sequence with other news", intake.Replayed, func(l *gitFixture) []byte {
			r := l.good("edge+a", 10)
			r.Apps = nil
			return encode(r)
		}},
		{"no later sequence is left", intake.Ahead, func(l *gitFixture) []byte { return encode(l.good("edge+a", math.MaxUint64)) }},
		{"a future schema", intake.Schema, func(*gitFixture) []byte {
			return []byte(`{"schema":"emco.status/v9","cluster":"edge+a","seq":99,"apps":{"42-web":"splendid"}}`)
		}},
		{"content that another report has", intake.Malformed, func(l *gitFixture) []byte {
			r := l.good("edge+a", 11)
			r.Apps, r.Same = nil, status.Digest(l.good("edge+a", 10))
			return encode(r)
		}},
		{"8 MiB", intake.TooLarge, func(*gitFixture) []byte { return noise }},
		{"50 MiB, packed well", intake.TooLarge, func(*gitFixture) []byte { return bytes.Repeat([]byte(" "), 50<<20) }},
		{"no text", intake.Malformed, func(*gitFixture) []byte { return []byte("\xff\xfe\x00") }},
		{"nothing", intake.Malformed, func(*gitFixture) []byte { return []byte{} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLab(t, syncobjects.StatusRef, "edge+a", "edge+b")
			l.send("edge+a", l.good("edge+a", 10))
			l.wantLook("the first report", "taken", "edge+a/web#10"+ready)
			l.put("edge+a", c.text(l))
			received := l.host.Stats().Received
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			l.wantLook(c.name, c.result)
			runtime.ReadMemStats(&after)
			if n := l.host.Stats().Received - received; n > status.MaxSize+1<<20 {
				t.Errorf("%d bytes were received", n)
			}
			if n := after.TotalAlloc - before.TotalAlloc; n > 40<<20 {
				t.Errorf("%d bytes were allocated", n)
			}
			l.wantLook("it is met once", "")
			note := l.note("edge+a")
			if note.Seq != 10 || note.Refused == nil || note.Refused.Result != c.result || note.Refused.Count != 1 || note.Refused.Why == "" {
				t.Errorf("the note is %+v, want the refusal in it", note)
			}
			l.send("edge+a", l.good("edge+a", 11))
			l.send("edge+b", l.good("edge+b", 1))
			l.clock(time.Hour)
			l.wantLook("good reports after that", "taken taken", "edge+a/web#11"+ready, "edge+b/web#1"+ready)
			if note := l.note("edge+a"); note.Seq != 11 || note.Refused == nil {
				t.Errorf("the note is %+v, want the new sequence, and the refusal still", note)
			}
		})
	}
}

func TestBranchesOfNoClusterAreLeftAlone(t *testing.T) {
	t.Parallel()
	l := newLab(t, syncobjects.StatusRef, "edge+a")
	l.send("edge+x", l.good("edge+a", 5))
	l.wantLook("a branch of no cluster", "unregistered")
	l.wantLook("it is counted once", "")
	if l.host.Stats().Fetches != 0 {
		t.Error("it was fetched")
	}
}

// After a restart the newest report is met again. It is as old as it is: a cluster that
// has been silent for a day must not look alive.
func TestARestartDoesNotMakeOldNewsFresh(t *testing.T) {
	t.Parallel()
	l := newLab(t, syncobjects.StatusRef, "edge+a", "edge+b")
	l.send("edge+a", l.good("edge+a", 10))
	l.wantLook("the first report", "taken", "edge+a/web#10"+ready)
	l.send("edge+b", l.good("edge+b", 3)) // no poll has read it yet
	l.clock(24 * time.Hour)
	l.restart()
	got, _ := l.look()
	if len(got) != 2 || !got[0].At.Equal(start) || !got[1].At.Equal(start) {
		t.Errorf("reports are %+v, want those of a day ago", got)
	}
	l.put("edge+a", func() []byte { text, _ := status.Encode(l.good("edge+a", 9), 0); return text }())
	l.wantLook("a replay after the restart", "replayed")
	l.send("edge+a", l.good("edge+a", 11))
	got, _ = l.look()
	if len(got) != 1 || !got[0].At.Equal(start.Add(24*time.Hour)) {
		t.Errorf("reports are %+v, want one of now", got)
	}
}

// H-59: an agent was offline and is late; what it sends then is ordered by sequence, and
// what it sent before and arrives after that counts for nothing. A server that cannot
// be reached leaves the last known state as it is.
func TestH59MonitorOfflineAndLate(t *testing.T) {
	t.Parallel()
	l := newLab(t, syncobjects.StatusRef, "edge+a")
	l.send("edge+a", l.good("edge+a", 10))
	l.wantLook("before", "taken", "edge+a/web#10"+ready)
	l.server.Answer(2, http.StatusBadGateway, -1)
	if err := l.poller.poll(t.Context()); err == nil {
		t.Error("a look at a server that is down: no error")
	}
	if p := l.poller.nextInterval(nil); p < time.Hour {
		t.Errorf("the pause is %s", p)
	}
	l.server.Answer(0, 0, -1)
	l.clock(8 * time.Hour)
	late := l.good("edge+a", 12)
	late.At = start.Add(time.Minute) // it slept since then
	late.Apps[0].Objects[0].Status = status.InProgress
	l.send("edge+a", late)
	got, _ := l.look()
	if len(got) != 1 || got[0].Seq != 12 || !got[0].At.Equal(start.Add(8*time.Hour)) {
		t.Errorf("reports are %+v, want the late one, received now", got)
	}
	l.send("edge+a", l.good("edge+a", 11))
	l.wantLook("one that is later still, and older", "replayed")
	ahead := l.good("edge+a", 13)
	ahead.At = start.AddDate(100, 0, 0)
	l.send("edge+a", ahead)
	got, _ = l.look()
	if len(got) != 1 || !got[0].At.Equal(start.Add(8*time.Hour)) {
		t.Errorf("reports are %+v, want the time of receipt, independent of the clock of the cluster", got)
	}
	if note := l.note("edge+a"); note.Ahead == "" {
		t.Errorf("the note is %+v, want that the clock is ahead", note)
	}
}

func TestReportsWithoutNewsAreHandedOnNowAndThen(t *testing.T) {
	t.Parallel()
	l := newLab(t, syncobjects.StatusRef, "edge+a")
	var handed []string
	for i := range 7 {
		l.send("edge+a", l.good("edge+a", uint64(i+1)))
		got, _ := l.look()
		handed = append(handed, saidAll(got)...)
		l.clock(25 * time.Second)
	}
	want := []string{"edge+a/web#1" + ready, "edge+a/web#4" + ready, "edge+a/web#7" + ready}
	if !slices.Equal(handed, want) {
		t.Errorf("handed on were %q, want one in a minute", handed)
	}
}

// Where the store cannot be read, nothing counts as dealt with.
func TestAReportWaitsForTheStore(t *testing.T) {
	t.Parallel()
	l := newLab(t, syncobjects.StatusRef, "edge+a")
	l.send("edge+a", l.good("edge+a", 10))
	l.fleet.down = true
	if err := l.poller.poll(t.Context()); err == nil {
		t.Error("a look without the store: no error")
	}
	l.fleet.down = false
	l.wantLook("with the store", "taken", "edge+a/web#10"+ready)
}

// A bug in here ends a look and not the process.
// A report that causes a panic is refused, alone and once; the next one of the cluster counts.
func TestF74AReportThatPanicsIsQuarantined(t *testing.T) {
	t.Parallel()
	l := newLab(t, syncobjects.StatusRef, "edge+a", "edge+b")
	l.send("edge+a", l.good("edge+a", 10))
	l.send("edge+b", l.good("edge+b", 10))
	deliver := l.notifier.Deliver
	l.notifier.Deliver = func(ctx context.Context, r appcontext.Report) {
		if r.Key.Cluster == "edge+a" {
			panic("index out of range")
		}
		deliver(ctx, r)
	}
	l.wantLook("a panic", "taken fault", "edge+b/web#10"+ready)
	l.wantLook("it is met once", "")
	if note := l.note("edge+a"); note.Refused == nil || note.Refused.Result != intake.Fault {
		t.Errorf("the note is %+v", note)
	}
	l.notifier.Deliver = deliver
	l.send("edge+a", l.good("edge+a", 11))
	l.wantLook("after that", "taken", "edge+a/web#11"+ready)
}

// Upstream's path: one file for each app next to the header, on the desired branch.
func TestReportsInEMCOsPath(t *testing.T) {
	t.Parallel()
	l := newLab(t, syncobjects.StatusPath, "edge+a", "edge+b")
	put := func(r status.Report) {
		t.Helper()
		root, files := "clusters/"+r.Cluster+"/status/", map[string]gittest.File{}
		apps := r.Apps
		for _, a := range apps {
			r.Apps = []status.App{a}
			text, err := status.Encode(r, 0)
			if err != nil {
				t.Fatal(err)
			}
			id, app, _ := strings.Cut(a.Label, "-")
			files[root+id+"/app/"+app+"/"+a.Label] = gittest.File{Content: string(text)}
		}
		r.Apps = nil
		text, err := status.Encode(r, 0)
		if err != nil {
			t.Fatal(err)
		}
		files[root+status.File] = gittest.File{Content: string(text)}
		if _, err := l.bare.CommitExternal(t.Context(), "main", files); err != nil {
			t.Fatal(err)
		}
	}
	l.wantLook("nothing there", "")
	put(l.good("edge+a", 7))
	put(l.good("edge+b", 3))
	l.wantLook("both new", "taken taken", "edge+a/web#7"+ready, "edge+b/web#3"+ready)
	if _, err := l.bare.CommitExternal(t.Context(), "main", map[string]gittest.File{"README": {Content: "other"}}); err != nil {
		t.Fatal(err)
	}
	l.wantLook("another author's commit", "")
	r := l.good("edge+a", 8)
	r.Apps[0].Objects[1].Status = status.InProgress
	r.Apps = append(r.Apps, status.App{Label: "43-db"})
	put(r)
	l.wantLook("one changed", "taken", "edge+a/web#8: web=Current@aa11 conf=InProgress@bb22")
	r.Seq = 7
	put(r)
	l.wantLook("a replay", "replayed")
	r.Seq, r.Apps = 20, nil
	put(r) // the file of the app stays as it is
	l.clock(time.Hour)
	l.wantLook("a heartbeat", "taken", "edge+a/web#20: web=Current@aa11 conf=InProgress@bb22")
	for what, c := range map[string]struct{ text, result string }{
		"a future schema": {`{"schema":"emco.status/v9","cluster":{}}`, intake.Schema},
		"no report":       {`{"schema":"emco.status/v1","apps":7}`, intake.Malformed},
		"50 MiB":          {strings.Repeat("x", 50<<20), intake.TooLarge},
		"forged":          {`{"schema":"emco.status/v1","cluster":"edge+b","seq":99}`, intake.Malformed}, // its apps belong to edge+a
	} {
		if _, err := l.bare.CommitExternal(t.Context(), "main", map[string]gittest.File{"clusters/edge+a/status/" + status.File: {Content: c.text}}); err != nil {
			t.Fatal(err)
		}
		l.wantLook(what, c.result)
		l.wantLook(what+", once", "")
	}
}

// A call of the Git server makes the look happen at once, if it is genuine.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	l := newLab(t, syncobjects.StatusRef, "edge+a")
	delivered := make(chan appcontext.Report, 10)
	l.notifier.Deliver = func(_ context.Context, r appcontext.Report) { delivered <- r }
	done := make(chan error, 1)
	go func() { done <- l.source.Run(t.Context()) }()
	t.Cleanup(func() {
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	l.send("edge+a", l.good("edge+a", 5))
	payload, err := json.Marshal(map[string]any{"repository": map[string]string{"clone_url": "https://elsewhere.example.org/fleet.git"}})
	if err != nil {
		t.Fatal(err)
	}
	sign := func(secret string) string {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write(payload)
		return "sha256=" + hex.EncodeToString(mac.Sum(nil))
	}
	call := func(secret string, body []byte, header, value string) int {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v2/webhooks/git", bytes.NewReader(body))
		if header != "" {
			r.Header.Set(header, value)
		}
		w := httptest.NewRecorder()
		l.source.Webhook(secret).ServeHTTP(w, r)
		return w.Code
	}
	for _, c := range []struct {
		name, secret, header, value string
		body                        []byte
		want                        int
	}{
		{"no secret is configured", "", "X-Hub-Signature-256", sign(""), payload, http.StatusForbidden},
		{"no signature", "s", "", "", payload, http.StatusUnauthorized},
		{"a signature with another secret", "s", "X-Hub-Signature-256", sign("t"), payload, http.StatusUnauthorized},
		{"a signature of another body", "s", "X-Hub-Signature-256", sign("s"), []byte("{}"), http.StatusUnauthorized},
		{"a signature by a weak hash", "s", "X-Hub-Signature", "sha1=00", payload, http.StatusUnauthorized},
		{"a signature that is none", "s", "X-Hub-Signature-256", "sha256=zz", payload, http.StatusUnauthorized},
		{"a wrong token", "s", "X-Gitlab-Token", "t", payload, http.StatusUnauthorized},
		{"too large", "s", "X-Gitlab-Token", "s", make([]byte, maxPayload+1), http.StatusRequestEntityTooLarge},
	} {
		if got := call(c.secret, c.body, c.header, c.value); got != c.want {
			t.Errorf("%s: status %d, want %d", c.name, got, c.want)
		}
	}
	await := func(seq uint64) {
		t.Helper()
		limit := time.After(20 * time.Second)
		for {
			select {
			case r := <-delivered:
				if r.Seq == seq {
					return
				}
			case <-limit:
				t.Fatalf("report %d does not come", seq)
			}
		}
	}
	awaitLooking := func() { // until the poller has taken in what was there at first
		t.Helper()
		await(5)
	}
	if got := call("s", payload, "X-Hub-Signature-256", sign("s")); got != http.StatusAccepted {
		t.Errorf("a genuine call: status %d", got)
	}
	awaitLooking()
	for i, c := range []struct{ header, value string }{{"X-Hub-Signature-256", sign("s")}, {"X-Gitlab-Token", "s"}} {
		r := l.good("edge+a", uint64(6+i))
		r.Apps[0].Objects[0].Reason = c.header
		l.send("edge+a", r)
		if got := call("s", payload, c.header, c.value); got != http.StatusAccepted {
			t.Errorf("a genuine call: status %d", got)
		}
		await(uint64(6 + i))
	}
}

func TestPathsOfRepositories(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"https://git.example.org/U/fleet.git": "u/fleet", "git@git.example.org:u/fleet.git": "u/fleet",
		"ssh://git@git.example.org:22/u/fleet": "u/fleet", "": "", "http://[": "",
	} {
		if got := pathOf(text); got != want {
			t.Errorf("pathOf(%q) = %q, want %q", text, got, want)
		}
	}
}
