package fastimport_test

import (
	"context"
	"errors"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/fastimport"
	"github.com/emco-orchestrator/emco/src/git/gittest"
)

func TestMove(t *testing.T) {
	t.Parallel()
	srv, err := gittest.Serve(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	bare, err := srv.Seed(t.Context(), "fleet", "main")
	if err != nil {
		t.Fatal(err)
	}
	h, r := newHost(t, fastimport.Options{}), git.Repo{URL: srv.URL("fleet")}
	at := func(branch string) git.Hash {
		id, err := bare.Git(t.Context(), "", "rev-parse", "-q", "--verify", "refs/heads/"+branch)
		if err != nil {
			return ""
		}
		return git.Hash(id)
	}
	base := at("main")
	edits := []git.Edit{{Path: "f", File: []byte("x")}}
	asked := 0
	m := git.Movement{Branch: "emco/main", Onto: base, Edits: edits}
	side, err := h.Move(t.Context(), r, m)
	if err != nil || side != at("emco/main") {
		t.Fatalf("a new branch: %s, %v; it is at %s", side, err, at("emco/main"))
	}
	if parent, err := bare.Git(t.Context(), "", "rev-parse", string(side)+"^"); err != nil || parent != string(base) {
		t.Errorf("its parent is %s, %v, want %s", parent, err, base)
	}
	if _, err := h.Move(t.Context(), r, m); !errs.Is(err, errs.Conflict) {
		t.Errorf("again: %v, want Conflict, since it is there", err)
	}
	if _, err := bare.Foreign(t.Context(), "main", map[string]gittest.File{"theirs": {Content: "y"}}); err != nil {
		t.Fatal(err)
	}
	m = git.Movement{Branch: "emco/main", From: side, Onto: at("main"), Edits: edits}
	if _, err := h.Move(t.Context(), r, m); !errs.Is(err, errs.Forbidden) || at("emco/main") != side {
		t.Errorf("off its history, where that is denied: %v, want Forbidden", err)
	}
	if err := bare.Config(t.Context(), "receive.denyNonFastForwards", "false"); err != nil {
		t.Fatal(err)
	}
	next, err := h.Move(t.Context(), r, m)
	if err != nil || next != at("emco/main") {
		t.Fatalf("off its history: %s, %v", next, err)
	}
	if _, err := h.Move(t.Context(), r, m); !errs.Is(err, errs.Conflict) || at("emco/main") != next {
		t.Errorf("from where it was: %v, want Conflict", err)
	}
	stop := errors.New("stop")
	m = git.Movement{Branch: "emco/main", From: next, Onto: side, Message: git.Message{Guard: func(context.Context) error { asked++; return stop }}}
	if _, err := h.Move(t.Context(), r, m); !errors.Is(err, stop) || asked != 1 {
		t.Errorf("with a guard: %v, asked %d times", err, asked)
	}
	m.Message.Guard = nil
	if got, err := h.Move(t.Context(), r, m); err != nil || got != side || at("emco/main") != side {
		t.Errorf("back to a commit that no branch holds: %s, %v; it is at %s", got, err, at("emco/main"))
	}
	m = git.Movement{Branch: "emco/main", From: side, Onto: "00000000000000000000000000000000000000aa"}
	if _, err := h.Move(t.Context(), r, m); !errs.Is(err, errs.NotFound) || at("emco/main") != side {
		t.Errorf("to a commit that is not there: %v, want NotFound", err)
	}
	if err := bare.Fsck(t.Context()); err != nil {
		t.Error(err)
	}
}
