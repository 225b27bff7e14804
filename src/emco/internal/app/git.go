package app

import (
	"context"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/emco/internal/contain"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/views/branchlog"
	"github.com/emco-orchestrator/emco/src/git"
	githosts "github.com/emco-orchestrator/emco/src/git/all"
	"github.com/emco-orchestrator/emco/src/git/batch"
	"github.com/emco-orchestrator/emco/src/git/budget"
	"github.com/emco-orchestrator/emco/src/git/cooldown"
)

// gitHost is the host of all repositories, with the request budget and the signer of commits.
type gitHost struct {
	*githosts.Host
	budget *budget.Budget
	signer git.Signer // nil: commits are not signed
}

// gitHost returns the host that talks to Git servers. All requests with one credential share
// a budget, those of all processes together.
func (a *App) gitHost(c config.Config, p resolvedSettings, st openStores, m *metrics) gitHost {
	rates := budget.Presets{"github": budget.Rates(c.Git.GitHub), "gitlab": budget.Rates(c.Git.GitLab)}
	h := gitHost{budget: budget.New(budget.Options{Rates: rates.Of, Allowance: st.allowance}), signer: p.signer}
	h.Host = githosts.New(githosts.Options{
		AllowFile: c.Git.AllowFile, Timeout: time.Duration(c.Git.Timeout), Log: a.log, Budget: h.budget, Admit: p.outward.Check,
		SSH: c.Git.SSHProgram, SSHConfig: c.Git.SSHConfig,
	})
	m.transfers(h.Stats)
	a.onClose(h.budget.Close)
	a.onClose(h.Close)
	return h
}

// writers returns the writers of branches. Nothing else writes to branches.
func (a *App) writers(c config.Config, m *metrics, h gitHost) *batch.Writers {
	w := batch.New(a.faults.host(h.Host), batch.Options{
		Window: time.Duration(c.Git.Window), HostedWindow: time.Duration(c.Git.Hosted),
		Hosted: hosted,
		Budget: h.budget, ProposalPoll: time.Duration(c.Status.Interval),
		Cooldown: cooldown.Options{First: time.Duration(c.Retry.First), Longest: time.Duration(c.Git.Rest)},
		Author:   c.Git.Author, Signer: h.signer, Observe: m.batch, Log: a.log,
	})
	m.resting(w.CoolingDown)
	a.onClose(func() error { w.Close(); return nil })
	return w
}

// logs returns the logs of branches, for people.
func (h gitHost) logs(routes *route.Resolver, panics *contain.Panics) *branchlog.Logs {
	return branchlog.New(branchlog.Options{
		Host: h.Host, Hosted: hosted, Now: time.Now, Panics: panics,
		Repo: func(ctx context.Context, url, branch string) (git.Repo, error) {
			return routes.Lookup().Repo(ctx, route.Branch{URL: url, Name: branch})
		},
	})
}

// hosted reports whether a provider limits requests to a repository.
func hosted(r git.Repo) bool { return budget.ProviderOf(r) != "" }
