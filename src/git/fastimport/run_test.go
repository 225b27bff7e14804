package fastimport_test

import (
	"context"
	"encoding/base64"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/fastimport"
	"github.com/emco-orchestrator/emco/src/git/gittest"
)

// program writes a git that is a script, and returns its path.
func program(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "git")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// A program that says nothing is ended at the deadline, with all that it has started.
func TestRunsHaveADeadline(t *testing.T) {
	t.Parallel()
	pid := filepath.Join(t.TempDir(), "pid")
	h := newHost(t, fastimport.Options{Git: program(t, "sleep 600 &\necho $! >"+pid+"\nwait"), Timeout: time.Second})
	_, err := h.Head(t.Context(), git.Repo{URL: "file:///nowhere"}, "main")
	if !errs.Is(err, errs.Unavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Head: %v, want Unavailable for the deadline", err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(readFile(t, pid)))
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); running(child); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("what the program has started is left behind")
		}
	}
}

// running says whether a process is there and no mere entry of one that has ended.
func running(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return syscall.Kill(pid, 0) == nil && !errors.Is(err, fs.ErrNotExist)
	}
	return !strings.Contains(string(stat), ") Z ")
}

// Credentials are on no command line and in no file, and what is told to a run is told to
// that one alone.
func TestCredentialsAreNotWrittenDown(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"http", "ssh"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			bare, repo := serve(t, transport)
			seen, dir := filepath.Join(t.TempDir(), "seen"), filepath.Join(t.TempDir(), "known")
			h := newHost(t, fastimport.Options{Dir: dir, Git: program(t, `printf '%s\n' "$*" >>`+seen+`.args
case "$1" in push|fetch|ls-remote) ;; *) env >>`+seen+`.env ;; esac
env | grep -v '^GIT_CONFIG_VALUE_' >>`+seen+`.env
exec git "$@"`)})
			at := foreign(t, t.Context(), bare, "main", map[string]gittest.File{"a": {Content: "a"}})
			if _, err := h.Commit(t.Context(), repo, "main", at, edit, git.Message{}); err != nil {
				t.Fatal(err)
			}
			texts := map[string]string{"the command lines": readFile(t, seen+".args"), "the environment": readFile(t, seen+".env")}
			err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
				if err == nil && d.Type().IsRegular() {
					texts[path] = readFile(t, path)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			if len(texts) < 5 {
				t.Errorf("only %d texts were looked at", len(texts))
			}
			for name, text := range texts {
				for _, secret := range []string{token, base64.StdEncoding.EncodeToString([]byte(userName + ":" + token)), "PRIVATE KEY", "Authorization"} {
					if strings.Contains(text, secret) {
						t.Errorf("%s: hold a credential", name)
					}
				}
			}
			if err := h.Close(); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("what was known is there when the host is closed: %v", err)
			}
		})
	}
}

// The way to a server may be one that only the settings of the programs know.
func TestTheSettingsOfTheProgramsAreUsed(t *testing.T) {
	t.Parallel()
	_, repo := serve(t, "ssh")
	a, err := git.ParseURL(repo.URL)
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "ssh_config")
	text := "Host fleet.internal\n  HostName 127.0.0.1\n  Port " + a.Port + "\n  HostKeyAlias [127.0.0.1]:" + a.Port + "\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	repo.URL = "ssh://git@fleet.internal/repo.git"
	_, err = newHost(t, fastimport.Options{}).Head(t.Context(), repo, "main")
	wantErr(t, "without the settings", err, errs.Unavailable)
	if _, err := newHost(t, fastimport.Options{SSHConfig: config}).Commit(t.Context(), repo, "main", "", edit, git.Message{}); err != nil {
		t.Errorf("with settings for ssh: %v", err)
	}
	_, web := serve(t, "http")
	base := strings.TrimSuffix(web.URL, "repo.git")
	global := filepath.Join(t.TempDir(), "gitconfig")
	if err := os.WriteFile(global, []byte("[url \""+base+"\"]\n\tinsteadOf = "+base+"mirror/\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	web.URL = base + "mirror/repo.git"
	if _, err := newHost(t, fastimport.Options{Config: global}).Commit(t.Context(), web, "main", "", edit, git.Message{}); err != nil {
		t.Errorf("with settings for git: %v", err)
	}
}

// A repository that brings more than there is room for is TooLarge, and nothing of it stays.
func TestAFetchIsBounded(t *testing.T) {
	t.Parallel()
	bare, repo := serve(t, "file")
	if err := bare.Config(t.Context(), "uploadpack.allowFilter", "false"); err != nil {
		t.Fatal(err)
	}
	noise := make([]byte, 3<<20)
	for i := range noise {
		noise[i] = byte(i*i>>7 ^ i*7919>>3 ^ i>>11)
	}
	at := foreign(t, t.Context(), bare, "main", map[string]gittest.File{"big": {Content: string(noise)}})
	if _, err := bare.Git(t.Context(), "", "-c", "core.compression=0", "repack", "-adfq"); err != nil {
		t.Fatal(err)
	}
	h := newHost(t, fastimport.Options{MaxDisk: 64 << 10})
	_, err := h.Commit(t.Context(), repo, "main", at, edit, git.Message{})
	wantErr(t, "Commit", err, errs.TooLarge)
}
