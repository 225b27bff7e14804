package plain_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/gittest"
	"github.com/emco-orchestrator/emco/src/git/plain"
)

// script writes a program and returns its path.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	if err := gittest.WriteProgram(path, text); err != nil {
		t.Fatal(err)
	}
	return path
}

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func privateKey(t *testing.T) git.Secret {
	t.Helper()
	key, err := gittest.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return git.Secret(key)
}

// The operator's ssh configuration finds a server that no address leads to, with a key and known
// hosts that only this configuration names.
func TestTheSSHProgramReadsTheOperatorsConfiguration(t *testing.T) {
	t.Parallel()
	_, repo := serve(t, "sshprogram")
	a, err := git.ParseURL(repo.URL)
	if err != nil {
		t.Fatal(err)
	}
	key, hosts := writeFile(t, "key", repo.SSHKey.Reveal()), writeFile(t, "hosts", repo.KnownHosts)
	config := writeFile(t, "config", "Host fleet.invalid\n  HostName 127.0.0.1\n  Port "+a.Port+"\n  HostKeyAlias [127.0.0.1]:"+a.Port+
		"\n  IdentityFile "+key+"\n  UserKnownHostsFile "+hosts+"\n")
	repo.URL = "ssh://git@fleet.invalid/repo.git"
	_, err = newHost(t, plain.Options{}).Head(t.Context(), repo, "main")
	wantErr(t, "without the configuration", err, errs.Unavailable)
	h := newHost(t, plain.Options{SSHConfig: config})
	at, err := h.Commit(t.Context(), repo, "main", "", edit, git.Message{})
	if err != nil {
		t.Fatalf("with the repository's key: %v", err)
	}
	repo.SSHKey, repo.KnownHosts = "", ""
	if head, err := h.Head(t.Context(), repo, "main"); err != nil || head != at {
		t.Errorf("with the operator's key: %s, %v, want %s", head, err, at)
	}
}

// A key is on no command line, in no file and in no environment, and nothing is left behind.
func TestTheSSHProgramGetsNoCredential(t *testing.T) {
	t.Parallel()
	_, repo := serve(t, "sshprogram")
	seen := filepath.Join(t.TempDir(), "seen")
	h := newHost(t, plain.Options{SSH: script(t, `{ printf '%s\n' "$*"; env
for o; do case $o in UserKnownHostsFile=*) dir=${o#*=}; dir=${dir%/*}; echo "folder $dir"; find "$dir" -type f -exec cat {} + ;; esac; done; } >>`+seen+`
exec ssh "$@"`)})
	if _, err := h.Commit(t.Context(), repo, "main", "", edit, git.Message{}); err != nil {
		t.Fatal(err)
	}
	text := readFile(t, seen)
	if !strings.Contains(text, "IdentityAgent=") || !strings.Contains(text, "PATH=") {
		t.Errorf("the program saw %q", text)
	}
	for line := range strings.Lines(repo.SSHKey.Reveal()) {
		if line = strings.TrimSpace(line); len(line) > 10 && strings.Contains(text, line) {
			t.Errorf("the program saw a line of the key: %s", line)
		}
	}
	folders := 0
	for line := range strings.Lines(text) {
		if dir, ok := strings.CutPrefix(strings.TrimSpace(line), "folder "); ok {
			folders++
			if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("folder %s is left behind: %v", dir, err)
			}
		}
	}
	if folders == 0 {
		t.Error("no run was seen")
	}
}

// The programs that ssh starts, such as a ProxyCommand, end with the call.
func TestTheSSHProgramEndsWithItsChildren(t *testing.T) {
	t.Parallel()
	_, repo := serve(t, "sshprogram")
	alive := filepath.Join(t.TempDir(), "alive")
	if err := syscall.Mkfifo(alive, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { // until no program holds the pipe open; a failed test leaves it to the process's end
		f, err := os.Open(alive) // waits until a program opens it
		cancel()
		if err == nil {
			_, err = io.Copy(io.Discard, f)
			_ = f.Close()
		}
		ended <- err
	}()
	h := newHost(t, plain.Options{SSH: script(t, "sleep 600 >"+alive+" &\nwait")})
	_, err := h.Head(ctx, repo, "main")
	if !errs.Is(err, errs.Unavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("Head: %v, want Unavailable because the caller leaves", err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("a program that ssh started is left behind")
	}
}

func TestTheSSHProgramDialsOnlyAdmittedAddresses(t *testing.T) {
	t.Parallel()
	_, repo := serve(t, "sshprogram")
	strict := newHost(t, plain.Options{SSH: script(t, "echo started >&2"), Admit: func(a netip.Addr) error {
		return errs.E(errs.Forbidden, "dial", "", fmt.Errorf("not %s", a))
	}})
	_, err := strict.Head(t.Context(), repo, "main")
	wantErr(t, "an address that is not admitted", err, errs.Forbidden)
}

// Both ssh clients refuse the same for the same reasons.
func TestSSHRefusalsAreOfTheSameKinds(t *testing.T) {
	t.Parallel()
	const hostKey = "AAAAC3NzaC1lZDI1NTE5AAAAIJ4Zq0mCbWVgqHHDBqaS6oI3eIpkZCDFRP0dIwhjJ5kH"
	bare, repo := serve(t, "ssh")
	if err := bare.Reject("branch needs a review"); err != nil {
		t.Fatal(err)
	}
	stranger := privateKey(t)
	h := newHost(t, plain.Options{})
	for _, c := range []struct {
		name   string
		change func(*git.Repo)
		kind   errs.Kind
	}{
		{"a hook", func(*git.Repo) {}, errs.Forbidden},
		{"no known hosts", func(r *git.Repo) { r.KnownHosts = "" }, errs.Invalid},
		{"a host that is not listed", func(r *git.Repo) { r.KnownHosts = "example.org ssh-ed25519 " + hostKey }, errs.Forbidden},
		{"another key than listed", func(r *git.Repo) { r.KnownHosts = strings.Fields(r.KnownHosts)[0] + " ssh-ed25519 " + hostKey + "\n" }, errs.Forbidden},
		{"no key of ours", func(r *git.Repo) { r.SSHKey = "" }, errs.Invalid},
		{"a key that the server does not know", func(r *git.Repo) { r.SSHKey = stranger }, errs.Unauthorized},
		{"no repository", func(r *git.Repo) { r.URL = strings.Replace(r.URL, "/repo.git", "/none.git", 1) }, errs.NotFound},
		{"nothing listens", func(r *git.Repo) {
			r.URL, r.KnownHosts = "ssh://git@127.0.0.1:1/r", "[127.0.0.1]:1 ssh-ed25519 "+hostKey
		}, errs.Unavailable},
		{"a link-local address", func(r *git.Repo) { r.URL, r.KnownHosts = "ssh://git@169.254.1.1/r", "169.254.1.1 ssh-ed25519 "+hostKey }, errs.Forbidden},
	} {
		for _, program := range []bool{false, true} {
			r := repo
			r.SSHProgram = program
			c.change(&r)
			_, err := h.Commit(t.Context(), r, "main", "", edit, git.Message{})
			wantErr(t, fmt.Sprintf("%s, ssh program %v", c.name, program), err, c.kind)
		}
	}
}
