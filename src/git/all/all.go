// Package all lists the Git hosts, and hands each repository to its own. Only
// composition roots and tests import it.
package all

import (
	"cmp"
	"context"
	"errors"
	"io"
	"iter"
	"log/slog"
	"net/netip"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/github"
	"github.com/emco-orchestrator/emco/src/git/gitlab"
	"github.com/emco-orchestrator/emco/src/git/plain"
)

// Options are what all hosts have in common.
type Options struct {
	AllowFile bool                   // bare repositories of this machine, for tests and demos
	Admit     func(netip.Addr) error // returns an error for addresses that must not be dialled; the hosts' own when nil
	Timeout   time.Duration          // for one call; the host's own when zero
	Log       *slog.Logger
	Budget    git.Budget // of credentials; none when nil
	SSH       string     // the ssh program, for repositories that use it; "ssh" when empty
	SSHConfig string     // file with settings for the ssh program; none when empty
}

// gitProtocol is the key of the host for Git's own protocol. It also serves repositories whose provider has no host of its own.
const gitProtocol = "git"

// Hosts returns a new set of hosts by the provider that they serve. A new host needs one line here.
// "git" serves all repositories whose provider has no line.
func Hosts(o Options) map[string]git.Host {
	byGit := plainHost(o)
	return map[string]git.Host{
		gitProtocol: byGit,
		"github":    github.New(github.Options{Admit: o.Admit, Timeout: o.Timeout, Log: o.Log, Budget: o.Budget}),
		"gitlab":    gitlab.New(gitlab.Options{Git: byGit, Admit: o.Admit, Timeout: o.Timeout, Budget: o.Budget}),
	}
}

func plainHost(o Options) *plain.Host {
	return plain.New(plain.Options{
		AllowFile: o.AllowFile, Admit: o.Admit, SSH: o.SSH, SSHConfig: o.SSHConfig, Timeout: o.Timeout, Budget: o.Budget, Log: o.Log,
	})
}

// Host hands each repository to the host of its provider.
type Host struct {
	byProvider map[string]git.Host
}

// New returns the host of all repositories.
func New(o Options) *Host { return &Host{byProvider: Hosts(o)} }

// Of returns the host of a repository.
func (h *Host) Of(r git.Repo) git.Host {
	if own, ok := h.byProvider[r.Provider]; ok {
		return own
	}
	return h.byProvider[gitProtocol]
}

// Close ends what the hosts keep open.
func (h *Host) Close() error {
	var all []error
	for _, host := range h.byProvider {
		if c, ok := host.(io.Closer); ok {
			all = append(all, c.Close())
		}
	}
	return errors.Join(all...)
}

// Stats returns what was sent and received by Git's own protocol.
func (h *Host) Stats() plain.Stats {
	p, ok := h.byProvider[gitProtocol].(*plain.Host)
	if !ok {
		return plain.Stats{}
	}
	return p.Stats()
}

// Head returns the commit that a branch points at.
func (h *Host) Head(ctx context.Context, r git.Repo, branch string) (git.Hash, error) {
	return h.Of(r).Head(ctx, r, branch)
}

// Tree lists the entries below a path.
func (h *Host) Tree(ctx context.Context, r git.Repo, at git.Hash, under string) iter.Seq2[git.Entry, error] {
	return h.Of(r).Tree(ctx, r, at, under)
}

// Blob returns a file's content.
func (h *Host) Blob(ctx context.Context, r git.Repo, id git.Hash) ([]byte, error) {
	return h.Of(r).Blob(ctx, r, id)
}

// Commit puts one commit on a branch.
func (h *Host) Commit(ctx context.Context, r git.Repo, branch string, parent git.Hash, edits []git.Edit, m git.Message) (git.Hash, error) {
	return h.Of(r).Commit(ctx, r, branch, parent, edits, m)
}

