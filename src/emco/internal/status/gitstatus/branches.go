package gitstatus

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/status"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/intake"
	"github.com/emco-orchestrator/emco/src/git"
)

// fileLimit allows one report and its notes on a branch.
var fileLimit = git.Limit{Object: status.MaxSize, Files: 4}

// readBranches lists the branches of clusters and accepts the documents of those that moved.
func (p *poller) readBranches(ctx context.Context) error {
	owners := map[string]v2.ClusterKey{}
	for name := range p.currentClusters() {
		owners[status.Branch(p.location.branch, string(name))] = name
	}
	found, err := p.source.git.Branches(ctx, p.location.repo, p.location.branch, func(branch string, at git.Hash) bool {
		if owners[branch] == "" {
			p.countUnknown(branch)
			return false
		}
		return p.seen[branch] != at
	}, fileLimit)
	if err != nil {
		return err
	}
	maps.DeleteFunc(p.seen, func(branch string, _ git.Hash) bool { return owners[branch] == "" })
	var docs []intake.Document
	var moved []string // their branches
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
			continue // it moved since the listing; the next poll finds it
		}
		docs, moved = append(docs, doc), append(moved, branch)
	}
	var failed error // the first one
	for i, err := range p.acceptAll(ctx, docs) {
		if err == nil {
			p.seen[moved[i]] = found[moved[i]].Commit
		} else if failed == nil {
			failed = err
		}
	}
	return failed
}

func fileOf(b git.Branch) ([]byte, error) {
	text, ok := b.Files[status.File]
	if !ok {
		return nil, errs.E(errs.Malformed, "read", "status report", errors.New("the branch has no file "+status.File))
	}
	return text, nil
}

// countUnknown counts a branch of no cluster, once. Beyond maxUnknownBranches it counts no more.
func (p *poller) countUnknown(branch string) {
	if p.unknownBranches[branch] || len(p.unknownBranches) >= maxUnknownBranches {
		return
	}
	p.unknownBranches[branch] = true
	p.source.options.Count(intake.Unregistered)
	p.source.options.Log.Warn("status branch of an unknown cluster ignored", "repo", p.location.repo.URL, "branch", branch)
}
