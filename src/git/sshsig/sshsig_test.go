package sshsig_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
	"github.com/emco-orchestrator/emco/src/git/gittest"
	"github.com/emco-orchestrator/emco/src/git/plain"
	"github.com/emco-orchestrator/emco/src/git/sshsig"
)

// keygen makes a key with the real ssh-keygen.
func keygen(t *testing.T, passphrase string, args ...string) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key")
	args = append([]string{"-q", "-N", passphrase, "-C", "emco", "-f", file}, args...)
	if out, err := exec.CommandContext(t.Context(), "ssh-keygen", args...).CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen: %v: %s", err, out)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// What the writer signs is verified by the real git and ssh-keygen, and by no other key.
func TestH54CommitsAreVerifiedByGit(t *testing.T) {
	t.Parallel()
	other, err := sshsig.New(keygen(t, "", "-t", "ed25519"))
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range [][]string{{"-t", "ed25519"}, {"-t", "ecdsa", "-b", "256"}, {"-t", "rsa", "-b", "2048"}, {"-t", "rsa", "-b", "2048", "-m", "PEM"}} {
		t.Run(strings.Join(kind, " "), func(t *testing.T) {
			t.Parallel()
			signer, err := sshsig.New(keygen(t, "", kind...))
			if err != nil {
				t.Fatal(err)
			}
			bare, err := gittest.Init(t.Context(), filepath.Join(t.TempDir(), "r.git"), "main")
			if err != nil {
				t.Fatal(err)
			}
			w := batch.New(plain.New(plain.Options{AllowFile: true}), batch.Options{Signer: signer})
			t.Cleanup(w.Close)
			for _, content := range []string{"first", "second"} {
				j := batch.Job{
					Repo: git.Repo{URL: "file://" + bare.Dir}, Branch: "main", Title: "Update shop",
					Edits: []git.Edit{{Path: "f", File: []byte(content)}}, Trailers: []git.Trailer{{Key: "Emco-Op", Value: "1"}},
				}
				commit, err := w.Submit(t.Context(), j)
				if err != nil {
					t.Fatal(err)
				}
				for key, good := range map[*sshsig.Signer]bool{signer: true, other: false} {
					allowed := filepath.Join(t.TempDir(), "allowed")
					if err := os.WriteFile(allowed, []byte("emco@localhost "+key.PublicKey()+"\n"), 0o600); err != nil {
						t.Fatal(err)
					}
					out, err := bare.Git(t.Context(), "", "-c", "gpg.ssh.allowedSignersFile="+allowed, "verify-commit", "-v", string(commit))
					if good != (err == nil) {
						t.Errorf("verify-commit with the right key %v: %v\n%s", good, err, out)
					}
				}
			}
			if got, err := bare.Git(t.Context(), "", "log", "-1", "--format=%s %(trailers:key=Emco-Op,valueonly,separator=)", "main"); err != nil || got != "Update shop 1" {
				t.Errorf("git log shows %q, %v", got, err)
			}
			if err := bare.Fsck(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestKeysThatCannotSign(t *testing.T) {
	t.Parallel()
	for name, key := range map[string][]byte{
		"nothing": nil, "no key": []byte("hunter2"), "with a passphrase": keygen(t, "hunter2", "-t", "ed25519"),
	} {
		if _, err := sshsig.New(key); !errs.Is(err, errs.Invalid) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want Invalid", name, err)
		}
	}
}
