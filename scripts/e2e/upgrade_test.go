package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/client"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"

	"github.com/emco-orchestrator/emco/scripts/e2e/later"
	"github.com/emco-orchestrator/emco/scripts/e2e/program"
)

// buildLater builds the later release and returns its folder.
func buildLater(t *testing.T) string {
	t.Helper()
	flags, err := later.Flags("../../src", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return buildEmco(t, flags...)
}

// owned is a project with what only the later release knows.
func owned(name string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"owner":"ann"}}`, name)
}

// project sends a document to a process, and returns the answer.
func project(t *testing.T, e *program.Emco, method, name, body string) *client.Response {
	t.Helper()
	api, err := client.New(client.Options{BaseURL: e.URL()})
	if err != nil {
		t.Fatal(err)
	}
	path := "projects"
	if method != http.MethodPost {
		path += "/" + name
	}
	q := client.Request{Method: method, Path: path}
	if body != "" {
		q.Body = client.JSON([]byte(body))
	}
	a, err := api.Do(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// wantRefused wants that a process of the later release refuses its feature, and stores nothing of it.
func wantRefused(t *testing.T, e *program.Emco) {
	t.Helper()
	if a := project(t, e, http.MethodPost, "owned", owned("owned")); a.Status != http.StatusConflict || !strings.Contains(string(a.Body), "needs stores at level 3, they are at 2") {
		t.Errorf("the feature of the later release is answered %d %s", a.Status, a.Body)
	}
	if a := project(t, e, http.MethodGet, "owned", ""); a.Status != http.StatusNotFound {
		t.Errorf("a project that was refused: %d %s", a.Status, a.Body)
	}
}

// wantOwned wants that a process of the later release stores its feature, and that another one keeps it.
func wantOwned(t *testing.T, one, other *program.Emco) {
	t.Helper()
	if a := project(t, one, http.MethodPost, "owned", owned("owned")); a.Status != http.StatusCreated {
		t.Fatalf("the feature of the later release is answered %d %s", a.Status, a.Body)
	}
	if a := project(t, other, http.MethodGet, "owned", ""); a.Status != http.StatusOK || !strings.Contains(string(a.Body), `"owner":"ann"`) {
		t.Errorf("the project: %d %s", a.Status, a.Body)
	}
}

// wantLevel waits until a process describes the levels.
func wantLevel(t *testing.T, e *program.Emco, want string) {
	t.Helper()
	eventually(t, want, func() error {
		text, err := e.Get(t.Context(), "/readyz?verbose")
		if err == nil && !strings.Contains(string(text), "level: ready; "+want+"\n") {
			err = fmt.Errorf("%s", text)
		}
		return err
	})
}

// wantNoStart wants that this release does not start any more, and says what to do.
func wantNoStart(t *testing.T, o program.Options) {
	t.Helper()
	e, err := program.Start(t.Context(), o)
	if err == nil {
		e.Kill()
		t.Error("this release starts on stores of the later one")
		return
	}
	for _, want := range []string{"emco ended", "at level 3 since version " + later.Version, "knows level 2. Start version " + later.Version, "restore the backup from before the upgrade"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the refusal does not say %q: %v", want, err)
		}
	}
}

// S-08: three processes of this release are replaced by a later one in turn, once with a way back, while a load balancer sends reads and
// writes, and deployments change. The later one refuses its feature while a process of this release may read what it stores, for longer than
// the minute after which the level rises; then it stores it, and this release does not start any more. No request fails.
func TestS08ALaterReleaseReplacesThisOne(t *testing.T) {
	do := steps{TB: t}
	do.next("build the later release")
	next := buildLater(t)

	do.next("three processes of this release, on one etcd")
	s, etcd := newStageOnEtcd(t)
	front := &balancer{ready: map[string]time.Time{}}
	options := func(bin, name string) program.Options {
		return program.Options{Bin: bin, Dir: filepath.Join(s.dir, name), Args: []string{
			"-etcd.endpoints", etcd, "-etcd.prefix", "/emco-" + filepath.Base(s.dir) + "/", "-http.linger", "5s", "-lease", "5s",
			"-data", filepath.Join(s.dir, "shared"), // for the sealing key
		}}
	}
	start := func(bin, name string) *program.Emco {
		t.Helper()
		e, err := program.Start(t.Context(), options(bin, name))
		s.must("start "+name, err)
		t.Cleanup(e.Kill)
		front.add(e.URL())
		eventually(t, "the balancer sees "+name, func() error {
			front.probe(t.Context())
			front.mu.Lock()
			defer front.mu.Unlock()
			if front.ready[e.URL()].IsZero() {
				return fmt.Errorf("it is not ready")
			}
			return nil
		})
		return e
	}
	names := []string{"one", "two", "three"}
	var all []*program.Emco
	for _, name := range names {
		all = append(all, start(binaries(), name))
	}
	replace := func(i int, bin string) {
		t.Helper()
		s.must("stop "+names[i], all[i].Stop())
		all[i] = start(bin, names[i])
		s.emco = all[i]
	}
	s.emco = all[0]
	t.Cleanup(func() { s.emco = nil })
	f := s.fleet()
	s.must("register the fleet", f.Found(t.Context(), s.repository()))
	s.must("register clusters", f.Register(t.Context(), 3))
	s.must("open the logical cloud", f.OpenCloud(t.Context()))
	d := apps("shared", 2, 3)
	s.must("onboard", f.Onboard(t.Context(), s.dir, d))
	// change has the process that was replaced last carry out an action. Any process may deliver.
	change := func(action string) {
		t.Helper()
		f := s.fleet()
		if action == "update" {
			s.must("change a value", f.Revalue(t.Context(), d, d.Apps[0].Chart, fmt.Sprintf("colour: c%d\n", time.Now().UnixNano())))
		}
		s.must(action, f.Act(t.Context(), d.Path(), action))
		goal := v2.StatusInstantiated
		if action == "terminate" {
			goal = v2.StatusTerminated
		}
		s.follow(d, goal)
	}
	change("instantiate")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); front.run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })

	do.next("one is of the later release, and then of this one again")
	const mixed = "stores at 2, this version knows 3, the oldest of 3 processes knows 2"
	for range 2 {
		replace(0, next)
		wantLevel(t, all[0], mixed)
		wantLevel(t, all[1], "stores at 2, this version knows 2, the oldest of 3 processes knows 2")
		wantRefused(t, all[0])
		change("update")
		replace(0, binaries())
		change("update")
	}

	do.next("two are of the later release, for longer than a minute")
	replace(0, next)
	replace(1, next)
	for since := time.Now(); time.Since(since) < 70*time.Second; {
		change("update")
		wantRefused(t, all[1])
		wantLevel(t, all[1], mixed)
		wantLevel(t, all[2], "stores at 2, this version knows 2, the oldest of 3 processes knows 2")
	}

	do.next("all are of the later release")
	replace(2, next)
	wantRefused(t, all[2]) // the minute begins
	for _, e := range all {
		wantLevel(t, e, "stores at 3, this version knows 3, the oldest of 3 processes knows 3")
	}
	wantOwned(t, all[0], all[2])
	change("update")

	do.next("this release starts no more")
	wantNoStart(t, options(binaries(), "older"))
	change("terminate")
	cancel()
	<-done
	t.Logf("%d requests, %d streams", front.sent.Load(), front.opened.Load())
	if n := front.failed.Load(); n > 0 || front.sent.Load() < 1000 {
		t.Errorf("%d of %d requests failed, the last: %v", n, front.sent.Load(), front.last.Load())
	}
	for i, e := range all {
		if err := e.Stop(); err != nil {
			t.Errorf("%s: %v", names[i], err)
		}
	}
	do.next("done")
}

// S-08: where the level is left to an operator, this release starts again after the later one, on embedded stores, until emco level raise.
func TestS08AnOperatorGivesTheWayBackUp(t *testing.T) {
	next := buildLater(t)
	options := func(bin string) program.Options {
		return program.Options{Bin: bin, Dir: t.TempDir(), Args: []string{"-level.auto=false"}}
	}
	this := options(binaries())
	renewed := options(next)
	renewed.Dir = this.Dir
	var e *program.Emco
	run := func(o program.Options, levels string) {
		t.Helper()
		if e != nil {
			if err := e.Stop(); err != nil {
				t.Fatal(err)
			}
		}
		var err error
		if e, err = program.Start(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(e.Kill)
		wantLevel(t, e, levels)
	}
	const waits = "stores at 2, this version knows 3, the oldest of 1 processes knows 3; emco level raise raises it"
	run(this, "stores at 2, this version knows 2, the oldest of 1 processes knows 2")
	run(renewed, waits)
	wantRefused(t, e)
	if a := project(t, e, http.MethodPost, "plain", `{"metadata":{"name":"plain"}}`); a.Status != http.StatusCreated {
		t.Errorf("a project without an owner: %d %s", a.Status, a.Body)
	}
	run(this, "stores at 2, this version knows 2, the oldest of 1 processes knows 2")
	if a := project(t, e, http.MethodGet, "plain", ""); a.Status != http.StatusOK {
		t.Errorf("what the later release has made: %d %s", a.Status, a.Body)
	}
	run(renewed, waits)
	out, err := exec.CommandContext(t.Context(), filepath.Join(next, "emco"), "level", "-data", filepath.Join(this.Dir, "data"), "raise").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "rose from 2 to 3") {
		t.Fatalf("emco level raise: %v\n%s", err, out)
	}
	wantOwned(t, e, e)
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}
	e = nil
	wantNoStart(t, this)
	run(renewed, "stores at 3, this version knows 3, the oldest of 1 processes knows 3")
	if a := project(t, e, http.MethodGet, "owned", ""); !strings.Contains(string(a.Body), `"owner":"ann"`) {
		t.Errorf("the project: %d %s", a.Status, a.Body)
	}
}
