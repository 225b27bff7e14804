package plain

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/emco-orchestrator/emco/src/api/outbound"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/internal/recent"
	"github.com/emco-orchestrator/emco/src/git/plain/internal/dial"
	"github.com/emco-orchestrator/emco/src/git/plain/internal/fetch"
	"github.com/emco-orchestrator/emco/src/git/plain/internal/treecache"
	"github.com/emco-orchestrator/emco/src/git/plain/internal/wire"
	"github.com/emco-orchestrator/emco/src/git/transport"
	"github.com/emco-orchestrator/emco/src/git/tree"
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
	Budget    git.Budget             // pays for conversations as reads; git.Unlimited
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
type Stats = wire.Stats

// Host speaks Git's protocol. Make it with New; Close it when done. It implements git.Host
// and its optional interfaces, except Proposer and StatusSetter.
type Host struct {
	opt     Options
	clients *transport.Clients
	client  *wire.Client
	caches  *recent.Values[*treecache.Cache]
}

// New returns a host.
func New(o Options) *Host {
	o = o.withDefaults()
	clients := transport.NewClients(o.Admit)
	return &Host{
		opt: o, clients: clients,
		client: &wire.Client{
			Dialer: dial.Dialer{Clients: clients, Admit: o.Admit, Git: o.Git, SSH: o.SSH, SSHConfig: o.SSHConfig},
			File:   o.AllowFile, Budget: o.Budget, MaxFetch: o.MaxFetch, MaxBlob: o.MaxBlob, Log: o.Log,
		},
		caches: recent.New(o.MaxRepos, func() *treecache.Cache { return treecache.New(o.MaxTrees) }),
	}
}

// Close drops idle connections. The host stays usable.
func (h *Host) Close() error {
	h.clients.CloseIdle()
	return nil
}

// Stats returns the counters.
func (h *Host) Stats() Stats { return h.client.Stats() }

// snapshot returns the trees of a commit, from memory or from the server.
func (h *Host) snapshot(ctx context.Context, r git.Repo, at git.Hash) (treecache.Snapshot, error) {
	commit, err := parseHash(at)
	if err != nil {
		return treecache.Snapshot{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, h.opt.Timeout)
	defer cancel()
	s, err := h.caches.Get(r).Load(ctx, commit, func(known *treecache.Store, have []plumbing.Hash) (treecache.Fetched, error) {
		return fetch.Trees(ctx, h.client, r, commit, known, have)
	})
	return s, transport.Fail(ctx, r, "fetch", err)
}

// push sends a push.
func (h *Host) push(ctx context.Context, r git.Repo, p wire.PushRequest) error {
	return h.forgetIfLost(r, h.client.Push(ctx, r, p))
}

// forgetIfLost empties the cache of a repository if the server lost what a push builds on. It returns
// the push's error.
func (h *Host) forgetIfLost(r git.Repo, err error) error {
	if errors.Is(err, wire.ErrObjectsLost) {
		h.caches.Get(r).Forget()
	}
	return err
}

// checkURL refuses URLs that this host does not serve.
func (h *Host) checkURL(r git.Repo) error { return git.CheckURL(r.URL, h.opt.AllowFile) }

// firstOf returns the first error, so that callers see one kind and one text.
func firstOf(all ...error) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}

func parseHash(id git.Hash) (plumbing.Hash, error) {
	parsed, err := tree.ParseID(id)
	return plumbing.Hash(parsed), err
}

// hashOf is the name of a commit as callers see it: empty for none.
func hashOf(id plumbing.Hash) git.Hash {
	if id.IsZero() {
		return ""
	}
	return git.Hash(id.String())
}
