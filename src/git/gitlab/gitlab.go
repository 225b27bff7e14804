package gitlab

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/emco-orchestrator/emco/src/api/outbound"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/plain"
	"github.com/emco-orchestrator/emco/src/git/transport"
)

// Options tune a Host. Zero values mean the defaults given here.
type Options struct {
	Git     *plain.Host            // carries the data; one of its own, which Close closes
	Timeout time.Duration          // for one whole call of the API's part; 1 minute
	Budget  git.Budget             // of calls of the API, and of a Git of its own; no bounds
	Admit   func(netip.Addr) error // returns an error for addresses that must not be dialled; as plain's
}

func (o Options) withDefaults() Options {
	if o.Timeout <= 0 {
		o.Timeout = time.Minute
	}
	if o.Budget == nil {
		o.Budget = git.Unlimited{}
	}
	if o.Admit == nil {
		o.Admit = outbound.Policy{}.Check
	}
	if o.Git == nil {
		o.Git = plain.New(plain.Options{Admit: o.Admit, Budget: o.Budget})
	}
	return o
}

// gitHost is the part of the host that speaks Git's protocol.
type gitHost = plain.Host

// Host speaks Git's protocol and calls GitLab's API. Make it with New; Close it when done.
type Host struct {
	*gitHost
	opt       Options
	clients   *transport.Clients
	addresses addressCache
}

// New returns a host.
func New(o Options) *Host {
	o = o.withDefaults()
	return &Host{gitHost: o.Git, opt: o, clients: transport.NewClients(o.Admit)}
}

// Close drops idle connections. The host stays usable.
func (h *Host) Close() error {
	h.clients.CloseIdle()
	return h.gitHost.Close()
}

// Commit puts one commit on top of parent and moves branch from parent to it. A refusal adds
// GitLab's rules for the branch.
func (h *Host) Commit(ctx context.Context, r git.Repo, branch string, parent git.Hash, edits []git.Edit, m git.Message) (git.Hash, error) {
	id, err := h.gitHost.Commit(ctx, r, branch, parent, edits, m)
	return id, h.whyRefused(ctx, r, branch, err)
}

// Replace moves branch to a commit without parents. A refusal adds GitLab's rules for the branch.
func (h *Host) Replace(ctx context.Context, r git.Repo, branch string, old git.Hash, files map[string][]byte, m git.Message) (git.Hash, error) {
	id, err := h.gitHost.Replace(ctx, r, branch, old, files, m)
	return id, h.whyRefused(ctx, r, branch, err)
}

// CommitDerived is Commit, and updates derived branches.
func (h *Host) CommitDerived(ctx context.Context, r git.Repo, c git.DerivedUpdate) (git.DerivedResult, error) {
	s, err := h.gitHost.CommitDerived(ctx, r, c)
	return s, h.whyRefused(ctx, r, c.Branch, err)
}

// checkBranches checks the names of branches.
func checkBranches(names ...string) error {
	for _, name := range names {
		if err := git.CheckBranch(name); err != nil {
			return err
		}
	}
	return nil
}

var errNoToken = errors.New("GitLab's API needs a token, and the repository has none: add one with the scope api")
