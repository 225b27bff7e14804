package plain_test

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/gittest"
	"github.com/emco-orchestrator/emco/src/git/plain"
)

var edit = []git.Edit{{Path: "f", File: []byte("x")}}

// wantErr checks the kind, and that no credential is in the text.
func wantErr(t *testing.T, call string, err error, kind errs.Kind) {
	t.Helper()
	if !errs.Is(err, kind) {
		t.Errorf("%s: got %v of kind %v, want kind %v", call, err, errs.KindOf(err), kind)
	}
	if text := fmt.Sprintf("%v %+v %#v", err, err, err); strings.Contains(text, token) {
		t.Errorf("%s: the error holds the token: %s", call, text)
	}
}

func TestStatusesBecomeKinds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		status int
		after  time.Duration
		kind   errs.Kind
		wait   time.Duration
	}{
		{"throttled with a time", 429, 7 * time.Second, errs.Throttled, 7 * time.Second},
		{"throttled without a time", 429, -1, errs.Throttled, time.Minute},
		{"a secondary limit", 403, 3 * time.Second, errs.Throttled, 3 * time.Second},
		{"forbidden", 403, -1, errs.Forbidden, 0},
		{"unauthorized", 401, -1, errs.Unauthorized, 0},
		{"no repository", 404, -1, errs.NotFound, 0},
		{"too large", 413, -1, errs.TooLarge, 0},
		{"broken server", 500, -1, errs.Unavailable, 0},
		{"overloaded server", 503, 9 * time.Second, errs.Unavailable, 9 * time.Second},
		{"gateway", 502, -1, errs.Unavailable, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			srv, _, repo := server(t)
			host := plain.New(plain.Options{})
			srv.Answer(2, c.status, c.after)
			_, err := host.Head(t.Context(), repo, "main")
			wantErr(t, "Head", err, c.kind)
			if got := errs.RetryAfter(err); got != c.wait {
				t.Errorf("RetryAfter = %v, want %v", got, c.wait)
			}
			_, err = host.Commit(t.Context(), repo, "main", "", edit, git.Message{})
			wantErr(t, "Commit", err, c.kind)
			if _, err = host.Commit(t.Context(), repo, "main", "", edit, git.Message{}); err != nil {
				t.Errorf("Commit after the fault: %v", err)
			}
		})
	}
}

func TestLoginsAndRights(t *testing.T) {
	t.Parallel()
	_, _, repo := server(t)
	host := plain.New(plain.Options{})
	at, err := host.Commit(t.Context(), repo, "main", "", edit, git.Message{})
	if err != nil {
		t.Fatal(err)
	}
	reader := repo
	reader.User, reader.Token = "reader", "r34d"
	if got, err := host.Head(t.Context(), reader, "main"); err != nil || got != at {
		t.Errorf("Head as reader = %s, %v, want %s", got, err, at)
	}
	_, err = host.Commit(t.Context(), reader, "main", at, []git.Edit{{Path: "g", File: []byte("x")}}, git.Message{})
	wantErr(t, "Commit as reader", err, errs.Forbidden)
	wrong := repo
	wrong.Token = token + "-old"
	_, err = host.Head(t.Context(), wrong, "main")
	wantErr(t, "Head with an old token", err, errs.Unauthorized)
	_, err = host.Commit(t.Context(), wrong, "main", "", edit, git.Message{})
	wantErr(t, "Commit with an old token", err, errs.Unauthorized)
	missing := repo
	missing.URL = strings.Replace(repo.URL, "repo.git", "none.git", 1)
	_, err = host.Head(t.Context(), missing, "main")
	wantErr(t, "Head of no repository", err, errs.NotFound)
}

