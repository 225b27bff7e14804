package rsync

import (
	"cmp"
	"context"
	"slices"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pairs"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/queue"
	"github.com/emco-orchestrator/emco/src/git"
	"golang.org/x/sync/errgroup"
)

// recorders is how many records of one commit are written at the same time: it may carry
// many deployments.
const recorders = 8

// record remembers commits with a revision of a head.
type record func(ctx context.Context, head string, rev int64, c ...appcontext.RevisionCommit) error

// carried is a revision that a commit brought to clusters.
type carried struct {
	head string
	rev  int64
}

// memoir is which commits carried revisions, and to how many clusters.
type memoir map[carried][]appcontext.RevisionCommit

// add notes the revisions that a commit carried, each with the number of its clusters. What
// is removed because nothing is desired belongs to no revision.
func (m memoir) add(store *pairs.Store, c appcontext.RevisionCommit, shares []share) {
	clusters := map[carried]int{}
	for _, sh := range shares {
		head, wanted := store.Head(sh.target.UID)
		if head == "" || !wanted || len(sh.edits) == 0 {
			continue
		}
		var revs []int64
		for _, o := range sh.hopes {
			revs = append(revs, o.Rev)
		}
		slices.SortFunc(revs, cmp.Compare)
		for _, rev := range slices.Compact(revs) {
			clusters[carried{head, rev}]++
		}
	}
	for what, n := range clusters {
		c.Clusters = n
		m[what] = append(m[what], c)
	}
}

// remember writes down a memoir, one record for each revision. It is done for people who
// ask later: an error loses a record and nothing else, and is logged by record.
func (s *gitSink) remember(ctx context.Context, all memoir) {
	if s.record == nil || len(all) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), queue.GracePeriod)
	defer cancel()
	var g errgroup.Group
	g.SetLimit(recorders)
	for what, commits := range all {
		g.Go(func() error { return s.record(ctx, what.head, what.rev, commits...) })
	}
	_ = g.Wait()
}

// landed is the memoir of a Git commit that was made for shares, if there is one.
func (s *gitSink) landed(d route.Route, made git.Hash, shares []share) memoir {
	out := memoir{}
	if made != "" {
		out.add(s.ledger, appcontext.RevisionCommit{Repository: d.Settings.Repo.URL, Branch: d.Settings.Branch, Commit: string(made)}, shares)
	}
	return out
}

// recordCommit is the record of a dispatcher.
func (d *dispatcher) recordCommit(ctx context.Context, head string, rev int64, c ...appcontext.RevisionCommit) error {
	err := d.contexts.RecordCommit(ctx, head, rev, c...)
	if err != nil && !errs.Is(err, errs.NotFound) { // a revision that is gone needs no commits
		d.log.Warn("commits not recorded", "deployment", head, "rev", rev, "commits", len(c), "err", err)
	}
	return err
}
