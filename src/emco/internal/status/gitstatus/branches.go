package gitstatus

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/status"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/intake"
	"github.com/emco-orchestrator/emco/src/git"
)

// fileLimit is for a branch that holds one report and, at most, a note about it.
var fileLimit = git.Limit{Object: status.MaxSize, Files: 4}

// lookAtBranches lists the branches of clusters and takes in those that moved.
func (p *poller) lookAtBranches(ctx context.Context) error {
	owners := map[string]string{}
	for name := range p.present() {
		owners[status.Branch(p.at.branch, name)] = name
	}
	found, err := p.s.git.Branches(ctx, p.at.repo, p.at.branch, func(branch string, at git.Hash) bool {
		if owners[branch] == "" {
			p.stranger(branch)
			return false
		}
		return p.seen[branch] != at
	}, fileLimit)
	if err != nil {
		return err
	}
	maps.DeleteFunc(p.seen, func(branch string, _ git.Hash) bool { return owners[branch] == "" })
	for _, branch := range slices.Sorted(maps.Keys(found)) {
		b := found[branch]
		if owners[branch] == "" || p.seen[branch] == b.Commit {
			continue
		}
		doc := intake.Document{Cluster: owners[branch], Where: string(b.Commit), First: p.seen[branch] == ""}
		if doc.Err = b.Err; doc.Err == nil {
			doc.Text, doc.Err = fileOf(b)
		}
		if errs.Is(doc.Err, errs.NotFound) {
			continue // it moved meanwhile; the next look finds it
		}
		if err := p.take(ctx, doc); err != nil {
			return err
		}
		p.seen[branch] = b.Commit
	}
	return nil
}

func fileOf(b git.Branch) ([]byte, error) {
	text, ok := b.Files[status.File]
	if !ok {
		return nil, errs.E(errs.Malformed, "read", "status report", errors.New("the branch has no file "+status.File))
	}
	return text, nil
}

// stranger counts a branch of no cluster, once.
func (p *poller) stranger(branch string) {
	if p.strangers[branch] {
		return
	}
	if len(p.strangers) >= maxStranger {
		clear(p.strangers)
	}
	p.strangers[branch] = true
	p.s.options.Count(intake.Unregistered)
	p.s.options.Log.Warn("a report of no cluster that reports here is left alone", "repo", p.at.repo.URL, "branch", branch)
}