func TestHookRefusalQuotesTheServer(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"http", "ssh", "file"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			bare, repo := serve(t, transport)
			host := plain.New(plain.Options{AllowFile: true})
			if err := bare.Reject("branch needs a review, https://emco:" + token + "@host/ " + token); err != nil {
				t.Fatal(err)
			}
			_, err := host.Commit(t.Context(), repo, "main", "", edit, git.Message{})
			if !errs.Is(err, errs.Forbidden) || !strings.Contains(err.Error(), "branch needs a review") {
				t.Errorf("got %v of kind %v, want Forbidden with the server's text", err, errs.KindOf(err))
			}
			if transport == "http" {
				wantErr(t, "Commit", err, errs.Forbidden)
			}
			_, err = host.Head(t.Context(), repo, "main")
			wantErr(t, "Head", err, errs.NotFound)
			if err := bare.Accept(); err != nil {
				t.Fatal(err)
			}
			if _, err := host.Commit(t.Context(), repo, "main", "", edit, git.Message{}); err != nil {
				t.Errorf("Commit after the hook is gone: %v", err)
			}
		})
	}
}

// The branch moves after the server has advertised its head; the server's own comparison
// refuses the push.
func TestRaceInTheMiddleOfAPush(t *testing.T) {
	t.Parallel()
	srv, bare, repo := server(t)
	host := plain.New(plain.Options{})
	at := foreign(t, t.Context(), bare, "main", map[string]gittest.File{"a": {Content: "a"}})
	var theirs git.Hash
	srv.BeforePush(func(string) {
		theirs = foreign(t, context.WithoutCancel(t.Context()), bare, "main", map[string]gittest.File{"b": {Content: "b"}})
	})
	_, err := host.Commit(t.Context(), repo, "main", at, edit, git.Message{})
	wantErr(t, "Commit", err, errs.Conflict)
	if head, err := host.Head(t.Context(), repo, "main"); err != nil || head != theirs {
		t.Errorf("Head = %s, %v, want the foreign commit %s", head, err, theirs)
	}
}

func TestLostReplyIsUnavailable(t *testing.T) {
	t.Parallel()
	srv, bare, repo := server(t)
	host := plain.New(plain.Options{})
	srv.DropReplies(1)
	_, err := host.Commit(t.Context(), repo, "main", "", edit, git.Message{})
	wantErr(t, "Commit", err, errs.Unavailable)
	head, err := host.Head(t.Context(), repo, "main")
	if err != nil {
		t.Fatalf("the push should have happened: %v", err)
	}
	_, before := srv.Requests()
	again, err := host.Commit(t.Context(), repo, "main", head, edit, git.Message{})
	if err != nil || again != head {
		t.Errorf("Commit of what is there = %s, %v, want %s", again, err, head)
	}
	if _, after := srv.Requests(); after != before {
		t.Errorf("%d pushes were sent for edits that change nothing", after-before)
	}
	if n, err := bare.Git(t.Context(), "", "rev-list", "--count", "main"); err != nil || n != "1" {
		t.Errorf("the branch has %s commits, %v, want 1", n, err)
	}
}

func TestRedirectCarriesNoCredentials(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	evil := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked.Add(1) }))
	t.Cleanup(evil.Close)
	srv, _, repo := server(t)
	srv.Redirect(evil.URL)
	host := plain.New(plain.Options{})
	_, err := host.Head(t.Context(), repo, "main")
	wantErr(t, "Head", err, errs.Forbidden)
	_, err = host.Commit(t.Context(), repo, "main", "", edit, git.Message{})
	wantErr(t, "Commit", err, errs.Forbidden)
	if n := asked.Load(); n != 0 {
		t.Errorf("the other host got %d requests, want none", n)
	}
}

