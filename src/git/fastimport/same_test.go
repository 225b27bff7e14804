package fastimport_test

import (
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/fastimport"
	"github.com/emco-orchestrator/emco/src/git/gittest"
	"github.com/emco-orchestrator/emco/src/git/plain"
	"github.com/emco-orchestrator/emco/src/git/sshsig"
)

// Whatever is edited, both engines refuse the same, and make the same trees and the same
// commits of the same messages.
func TestBothEnginesMakeTheSameCommits(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			compare(t, rand.New(rand.NewPCG(seed, 31)))
		})
	}
}

func compare(t *testing.T, r *rand.Rand) {
	signer := signer(t)
	engines := [2]git.Host{plain.New(plain.Options{AllowFile: true}), newHost(t, fastimport.Options{})}
	var bares [2]gittest.Bare
	var repos [2]git.Repo
	for i := range bares {
		bares[i], repos[i] = serve(t, "file")
	}
	var at git.Hash
	for step := range 12 {
		edits := randomEdits(r)
		m := git.Message{Title: fmt.Sprint("step ", step), Trailers: []git.Trailer{{Key: "Emco-Op", Value: "ü"}}, Author: "Ann <ann@example.org>", When: time.Unix(1_700_000_000+int64(step), 0)}
		if step%3 == 0 {
			m.Signer = signer
		}
		var ids [2]git.Hash
		var kinds [2]error
		for i, h := range engines {
			ids[i], kinds[i] = h.Commit(t.Context(), repos[i], "main", at, edits, m)
		}
		if ids[0] != ids[1] || errs.KindOf(kinds[0]) != errs.KindOf(kinds[1]) || blamed(kinds[0]) != blamed(kinds[1]) {
			t.Fatalf("step %d: direct makes %s, %v, fast-import %s, %v, of %q", step, ids[0], kinds[0], ids[1], kinds[1], edits)
		}
		if kinds[0] == nil {
			at = ids[0]
		}
	}
	for i, b := range bares {
		if err := b.Fsck(t.Context()); err != nil {
			t.Errorf("engine %d: %v", i, err)
		}
	}
}

// blamed is the path that an error blames, with the reason.
func blamed(err error) string {
	if err == nil {
		return ""
	}
	_, text, _ := strings.Cut(err.Error(), "repo.git: ")
	return text
}

// randomEdits are edits that do not overlap, of few names, so that they meet what is there.
func randomEdits(r *rand.Rand) []git.Edit {
	shared := map[string][]byte{}
	for range 1 + r.IntN(4) {
		shared[randomPath(r, 3)] = []byte(strings.Repeat(fmt.Sprint(r.IntN(3)), r.IntN(3000)))
	}
	if git.CheckEdits([]git.Edit{{Path: "x", Dir: shared}}) != nil {
		shared = map[string][]byte{`a "quoted" ü`: []byte("a")}
	}
	var edits []git.Edit
	for range 1 + r.IntN(6) {
		e := git.Edit{Path: randomPath(r, 4)}
		switch r.IntN(4) {
		case 0:
			e.File = fmt.Append(nil, r.IntN(3))
		case 1, 2:
			e.Dir = shared
		}
		if git.CheckEdits(append(edits, e)) == nil {
			edits = append(edits, e)
		}
	}
	return edits
}

func randomPath(r *rand.Rand, depth int) string {
	var names []string
	for range 1 + r.IntN(depth) {
		names = append(names, string(rune('a'+r.IntN(3))))
	}
	return strings.Join(names, "/")
}

