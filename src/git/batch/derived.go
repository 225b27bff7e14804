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

// derivedOf returns the views of jobs in the order of their branches, each once; of two
// with the same branch the one submitted later wins.
func derivedOf(reqs []*jobRequest) []git.DerivedBranch {
	byBranch := map[string]git.DerivedBranch{}
	for _, r := range reqs {
		for _, v := range r.job.Derived {
			byBranch[v.Branch] = v
		}
	}
	return slices.SortedFunc(maps.Values(byBranch), func(a, b git.DerivedBranch) int { return cmp.Compare(a.Branch, b.Branch) })
}

// checkRemoved refuses to remove what is none of a view's, or is written.
func checkRemoved(j Job) error {
	for _, name := range j.RemoveDerived {
		if err := git.CheckBranch(name); err != nil {
			return err
		}
		if name == j.Branch {
			return errs.E(errs.Invalid, "remove", "branch "+name, errors.New("it is the one that is written"))
		}
	}
	return nil
}

// removedOf returns the views that jobs are done with, each once, but for those that others show.
func removedOf(reqs []*jobRequest, shown []git.DerivedBranch) (out []string) {
	for _, r := range reqs {
		for _, name := range r.job.RemoveDerived {
			if !slices.ContainsFunc(shown, func(v git.DerivedBranch) bool { return v.Branch == name }) {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// write makes the commit, and has views show it.
func (t *attempt) write(ctx context.Context, parent git.Hash) (git.Hash, error) {
	host, branch := t.line.owner.host, t.line.key.branch
	if len(t.derived)+len(t.removeDerived) == 0 {
		return host.Commit(ctx, t.repo, branch, parent, t.edits, t.message)
	}
	viewer, ok := host.(git.DerivedWriter)
	if !ok {
		return "", errs.E(errs.Invalid, "show", t.repo.URL, errors.New("this host keeps no branches that are views of others"))
	}
	shown, err := viewer.CommitDerived(ctx, t.repo, git.DerivedUpdate{Branch: branch, Parent: parent, Edits: t.edits, Derived: t.derived, Remove: t.removeDerived, Message: t.message})
	if err == nil {
		shown.Created = append(t.derivedResult.Created, shown.Created...) // what an earlier try did counts
		shown.Removed = append(t.derivedResult.Removed, shown.Removed...)
		shown.Diverged = append(t.derivedResult.Diverged, shown.Diverged...)
		t.derivedResult = shown
	}
	return shown.Commit, err
}

// reportDerived tells jobs where their views are, and the log which of them somebody else had moved.
func (t *attempt) reportDerived(ctx context.Context, reqs []*jobRequest) {
	for _, branch := range t.derivedResult.Diverged {
		if slices.Contains(t.removeDerived, branch) {
			t.line.owner.opt.Log.LogAttrs(ctx, slog.LevelWarn, "a branch that nobody reads any more holds what somebody else has put there, and is left alone",
				slog.String("repo", t.repo.URL), slog.String("branch", branch))
			continue
		}
		t.line.owner.opt.Log.LogAttrs(ctx, slog.LevelWarn, "a view that somebody else had changed is put right",
			slog.String("repo", t.repo.URL), slog.String("branch", branch), slog.String("of", t.line.key.branch))
	}
	for _, r := range reqs {
		if r.job.OnDerived != nil {
			r.job.OnDerived(t.derivedResultOf(r.job))
		}
	}
}

// derivedResultOf is what is shown to one job.
func (t *attempt) derivedResultOf(j Job) git.DerivedResult {
	out := git.DerivedResult{Commit: t.derivedResult.Commit, Heads: make(map[string]git.Hash, len(j.Derived))}
	for _, v := range j.Derived {
		if id := t.derivedResult.Heads[v.Branch]; id != "" {
			out.Heads[v.Branch] = id
		}
	}
	out.Removed = slices.DeleteFunc(slices.Clone(t.derivedResult.Removed), func(branch string) bool { return !slices.Contains(j.RemoveDerived, branch) })
	theirs := func(branch string) bool { return out.Heads[branch] == "" }
	out.Created = slices.DeleteFunc(slices.Clone(t.derivedResult.Created), theirs)
	out.Diverged = slices.DeleteFunc(slices.Clone(t.derivedResult.Diverged), theirs)
	return out
}
