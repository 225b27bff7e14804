package batch

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
)

// viewsOf returns the views of jobs in the order of their branches, each once; of two
// with the same branch the one submitted later wins.
func viewsOf(reqs []*request) []git.View {
	byBranch := map[string]git.View{}
	for _, r := range reqs {
		for _, v := range r.job.Views {
			byBranch[v.Branch] = v
		}
	}
	return slices.SortedFunc(maps.Values(byBranch), func(a, b git.View) int { return cmp.Compare(a.Branch, b.Branch) })
}

// checkGone refuses to remove what is none of a view's, or is written.
func checkGone(j Job) error {
	for _, name := range j.Gone {
		if err := git.CheckBranch(name); err != nil {
			return err
		}
		if name == j.Branch {
			return errs.E(errs.Invalid, "remove", "branch "+name, errors.New("it is the one that is written"))
		}
	}
	return nil
}

// goneOf returns the views that jobs are done with, each once, but for those that others show.
func goneOf(reqs []*request, shown []git.View) (out []string) {
	for _, r := range reqs {
		for _, name := range r.job.Gone {
			if !slices.ContainsFunc(shown, func(v git.View) bool { return v.Branch == name }) {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// write makes the commit, and has views show it.
func (t *try) write(ctx context.Context, parent git.Hash) (git.Hash, error) {
	host, branch := t.line.owner.host, t.line.key.branch
	if len(t.views)+len(t.gone) == 0 {
		return host.Commit(ctx, t.repo, branch, parent, t.edits, t.message)
	}
	viewer, ok := host.(git.Viewer)
	if !ok {
		return "", errs.E(errs.Invalid, "show", t.repo.URL, errors.New("this host keeps no branches that are views of others"))
	}
	shown, err := viewer.CommitViews(ctx, t.repo, git.Showing{Branch: branch, Parent: parent, Edits: t.edits, Views: t.views, Gone: t.gone, Message: t.message})
	if err == nil {
		shown.Made = append(t.shown.Made, shown.Made...) // what an earlier try did counts
		shown.Removed = append(t.shown.Removed, shown.Removed...)
		shown.Strange = append(t.shown.Strange, shown.Strange...)
		t.shown = shown
	}
	return shown.Commit, err
}

// show tells jobs where their views are, and the log which of them somebody else had moved.
func (t *try) show(ctx context.Context, reqs []*request) {
	for _, branch := range t.shown.Strange {
		if slices.Contains(t.gone, branch) {
			t.line.owner.opt.Log.LogAttrs(ctx, slog.LevelWarn, "a branch that nobody reads any more holds what somebody else has put there, and is left alone",
				slog.String("repo", t.repo.URL), slog.String("branch", branch))
			continue
		}
		t.line.owner.opt.Log.LogAttrs(ctx, slog.LevelWarn, "a view that somebody else had changed is put right",
			slog.String("repo", t.repo.URL), slog.String("branch", branch), slog.String("of", t.line.key.branch))
	}
	for _, r := range reqs {
		if r.job.Shown != nil {
			r.job.Shown(t.shownTo(r.job))
		}
	}
}

// shownTo is what is shown to one job.
func (t *try) shownTo(j Job) git.Shown {
	out := git.Shown{Commit: t.shown.Commit, Views: make(map[string]git.Hash, len(j.Views))}
	for _, v := range j.Views {
		if id := t.shown.Views[v.Branch]; id != "" {
			out.Views[v.Branch] = id
		}
	}
	out.Removed = slices.DeleteFunc(slices.Clone(t.shown.Removed), func(branch string) bool { return !slices.Contains(j.Gone, branch) })
	theirs := func(branch string) bool { return out.Views[branch] == "" }
	out.Made = slices.DeleteFunc(slices.Clone(t.shown.Made), theirs)
	out.Strange = slices.DeleteFunc(slices.Clone(t.shown.Strange), theirs)
	return out
}