func signer(t *testing.T) git.Signer {
	t.Helper()
	s, err := sshsig.New([]byte(key(t)))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func key(t *testing.T) git.Secret {
	t.Helper()
	k, err := gittest.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return git.Secret(k)
}

// engines are both, for tests that expect the same of them.
func engines(t *testing.T) map[string]git.Host {
	return map[string]git.Host{"direct": plain.New(plain.Options{AllowFile: true}), "fast-import": newHost(t, fastimport.Options{})}
}

var stamp = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

var edit = []git.Edit{{Path: "f", File: []byte("x")}}

// wantErr checks the kind, and that no credential is in the text.
func wantErr(t *testing.T, call string, err error, kind errs.Kind) {
	t.Helper()
	if !errs.Is(err, kind) {
		t.Errorf("%s: got %v of kind %v, want kind %v", call, err, errs.KindOf(err), kind)
	}
	if text := fmt.Sprintf("%v %+v %#v", err, err, err); strings.Contains(text, token) || strings.Contains(text, "PRIVATE") {
		t.Errorf("%s: the error holds a credential: %s", call, text)
	}
}

// What an HTTP server answers, and when it wants to be asked again, is the same by both
// engines.
func TestH52StatusesBecomeTheSameKinds(t *testing.T) {
	t.Parallel()
	const never, later = -1, 7 * time.Second
	for _, c := range []struct {
		status int
		after  time.Duration // that the server says
		kind   errs.Kind
		wait   time.Duration
	}{
		{429, never, errs.Throttled, time.Minute},
		{429, later, errs.Throttled, later},
		{403, later, errs.Throttled, later},
		{403, never, errs.Forbidden, 0},
		{401, never, errs.Unauthorized, 0},
		{404, never, errs.NotFound, 0},
		{413, never, errs.TooLarge, 0},
		{422, never, errs.Invalid, 0},
		{500, never, errs.Unavailable, 0},
		{502, never, errs.Unavailable, 0},
		{503, later, errs.Unavailable, later},
	} {
		for name, h := range engines(t) {
			t.Run(fmt.Sprint(name, " ", c.status, " ", c.after), func(t *testing.T) {
				t.Parallel()
				srv, _, repo := server(t)
				srv.Answer(1, c.status, c.after)
				_, err := h.Head(t.Context(), repo, "main")
				wantErr(t, "Head", err, c.kind)
				if wait := errs.RetryAfter(err); wait != c.wait {
					t.Errorf("RetryAfter = %v, want %v", wait, c.wait)
				}
				srv.Answer(1, c.status, c.after)
				_, err = h.Commit(t.Context(), repo, "main", "", edit, git.Message{})
				wantErr(t, "Commit", err, c.kind)
				if wait := errs.RetryAfter(err); wait != c.wait {
					t.Errorf("RetryAfter of a push = %v, want %v", wait, c.wait)
				}
				if _, err = h.Commit(t.Context(), repo, "main", "", edit, git.Message{}); err != nil {
					t.Errorf("Commit after the fault: %v", err)
				}
			})
		}
	}
}

func TestRefusalsAreOfTheSameKinds(t *testing.T) {
	t.Parallel()
	const hostKey = "AAAAC3NzaC1lZDI1NTE5AAAAIJ4Zq0mCbWVgqHHDBqaS6oI3eIpkZCDFRP0dIwhjJ5kH"
	_, web := serve(t, "http")
	_, ssh := serve(t, "ssh")
	stranger := key(t)
	for _, c := range []struct {
		name   string
		repo   git.Repo
		change func(*git.Repo)
		kind   errs.Kind
	}{
		{"an old token", web, func(r *git.Repo) { r.Token += "-old" }, errs.Unauthorized},
		{"no token", web, func(r *git.Repo) { r.Token = "" }, errs.Unauthorized},
		{"a reader", web, func(r *git.Repo) { r.User, r.Token = "reader", "r34d" }, errs.Forbidden},
		{"no repository", web, func(r *git.Repo) { r.URL = strings.Replace(r.URL, "/repo.git", "/none.git", 1) }, errs.NotFound},
		{"nobody listens", web, func(r *git.Repo) { r.URL = "http://127.0.0.1:1/repo.git" }, errs.Unavailable},
		{"no known hosts", ssh, func(r *git.Repo) { r.KnownHosts = "" }, errs.Invalid},
		{"a host that is not listed", ssh, func(r *git.Repo) { r.KnownHosts = "example.org ssh-ed25519 " + hostKey }, errs.Forbidden},
		{"another key than listed", ssh, func(r *git.Repo) { r.KnownHosts = strings.Fields(r.KnownHosts)[0] + " ssh-ed25519 " + hostKey + "\n" }, errs.Forbidden},
		{"no key of ours", ssh, func(r *git.Repo) { r.SSHKey = "" }, errs.Invalid},
		{"a key that the server does not know", ssh, func(r *git.Repo) { r.SSHKey = stranger }, errs.Unauthorized},
		{"no repository by ssh", ssh, func(r *git.Repo) { r.URL = strings.Replace(r.URL, "/repo.git", "/none.git", 1) }, errs.NotFound},
		{"an option", ssh, func(r *git.Repo) { r.URL = "-oProxyCommand=true" }, errs.Invalid},
		{"a helper", ssh, func(r *git.Repo) { r.URL = "ext::sh -c true" }, errs.Invalid},
		{"a metadata service", web, func(r *git.Repo) { r.URL = "http://169.254.169.254/r.git" }, errs.Forbidden},
		{"a link-local address by ssh", ssh, func(r *git.Repo) { r.URL, r.KnownHosts = "ssh://git@169.254.1.1/r", "169.254.1.1 ssh-ed25519 "+hostKey }, errs.Forbidden},
	} {
		r := c.repo
		c.change(&r)
		for name, h := range engines(t) {
			_, err := h.Commit(t.Context(), r, "main", "", edit, git.Message{})
			wantErr(t, name+", "+c.name, err, c.kind)
		}
	}
}

func TestHooksRefuseWithTheServersWords(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"http", "ssh", "file"} {
		bare, repo := serve(t, transport)
		repo.Token = token
		if err := bare.Reject("branch needs a review, https://emco:" + token + "@host/ " + token); err != nil {
			t.Fatal(err)
		}
		for name, h := range engines(t) {
			_, err := h.Commit(t.Context(), repo, "main", "", edit, git.Message{})
			wantErr(t, name+" by "+transport, err, errs.Forbidden)
			if err != nil && !strings.Contains(err.Error(), "branch needs a review") {
				t.Errorf("%s by %s: %v, want the server's words", name, transport, err)
			}
		}
	}
}

