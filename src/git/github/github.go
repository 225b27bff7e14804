package github

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"time"

	gh "github.com/google/go-github/v60/github"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/outbound"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/github/internal/api"
	"github.com/emco-orchestrator/emco/src/git/internal/recent"
	"github.com/emco-orchestrator/emco/src/git/transport"
	"github.com/emco-orchestrator/emco/src/git/tree"
)

// Options tune a Host. Zero values mean the defaults given here.
type Options struct {
	Budget   git.Budget             // of credentials; git.Unlimited
	Timeout  time.Duration          // for one call; 2 minutes
	MaxRepos int                    // repositories to keep trees of; 64, the one used longest ago goes
	MaxTrees int64                  // bytes of trees to keep per repository; 64 MiB
	MaxItems int                    // entries of one request for a tree; 5,000
	MaxBytes int                    // bytes of one request for a tree; 4 MiB
	Admit    func(netip.Addr) error // returns an error for addresses that must not be dialled; outbound.Policy{}.Check
	Log      *slog.Logger           // for debug lines; none
}

func (o Options) withDefaults() Options {
	if o.Budget == nil {
		o.Budget = git.Unlimited{}
	}
	if o.Timeout <= 0 {
		o.Timeout = 2 * time.Minute
	}
	if o.MaxRepos <= 0 {
		o.MaxRepos = 64
	}
	if o.MaxTrees <= 0 {
		o.MaxTrees = 64 << 20
	}
	if o.MaxItems <= 0 {
		o.MaxItems = 5000
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = 4 << 20
	}
	if o.Admit == nil {
		o.Admit = outbound.Policy{}.Check
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Host uses GitHub's REST API. Make it with New; Close it when done.
type Host struct {
	opt    Options
	server *api.Server
	caches *recent.Values[*repoCache]
}

// New returns a host.
func New(o Options) *Host {
	o = o.withDefaults()
	return &Host{
		opt:    o,
		server: &api.Server{Clients: transport.NewClients(o.Admit), Budget: o.Budget, Timeout: o.Timeout},
		caches: recent.New(o.MaxRepos, func() *repoCache { return newRepoCache(o.MaxTrees) }),
	}
}

// Close drops idle connections. The host stays usable.
func (h *Host) Close() error {
	h.server.Clients.CloseIdle()
	return nil
}

// Head returns the commit that branch points at. A repository without commits has no branches.
func (h *Host) Head(ctx context.Context, r git.Repo, branch string) (git.Hash, error) {
	repo, err := h.open(r, git.CheckBranch(branch))
	if err != nil {
		return "", err
	}
	id, err := repo.head(ctx, "head", branch, api.ReadCost)
	if errors.Is(err, api.ErrEmpty) {
		err = errs.E(errs.NotFound, "head", r.URL, errors.New("no branch "+branch+"; the repository is empty"))
	}
	return id, err
}

// head returns the head of a branch.
func (repo *repository) head(ctx context.Context, op, branch string, cost git.Cost) (id git.Hash, err error) {
	err = repo.Call(ctx, op, cost, func(ctx context.Context, c *gh.Client) (*gh.Response, error) {
		ref, resp, err := c.Git.GetRef(ctx, repo.Owner, repo.Name, "heads/"+branch)
		id = git.Hash(ref.GetObject().GetSHA())
		return resp, err
	})
	if err == nil {
		_, err = tree.ParseID(id)
	}
	return id, err
}

// Tree lists the entries below a path at a commit. The iteration itself makes no calls.
func (h *Host) Tree(ctx context.Context, r git.Repo, at git.Hash, under string) iter.Seq2[git.Entry, error] {
	return func(yield func(git.Entry, error) bool) {
		var checked error
		if under != "" {
			checked = git.CheckPath(under)
		}
		repo, err := h.open(r, checked)
		if err == nil {
			err = repo.list(ctx, at, under, func(e git.Entry) bool { return ctx.Err() == nil && yield(e, nil) })
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil && !errors.Is(err, errStopped) {
			yield(git.Entry{}, transport.Fail(ctx, r, "tree", err))
		}
	}
}

var errStopped = errors.New("stopped") // the consumer of an iteration has enough

// list visits the leaves at or below a path in path order.
func (repo *repository) list(ctx context.Context, at git.Hash, under string, visit func(git.Entry) bool) error {
	commit, err := tree.ParseID(at)
	if err != nil {
		return err
	}
	root, err := repo.rootOf(ctx, commit)
	if err != nil {
		return err
	}
	here, r := tree.Entry{Mode: tree.ModeTree, ID: root}, repo.treeReader()
	for name := range strings.SplitSeq(under, "/") {
		if under == "" {
			break
		}
		if !here.IsTree() {
			return nil
		}
		t, err := r.tree(ctx, here.ID)
		if err != nil {
			return err
		}
		if here = t.Find(name); here.Mode == 0 {
			return nil
		}
	}
	return r.walk(ctx, here, under, visit)
}

// Blob returns a file's content.
func (h *Host) Blob(ctx context.Context, r git.Repo, id git.Hash) (content []byte, err error) {
	_, err = tree.ParseID(id)
	repo, err := h.open(r, err)
	if err != nil {
		return nil, err
	}
	err = repo.Call(ctx, "blob", api.ReadCost, func(ctx context.Context, c *gh.Client) (resp *gh.Response, err error) {
		content, resp, err = c.Git.GetBlobRaw(ctx, repo.Owner, repo.Name, string(id))
		return resp, err
	})
	if errors.Is(err, api.ErrEmpty) {
		err = errs.E(errs.NotFound, "blob", r.URL, errors.New("the repository is empty"))
	}
	return content, err
}

// repository is one repository and what is known of it.
type repository struct {
	*api.Repo
	known *repoCache
	limit requestLimit
}

// requestLimit bounds one request for a tree.
type requestLimit struct{ items, bytes int }

// open returns a repository, or the first error of the checks before.
func (h *Host) open(r git.Repo, checks ...error) (*repository, error) {
	if err := firstOf(checks...); err != nil {
		return nil, err
	}
	repo, err := h.server.Repo(r)
	if err != nil {
		return nil, err
	}
	return &repository{Repo: repo, known: h.caches.Get(r), limit: requestLimit{items: h.opt.MaxItems, bytes: h.opt.MaxBytes}}, nil
}

// firstOf returns the first error, so that callers see one kind and one text.
func firstOf(all ...error) error {
	if i := slices.IndexFunc(all, func(err error) bool { return err != nil }); i >= 0 {
		return all[i]
	}
	return nil
}
