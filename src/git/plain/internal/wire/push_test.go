package wire_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/gittest"
	"github.com/emco-orchestrator/emco/src/git/plain/internal/dial"
	"github.com/emco-orchestrator/emco/src/git/plain/internal/pack"
	"github.com/emco-orchestrator/emco/src/git/plain/internal/wire"
	"github.com/emco-orchestrator/emco/src/git/tree"
)

// peer is a client of a bare repository whose branch main has one commit.
type peer struct {
	*wire.Client
	repo git.Repo
	bare gittest.Bare
	head plumbing.Hash
}

func newPeer(t *testing.T) peer {
	t.Helper()
	bare, err := gittest.Init(t.Context(), t.TempDir()+"/r.git", "main")
	if err != nil {
		t.Fatal(err)
	}
	id, err := bare.CommitExternal(t.Context(), "main", map[string]gittest.File{"f": {Content: "one"}})
	if err != nil {
		t.Fatal(err)
	}
	return peer{repo: git.Repo{URL: "file://" + bare.Dir}, bare: bare, head: plumbing.NewHash(id), Client: &wire.Client{
		Dialer: dial.Dialer{Git: "git"}, File: true, Budget: git.Unlimited{}, MaxFetch: 1 << 20, MaxBlob: 1 << 20, Log: slog.New(slog.DiscardHandler),
	}}
}

// commit is a push of a commit that holds one file; whole means with all that it needs.
func (p peer) commit(from plumbing.Hash, whole bool) wire.PushRequest {
	file := pack.NewObject(plumbing.BlobObject, []byte("two"))
	dir := pack.NewObject(plumbing.TreeObject, tree.Tree{{Name: "f", Mode: tree.ModeFile, ID: tree.ID(file.ID)}}.Encode())
	text := fmt.Sprintf("tree %s\nparent %s\nauthor a <a@localhost> 1 +0000\ncommitter a <a@localhost> 1 +0000\n\nchange\n", dir.ID, p.head)
	c := pack.NewObject(plumbing.CommitObject, []byte(text))
	objects := []pack.Object{file, dir, c}
	if !whole {
		objects = []pack.Object{c}
	}
	return wire.PushRequest{Updates: []wire.RefUpdate{{Branch: "main", From: from, To: c.ID}}, Objects: objects, Bytes: 1000}
}

// A push moves a branch from where it is expected, and is not sent from elsewhere or against its guard.
func TestAPushMovesABranchFromWhereItIsExpected(t *testing.T) {
	t.Parallel()
	p := newPeer(t)
	guard := errors.New("the lease ended")
	refused := p.commit(p.head, true)
	refused.Guard = func(context.Context) error { return guard }
	if err := p.Push(t.Context(), p.repo, refused); !errors.Is(err, guard) {
		t.Errorf("a push against its guard: %v, want the guard's error", err)
	}
	if err := p.Push(t.Context(), p.repo, p.commit(plumbing.ZeroHash, true)); !errs.Is(err, errs.Conflict) {
		t.Errorf("a push that expects no branch: %v, want Conflict", err)
	}
	if s := p.Stats(); s.Sent != 0 || p.Moved(t.Context(), p.repo, "main", p.head) {
		t.Errorf("%d bytes were sent, want none, and the branch where it was", s.Sent)
	}
	push := p.commit(p.head, true)
	if err := p.Push(t.Context(), p.repo, push); err != nil {
		t.Fatal(err)
	}
	if at, err := p.Head(t.Context(), p.repo, "main"); err != nil || at != push.Updates[0].To {
		t.Errorf("the branch is at %s, %v, want %s", at, err, push.Updates[0].To)
	}
	if _, err := p.bare.Git(t.Context(), "", "fsck", "--strict"); err != nil {
		t.Error(err)
	}
}

// A push without objects that the server lacks is a Conflict of its own, so that its sender reads
// again what the server has.
func TestAPushOnLostObjectsIsNamed(t *testing.T) {
	t.Parallel()
	p := newPeer(t)
	if err := p.bare.Config(t.Context(), "receive.fsckObjects", "false"); err != nil { // git's default; with it git fails while it unpacks
		t.Fatal(err)
	}
	err := p.Push(t.Context(), p.repo, p.commit(p.head, false))
	if !errs.Is(err, errs.Conflict) || !errors.Is(err, wire.ErrObjectsLost) {
		t.Errorf("%v, want a Conflict that wraps ErrObjectsLost", err)
	}
	if p.Moved(t.Context(), p.repo, "main", p.head) {
		t.Error("the branch moved")
	}
}

// The server's own refusal is Forbidden, in its words.
func TestARefusalOfTheServerIsForbidden(t *testing.T) {
	t.Parallel()
	p := newPeer(t)
	if err := p.bare.Hook("pre-receive", "echo the branch is frozen >&2; exit 1"); err != nil {
		t.Fatal(err)
	}
	push := p.commit(p.head, true)
	push.Updates[0].Dir = "clusters/c"
	err := p.Push(t.Context(), p.repo, push)
	at, blamed := errors.AsType[*git.PathError](err)
	if !errs.Is(err, errs.Forbidden) || !blamed || at.Path != "clusters/c" {
		t.Errorf("%v, want Forbidden for clusters/c", err)
	}
}