// Since returns the commits after base. It returns TooLarge if the repository's host has
// no logs.
func (h *Host) Since(ctx context.Context, r git.Repo, commit, base git.Hash) (git.Log, error) {
	logs, ok := h.Of(r).(git.LogReader)
	if !ok {
		return git.Log{}, errs.E(errs.TooLarge, "read", r.URL, errors.New("its host has no logs"))
	}
	return logs.Since(ctx, r, commit, base)
}

// Latest returns the newest commits of a history; Invalid if the repository's host has no logs.
func (h *Host) Latest(ctx context.Context, r git.Repo, commit git.Hash, n int) ([]git.Commit, error) {
	logs, ok := h.Of(r).(git.LatestReader)
	if !ok {
		return nil, errs.E(errs.Invalid, "read", r.URL, errors.New("its host has no logs"))
	}
	return logs.Latest(ctx, r, commit, n)
}

// Propose opens a pull or merge request; Invalid if the repository's host has none.
func (h *Host) Propose(ctx context.Context, r git.Repo, from, into string, m git.Message) (git.Proposal, error) {
	p, err := h.proposer(r)
	if err != nil {
		return git.Proposal{}, err
	}
	return p.Propose(ctx, r, from, into, m)
}

// Proposal returns the last pull or merge request from one branch into another.
func (h *Host) Proposal(ctx context.Context, r git.Repo, from, into string) (git.Proposal, error) {
	p, err := h.proposer(r)
	if err != nil {
		return git.Proposal{}, err
	}
	return p.Proposal(ctx, r, from, into)
}

// SetStatus sets a commit status; Invalid if the repository's host has none.
func (h *Host) SetStatus(ctx context.Context, r git.Repo, commit git.Hash, m git.CommitStatus) error {
	setter, ok := h.Of(r).(git.StatusSetter)
	if !ok {
		return errs.E(errs.Invalid, "set status", r.URL, errors.New("a server of type "+cmp.Or(r.Provider, gitProtocol)+" has no commit statuses here"))
	}
	return setter.SetStatus(ctx, r, commit, m)
}

func (h *Host) proposer(r git.Repo) (git.Proposer, error) {
	p, ok := h.Of(r).(git.Proposer)
	if !ok {
		return nil, errs.E(errs.Invalid, "propose", r.URL, errors.New("a server of type "+cmp.Or(r.Provider, gitProtocol)+" has no pull requests here"))
	}
	return p, nil
}

// ResetBranch moves a branch off its history, by Git's own protocol where the repository's host cannot.
func (h *Host) ResetBranch(ctx context.Context, r git.Repo, m git.BranchReset) (git.Hash, error) {
	resetter, ok := h.Of(r).(git.BranchResetter)
	if !ok {
		resetter, ok = h.byProvider[gitProtocol].(git.BranchResetter)
	}
	if !ok {
		return "", errs.E(errs.Invalid, "reset", r.URL, errors.New("no host here resets branches"))
	}
	return resetter.ResetBranch(ctx, r, m)
}

// CommitDerived commits and updates derived branches; Invalid if the repository's host keeps none.
func (h *Host) CommitDerived(ctx context.Context, r git.Repo, s git.DerivedUpdate) (git.DerivedResult, error) {
	v, ok := h.Of(r).(git.DerivedWriter)
	if !ok {
		return git.DerivedResult{}, errs.E(errs.Invalid, "derive", r.URL, errors.New("a server of type "+cmp.Or(r.Provider, gitProtocol)+" has no derived branches here"))
	}
	return v.CommitDerived(ctx, r, s)
}

// Changed returns the paths that differ between two commits. If the repository's host cannot
// compare commits, it uses Git's own protocol.
func (h *Host) Changed(ctx context.Context, r git.Repo, d git.Difference) ([]string, error) {
	differ, ok := h.Of(r).(git.Differ)
	if !ok {
		differ, ok = h.byProvider[gitProtocol].(git.Differ)
	}
	if !ok {
		return nil, errs.E(errs.Invalid, "compare", r.URL, errors.New("no host here compares commits"))
	}
	return differ.Changed(ctx, r, d)
}
