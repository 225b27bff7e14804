package plain

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/outbound"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/transport"
)

// Options tune a Host. Zero values mean the defaults given here.
type Options struct {
	AllowFile bool                   // serve file:// URLs by running the git program; for tests and demos
	Git       string                 // the git program for AllowFile; "git"
	SSH       string                 // the ssh program for repositories with SSHProgram; "ssh"
	SSHConfig string                 // file with settings for it, as in ~/.ssh/config; none
	Timeout   time.Duration          // for one whole call; 2 minutes
	MaxRepos  int                    // cached repositories; 64, the least recently used goes
	MaxTrees  int64                  // bytes of cached trees per repository; 256 MiB
	MaxFetch  int64                  // bytes that one fetch may bring, packed or unpacked; 1 GiB
	MaxBlob   int64                  // bytes of one object; 128 MiB
	Admit     func(netip.Addr) error // returns an error for addresses that must not be dialled; outbound.Policy{}.Check
	Budget    git.Budget             // pays for conversations as reads; git.Free
	Log       *slog.Logger           // for debug lines; none
}

func (o Options) withDefaults() Options {
	if o.Git == "" {
		o.Git = "git"
	}
	if o.SSH == "" {
		o.SSH = "ssh"
	}
	if o.Timeout <= 0 {
		o.Timeout = 2 * time.Minute
	}
	if o.MaxRepos <= 0 {
		o.MaxRepos = 64
	}
	if o.MaxTrees <= 0 {
		o.MaxTrees = 256 << 20
	}
	if o.MaxFetch <= 0 {
		o.MaxFetch = 1 << 30
	}
	if o.MaxBlob <= 0 {
		o.MaxBlob = 128 << 20
	}
	if o.Admit == nil {
		o.Admit = outbound.Policy{}.Check
	}
	if o.Budget == nil {
		o.Budget = git.Unlimited{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Stats counts what a Host did since it was made.
type Stats struct {
	Adverts  uint64 // conversations begun
	Fetches  uint64 // packs received
	Pushes   uint64 // packs sent
	Sent     uint64 // bytes of packs sent
	Received uint64 // bytes of packs received
}

// Host speaks Git's protocol. Make it with New; Close it when done.
type Host struct {
	opt     Options
	clients *transport.Clients

	mu    sync.Mutex
	repos map[git.Repo]*repoCache // guarded by mu; credentials are part of the key, so that each reads by its own right
	clock uint64                  // order of use; guarded by mu

	adverts, fetches, pushes, sent, received atomic.Uint64
}

// New returns a host.
func New(o Options) *Host {
	o = o.withDefaults()
	return &Host{opt: o, clients: transport.NewClients(o.Admit), repos: map[git.Repo]*repoCache{}}
}

// Close drops idle connections. The host stays usable.
func (h *Host) Close() error {
	h.clients.CloseIdle()
	return nil
}

// Stats returns the counters.
func (h *Host) Stats() Stats {
	return Stats{
		Adverts: h.adverts.Load(), Fetches: h.fetches.Load(), Pushes: h.pushes.Load(),
		Sent: h.sent.Load(), Received: h.received.Load(),
	}
}

// Head returns the commit that branch points at.
func (h *Host) Head(ctx context.Context, r git.Repo, branch string) (git.Hash, error) {
	if err := git.CheckBranch(branch); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, h.opt.Timeout)
	defer cancel()
	c, err := h.open(ctx, r, uploadPack)
	if err != nil {
		return "", err
	}
	defer c.close(true)
	id, ok := c.refs.References["refs/heads/"+branch]
	if !ok {
		return "", errs.E(errs.NotFound, "head", r.URL, errors.New("no branch "+branch))
	}
	return git.Hash(id.String()), nil
}

// Tree lists the files below a path at a commit. The trees come from memory if the commit is
// cached; the iteration itself makes no requests.
func (h *Host) Tree(ctx context.Context, r git.Repo, at git.Hash, under string) iter.Seq2[git.Entry, error] {
	return func(yield func(git.Entry, error) bool) {
		if under != "" {
			if err := git.CheckPath(under); err != nil {
				yield(git.Entry{}, err)
				return
			}
		}
		s, err := h.snapshotAt(ctx, r, at)
		if err == nil {
			err = s.walk(under, func(e git.Entry) bool { return ctx.Err() == nil && yield(e, nil) })
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil && !errors.Is(err, errStopped) {
			yield(git.Entry{}, h.fail(ctx, r, "tree", err))
		}
	}
}

// snapshotAt returns the trees of a commit.
func (h *Host) snapshotAt(ctx context.Context, r git.Repo, at git.Hash) (commitTrees, error) {
	id, err := parseHash(at)
	if err != nil {
		return commitTrees{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, h.opt.Timeout)
	defer cancel()
	return h.snapshot(ctx, r, id)
}

// Blob returns a file's content.
func (h *Host) Blob(ctx context.Context, r git.Repo, id git.Hash) ([]byte, error) {
	want, err := parseHash(id)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, h.opt.Timeout)
	defer cancel()
	return h.fetchBlob(ctx, r, want)
}

// Commit puts one commit on top of parent and moves branch from parent to it.
func (h *Host) Commit(ctx context.Context, r git.Repo, branch string, parent git.Hash, edits []git.Edit, m git.Message) (git.Hash, error) {
	if err := errors.Join(git.CheckBranch(branch), git.CheckEdits(edits), h.checkURL(r)); err != nil {
		return "", firstOf(err)
	}
	ctx, cancel := context.WithTimeout(ctx, h.opt.Timeout)
	defer cancel()
	d, err := h.draft(ctx, r, parent, edits, m)
	if err != nil || !d.changes() {
		return d.head(), err
	}
	if err := h.push(ctx, r, pushOfBranch(branch, d.base.commit, d.change, m.Guard)); err != nil {
		return "", err
	}
	h.remember(r, d)
	return d.head(), nil
}

// commitDraft is a commit that is not sent yet.
type commitDraft struct {
	base   commitTrees
	change *treeChange
	commit plumbing.Hash // zero if the edits change nothing
	trees  []gitObject   // that are new
}

// draft applies edits to a commit, in memory.
func (h *Host) draft(ctx context.Context, r git.Repo, parent git.Hash, edits []git.Edit, m git.Message) (d commitDraft, err error) {
	base := commitTrees{store: newStore()}
	if parent != "" {
		id, err := parseHash(parent)
		if err != nil {
			return d, err
		}
		if base, err = h.snapshot(ctx, r, id); err != nil {
			return d, err
		}
	}
	c, err := newTreeChange(base, edits)
	if err != nil {
		return d, h.fail(ctx, r, "commit", err)
	}
	d = commitDraft{base: base, change: c}
	if c.root == base.root || parent == "" && c.root == emptyTree {
		return d, nil
	}
	if m.DryRun {
		return d, git.ErrDryRun
	}
	if d.commit, err = c.addCommit(c.root, base.commit, m); err != nil {
		return d, h.fail(ctx, r, "commit", err)
	}
	d.trees = c.trees()
	return d, nil
}

func (d commitDraft) changes() bool { return !d.commit.IsZero() }

// tip is the head of the branch once the draft is pushed; zero if there is no branch then.
func (d commitDraft) tip() plumbing.Hash {
	if d.changes() {
		return d.commit
	}
	return d.base.commit
}

// head is tip as callers see it.
func (d commitDraft) head() git.Hash {
	if d.tip().IsZero() {
		return ""
	}
	return git.Hash(d.tip().String())
}

// remember caches a draft that was pushed.
func (h *Host) remember(r git.Repo, d commitDraft) {
	h.repo(r).record(d.base, commitTrees{commit: d.commit, root: d.change.root}, d.trees, h.opt.MaxTrees)
}

func (h *Host) checkURL(r git.Repo) error { return git.CheckURL(r.URL, h.opt.AllowFile) }

// firstOf returns the first of the joined errors, so that callers see one kind and one text.
func firstOf(err error) error {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		return many.Unwrap()[0]
	}
	return err
}

func parseHash(id git.Hash) (plumbing.Hash, error) {
	if !plumbing.IsHash(string(id)) || len(id) != 40 || strings.ToLower(string(id)) != string(id) {
		return plumbing.ZeroHash, errs.E(errs.Invalid, "object", "", errors.New("not the name of an object: 40 hexadecimal digits"))
	}
	return plumbing.NewHash(string(id)), nil
}

// repo returns the cache of a repository. A new one may replace the least recently used.
func (h *Host) repo(r git.Repo) *repoCache {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clock++
	k, ok := h.repos[r]
	if !ok {
		h.makeRoom()
		k = newRepoCache()
		h.repos[r] = k
	}
	k.used = h.clock
	return k
}

func (h *Host) makeRoom() {
	for len(h.repos) >= h.opt.MaxRepos {
		var oldest git.Repo
		least := ^uint64(0)
		for r, k := range h.repos {
			if k.used < least {
				oldest, least = r, k.used
			}
		}
		delete(h.repos, oldest)
	}
}
