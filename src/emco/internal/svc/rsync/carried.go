package rsync

import (
	"cmp"
	"context"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/git"
)

// recorders is how many records of one commit are written at the same time: it may carry
// many deployments.
const recorders = 8

// record remembers a commit with a revision of a head.
type record func(ctx context.Context, head string, rev int64, c appcontext.RevisionCommit) error

// carried is a revision that a commit brought to clusters.
type carried struct {
	head string
	rev  int64
}

// remember writes down which revisions a commit that was made carried to how many
// clusters, one record for each of them. It is done for people who ask later: an error loses a record and
// nothing else, and is logged by record.
func (s *gitSink) remember(ctx context.Context, d destination, hash git.Hash, shares []share) {
	if s.record == nil || hash == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), bookkeeping)
	defer cancel()
	var g errgroup.Group
	g.SetLimit(recorders)
	for what, clusters := range s.ledger.carried(shares) {
		c := appcontext.RevisionCommit{Repository: d.settings.Repo.URL, Branch: d.settings.Branch, Commit: string(hash), Clusters: clusters}
		g.Go(func() error { return s.record(ctx, what.head, what.rev, c) })
	}
	_ = g.Wait()
}

// carried counts the clusters of each revision in a commit. What is removed because
// nothing is wanted any more belongs to no revision.
func (l *ledger) carried(shares []share) map[carried]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[carried]int{}
	for _, sh := range shares {
		head := l.heads[sh.target.uid]
		if head == "" || !l.wanted[sh.target.uid] || len(sh.edits) == 0 {
			continue
		}
		var revs []int64
		for _, o := range sh.hopes {
			revs = append(revs, o.rev)
		}
		slices.SortFunc(revs, cmp.Compare)
		for _, rev := range slices.Compact(revs) {
			out[carried{head, rev}]++
		}
	}
	return out
}

// recordCommit is the record of a dispatcher.
func (d *dispatcher) recordCommit(ctx context.Context, head string, rev int64, c appcontext.RevisionCommit) error {
	err := d.contexts.RecordCommit(ctx, head, rev, c)
	if err != nil && !errs.Is(err, errs.NotFound) { // a revision that is gone needs no commits
		d.log.Warn("commit not recorded", "deployment", head, "rev", rev, "commit", c.Commit, "err", err)
	}
	return err
}