// The branch moves after the server told where it is: its own comparison decides.
func TestRacesAreLost(t *testing.T) {
	t.Parallel()
	for name, h := range engines(t) {
		srv, bare, repo := server(t)
		at := foreign(t, t.Context(), bare, "main", map[string]gittest.File{"a": {Content: "a"}})
		var theirs git.Hash
		srv.BeforePush(func(string) {
			theirs = foreign(t, t.Context(), bare, "main", map[string]gittest.File{"b": {Content: "b"}})
		})
		_, err := h.Commit(t.Context(), repo, "main", at, edit, git.Message{})
		wantErr(t, name, err, errs.Conflict)
		if head, err := h.Head(t.Context(), repo, "main"); err != nil || head != theirs {
			t.Errorf("%s: head = %s, %v, want the foreign commit %s", name, head, err, theirs)
		}
	}
}

// H-49: a branch that was taken back is not brought forward again.
func TestH49ABranchThatWasTakenBackIsLeftAlone(t *testing.T) {
	t.Parallel()
	for name, h := range engines(t) {
		bare, repo := serve(t, "http")
		one := foreign(t, t.Context(), bare, "main", map[string]gittest.File{"a": {Content: "a"}})
		two := foreign(t, t.Context(), bare, "main", map[string]gittest.File{"a": {Content: "b"}})
		if _, err := bare.Git(t.Context(), "", "update-ref", "refs/heads/main", string(one)); err != nil {
			t.Fatal(err)
		}
		if _, err := bare.Git(t.Context(), "", "update-ref", "refs/heads/other", string(two)); err != nil { // so that it can be had
			t.Fatal(err)
		}
		_, err := h.Commit(t.Context(), repo, "main", two, edit, git.Message{})
		wantErr(t, name, err, errs.Conflict)
		if head, err := h.Head(t.Context(), repo, "main"); err != nil || head != one {
			t.Errorf("%s: head = %s, %v, want %s", name, head, err, one)
		}
	}
}

func TestH53ALostReplyIsUnavailable(t *testing.T) {
	t.Parallel()
	for name, h := range engines(t) {
		srv, _, repo := server(t)
		srv.DropReplies(1)
		_, err := h.Commit(t.Context(), repo, "main", "", edit, git.Message{})
		wantErr(t, name, err, errs.Unavailable)
		head, err := h.Head(t.Context(), repo, "main")
		if err != nil {
			t.Fatalf("%s: the push should have happened: %v", name, err)
		}
		_, before := srv.Requests()
		if again, err := h.Commit(t.Context(), repo, "main", head, edit, git.Message{}); err != nil || again != head {
			t.Errorf("%s: commit of what is there = %s, %v, want %s", name, again, err, head)
		}
		if _, after := srv.Requests(); after != before {
			t.Errorf("%s: %d pushes for edits that change nothing", name, after-before)
		}
	}
}

func TestH18RedirectsCarryNoCredential(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	evil := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(evil.Close)
	for name, h := range engines(t) {
		srv, _, repo := server(t)
		srv.Redirect(evil.URL)
		_, err := h.Head(t.Context(), repo, "main")
		wantErr(t, name, err, errs.Forbidden)
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("the other host got %d requests, want none", n)
	}
}

// H-17: a name is looked at when it is dialled, and the program takes the very address.
func TestH17TheProgramDialsNoOtherAddress(t *testing.T) {
	t.Parallel()
	strict := newHost(t, fastimport.Options{Admit: func(a netip.Addr) error {
		return errs.E(errs.Forbidden, "dial", "", fmt.Errorf("not %s", a))
	}})
	for _, transport := range []string{"http", "ssh"} {
		_, repo := serve(t, transport)
		_, err := strict.Head(t.Context(), repo, "main")
		wantErr(t, transport, err, errs.Forbidden)
	}
}

// A private authority is trusted only where the repository says so.
func TestPrivateAuthority(t *testing.T) {
	t.Parallel()
	srv, _, repo := server(t)
	tls := httptest.NewUnstartedServer(srv)
	tls.Config.ErrorLog = log.New(io.Discard, "", 0) // the refused handshake is what we want
	tls.StartTLS()
	t.Cleanup(tls.Close)
	repo.URL = tls.URL + "/repo.git"
	h := newHost(t, fastimport.Options{})
	_, err := h.Head(t.Context(), repo, "main")
	wantErr(t, "Head without the CA", err, errs.Unavailable)
	repo.CA = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: tls.Certificate().Raw}))
	if _, err := h.Commit(t.Context(), repo, "main", "", edit, git.Message{}); err != nil {
		t.Errorf("Commit with the CA: %v", err)
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