// Servers that are no Git servers, or hostile, give typed errors in bounded time.
func TestHostileServers(t *testing.T) {
	t.Parallel()
	const advert = "001e# service=git-upload-pack\n0000" +
		"0066" + "1111111111111111111111111111111111111111 refs/heads/main\x00side-band-64k shallow filter no-progress\n" + "0000"
	git1 := git.Hash(strings.Repeat("1", 40))
	for _, c := range []struct {
		name, kind, advert string
		reply              func(http.ResponseWriter)
	}{
		{"a login page", "text/html", "<html>", nil},
		{"an empty answer", "application/x-git-upload-pack-advertisement", "", nil},
		{"garbage", "application/x-git-upload-pack-advertisement", "zzzz not pkt-lines", nil},
		{"a cut advertisement", "application/x-git-upload-pack-advertisement", advert[:60], nil},
		{"an endless sideband", "application/x-git-upload-pack-advertisement", advert, func(w http.ResponseWriter) {
			fmt.Fprint(w, "0000", "0008NAK\n")
			for {
				if _, err := fmt.Fprintf(w, "%04x\x02%s", 5+1000, strings.Repeat("x", 1000)); err != nil {
					return
				}
			}
		}},
		{"no pack", "application/x-git-upload-pack-advertisement", advert, func(w http.ResponseWriter) {
			fmt.Fprint(w, "0000", "0008NAK\n", "0011\x01not a pack..", "0000")
		}},
		{"a pack that claims 4 billion objects", "application/x-git-upload-pack-advertisement", advert, func(w http.ResponseWriter) {
			fmt.Fprint(w, "0000", "0008NAK\n", "0011\x01PACK\x00\x00\x00\x02\xff\xff\xff\xff", "0000")
		}},
		{"an object that claims to be huge", "application/x-git-upload-pack-advertisement", advert, func(w http.ResponseWriter) {
			fmt.Fprint(w, "0000", "0008NAK\n", "0017\x01PACK\x00\x00\x00\x02\x00\x00\x00\x01\xaf\xff\xff\xff\xff\x7f", "0000")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					w.Header().Set("Content-Type", c.kind)
					fmt.Fprint(w, c.advert)
					return
				}
				w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
				c.reply(w)
			}))
			t.Cleanup(srv.Close)
			host := plain.New(plain.Options{MaxFetch: 1 << 20, Timeout: 20 * time.Second})
			repo := git.Repo{URL: srv.URL + "/r.git", User: userName, Token: token}
			var err error
			for _, err = range host.Tree(t.Context(), repo, git1, "") {
			}
			if !errs.Is(err, errs.Unavailable) && !errs.Is(err, errs.TooLarge) {
				t.Errorf("Tree: got %v of kind %v, want Unavailable or TooLarge", err, errs.KindOf(err))
			}
		})
	}
}

func TestAddressesThatAreRefused(t *testing.T) {
	t.Parallel()
	host := plain.New(plain.Options{})
	for _, url := range []string{
		"ext::sh -c true", "file:///etc", "-oProxyCommand=true", "https://user:" + token + "@h/r.git", "https://user@h/r.git",
		"ssh://git:" + token + "@h/r", "ftp://h/r", "/etc", "git@h:-r", "ssh://-h/r", "https://h", "https://h/r?t=" + token, "https://h/../r", "h:",
		"git@-h:r", "https://h/a b", "ssh://-oX@h/r",
	} {
		_, err := host.Head(t.Context(), git.Repo{URL: url, Token: token}, "main")
		wantErr(t, url, err, errs.Invalid)
	}
	_, err := host.Head(t.Context(), git.Repo{URL: "http://169.254.169.254/r.git"}, "main")
	wantErr(t, "Head of a metadata address", err, errs.Forbidden)
	_, err = host.Head(t.Context(), git.Repo{URL: "ssh://git@[fe80::1]/r.git", SSHKey: key(t), KnownHosts: "[fe80::1]:22 ssh-ed25519 " + hostKey}, "main")
	if err == nil {
		t.Error("Head of a link-local address succeeds")
	}
	strict := plain.New(plain.Options{Admit: func(a netip.Addr) error {
		if a.IsLoopback() {
			return errs.New(errs.Forbidden, "not this machine")
		}
		return nil
	}})
	_, _, repo := server(t)
	_, err = strict.Head(t.Context(), repo, "main")
	wantErr(t, "Head of this machine where that is not admitted", err, errs.Forbidden)
}

