package fetch

import (
	"context"
	"errors"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/plain/internal/dial"
	"github.com/emco-orchestrator/emco/src/git/plain/internal/pack"
	"github.com/emco-orchestrator/emco/src/git/plain/internal/treecache"
	"github.com/emco-orchestrator/emco/src/git/plain/internal/wire"
	"github.com/emco-orchestrator/emco/src/git/tree"
)

const (
	logBytes     = 64 << 20 // of commits, unpacked; some hundred thousand of them
	historyBytes = 16 << 20 // of commits for one History
	logDepth     = 5000     // commits back, from a server that sends all that they hold
	firstDepth   = 100      // commits back where no base is given
)

// Since fetches the commits since base, zero for none. The request names base as known, so the
// server sends only later commits, without their content if it can leave that out.
func Since(ctx context.Context, client *wire.Client, r git.Repo, commit, base plumbing.Hash) (map[git.Hash]git.Commit, error) {
	q := wire.FetchRequest{Want: []plumbing.Hash{commit}, CommitsOnly: true}
	if base.IsZero() {
		q.Depth = firstDepth
	} else {
		q.Have = []plumbing.Hash{base}
	}
	found, err := commits(ctx, client, r, q, logBytes)
	if _, ok := found[git.Hash(commit.String())]; err == nil && !ok && base.IsZero() {
		err = errs.E(errs.NotFound, "log", "", errors.New("not a commit")) // with a base, that came after it
	}
	return found, err
}

// History fetches a commit and its ancestors, depth commits back.
func History(ctx context.Context, client *wire.Client, r git.Repo, commit plumbing.Hash, depth int) (map[git.Hash]git.Commit, error) {
	q := wire.FetchRequest{Want: []plumbing.Hash{commit}, Depth: max(1, depth), CommitsOnly: true}
	found, err := commits(ctx, client, r, q, historyBytes)
	if _, ok := found[git.Hash(commit.String())]; err == nil && !ok {
		err = errs.E(errs.NotFound, "history", "", errors.New("not a commit"))
	}
	return found, err
}

// commits fetches commits, at most maxBytes of them, from a server that cannot leave out their
// content at most logDepth back.
func commits(ctx context.Context, client *wire.Client, r git.Repo, q wire.FetchRequest, maxBytes int64) (map[git.Hash]git.Commit, error) {
	c, err := client.OpenWithoutRefs(ctx, r, dial.UploadPack)
	if err != nil {
		return nil, err
	}
	if !c.Has(capability.Filter) && q.Depth == 0 {
		q.Depth = logDepth
	}
	found := map[git.Hash]git.Commit{}
	p := &pack.Reader{
		Keep: func(o pack.Object) {
			if o.Kind == plumbing.CommitObject {
				commit := git.ReadCommit(git.Hash(o.ID.String()), o.Content)
				found[commit.ID] = commit
			}
		},
		MaxBytes: maxBytes,
	}
	_, err = c.Fetch(ctx, q, p)
	c.Close(err == nil)
	return found, err
}

// Tips fetches heads of derived branches, without their files.
func Tips(ctx context.Context, client *wire.Client, r git.Repo, ids []plumbing.Hash) (map[plumbing.Hash]treecache.Tip, error) {
	c, err := client.OpenWithoutRefs(ctx, r, dial.UploadPack)
	if err != nil {
		return nil, err
	}
	found := map[plumbing.Hash]treecache.Tip{}
	p := &pack.Reader{
		Keep: func(o pack.Object) {
			if o.Kind == plumbing.CommitObject {
				root, _ := rootOf(o.Content)
				source := git.ReadCommit("", o.Content).Trailer(git.SourceTrailer)
				found[o.ID] = treecache.Tip{Root: tree.ID(root), Ours: source != ""}
			}
		},
		MaxBytes: exchangeBytes,
	}
	_, err = c.Fetch(ctx, wire.FetchRequest{Want: ids, Shallow: true, CommitsOnly: true}, p)
	c.Close(err == nil)
	if err == nil && len(found) < len(ids) {
		err = errs.E(errs.Unavailable, "fetch", r.URL, errors.New("the server does not send what branches point at"))
	}
	return found, err
}