// hostKey is some public key.
const hostKey = "AAAAC3NzaC1lZDI1NTE5AAAAIJ4Zq0mCbWVgqHHDBqaS6oI3eIpkZCDFRP0dIwhjJ5kH"

func key(t *testing.T) git.Secret {
	t.Helper()
	k, err := gittest.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return git.Secret(k)
}

func TestSSHTrust(t *testing.T) {
	t.Parallel()
	_, repo := serve(t, "ssh")
	host := plain.New(plain.Options{})
	other := strings.Fields(repo.KnownHosts)[0] + " ssh-ed25519 " + hostKey + "\n"
	for _, c := range []struct {
		name   string
		change func(*git.Repo)
		kind   errs.Kind
	}{
		{"no known hosts", func(r *git.Repo) { r.KnownHosts = "" }, errs.Invalid},
		{"broken known hosts", func(r *git.Repo) { r.KnownHosts = "x y z" }, errs.Invalid},
		{"a host that is not listed", func(r *git.Repo) { r.KnownHosts = "example.org ssh-ed25519 " + hostKey }, errs.Forbidden},
		{"another key than listed", func(r *git.Repo) { r.KnownHosts = other }, errs.Forbidden},
		{"no key of ours", func(r *git.Repo) { r.SSHKey = "" }, errs.Invalid},
		{"a key that the server does not know", func(r *git.Repo) { r.SSHKey = key(t) }, errs.Unauthorized},
		{"no such repository", func(r *git.Repo) { r.URL = strings.Replace(r.URL, "/repo.git", "/none.git", 1) }, errs.NotFound},
	} {
		r := repo
		c.change(&r)
		_, err := host.Head(t.Context(), r, "main")
		if !errs.Is(err, c.kind) {
			t.Errorf("%s: got %v of kind %v, want %v", c.name, err, errs.KindOf(err), c.kind)
		}
		if err != nil && strings.Contains(err.Error(), "PRIVATE") {
			t.Errorf("%s: the error holds the key", c.name)
		}
	}
}

// A request to a silent server ends at its time-out, on every transport.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // the system accepts, no program answers
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	at := silent.Addr().String()
	host := plain.New(plain.Options{Timeout: 200 * time.Millisecond})
	for _, repo := range []git.Repo{
		{URL: "http://" + at + "/r.git"},
		{URL: "ssh://git@" + at + "/r.git", SSHKey: key(t), KnownHosts: knownhosts.Normalize(at) + " ssh-ed25519 " + hostKey},
	} {
		_, err := host.Head(t.Context(), repo, "main")
		if !errs.Is(err, errs.Unavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Head of %s: got %v, want Unavailable for the deadline", repo.URL, err)
		}
	}
}

// A private authority is trusted only if the repository names it.
func TestPrivateAuthority(t *testing.T) {
	t.Parallel()
	srv, _, repo := server(t)
	tls := httptest.NewUnstartedServer(srv)
	tls.Config.ErrorLog = log.New(io.Discard, "", 0) // the refused handshake is what we want
	tls.StartTLS()
	t.Cleanup(tls.Close)
	repo.URL = tls.URL + "/repo.git"
	host := plain.New(plain.Options{})
	_, err := host.Head(t.Context(), repo, "main")
	wantErr(t, "Head without the CA", err, errs.Unavailable)
	repo.CA = "no certificate"
	_, err = host.Head(t.Context(), repo, "main")
	wantErr(t, "Head with a broken CA", err, errs.Invalid)
	repo.CA = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: tls.Certificate().Raw}))
	if _, err := host.Commit(t.Context(), repo, "main", "", edit, git.Message{}); err != nil {
		t.Errorf("Commit with the CA: %v", err)
	}
}
