package gitwriter

import (
	"cmp"
	"context"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/queue"
)

// maxRecording is how many records of one commit are written at the same time: it may
// carry many deployments.
const maxRecording = 8

// revision is a revision of a head.
type revision struct {
	head appcontext.HeadID
	rev  int64
}

// commitLog is which commits carried which revisions, and to how many clusters.
type commitLog map[revision][]appcontext.RevisionCommit

// add notes that a commit carried contributions. A removal without a head that wants
// anything belongs to no revision.
func (l commitLog) add(pairs Pairs, c appcontext.RevisionCommit, parts []contribution) {
	clusters := map[revision]int{}
	for _, part := range parts {
		head, wanted := pairs.Head(part.target.Deployment)
		if head == "" || !wanted || len(part.edits) == 0 {
			continue
		}
		var revs []int64
		for _, r := range part.expected {
			revs = append(revs, r.Rev)
		}
		slices.SortFunc(revs, cmp.Compare)
		for _, rev := range slices.Compact(revs) {
			clusters[revision{head, rev}]++
		}
	}
	for r, n := range clusters {
		c.Clusters = n
		l[r] = append(l[r], c)
	}
}

// record writes a commit log, one record for each revision. People read these records; an
// error loses one of them and nothing else, and RecordCommit logs it.
func (w *Writer) record(ctx context.Context, log commitLog) {
	if w.RecordCommit == nil || len(log) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), queue.GracePeriod)
	defer cancel()
	var g errgroup.Group
	g.SetLimit(maxRecording)
	for r, commits := range log {
		g.Go(func() error { return w.RecordCommit(ctx, r.head, r.rev, commits...) })
	}
	_ = g.Wait()
}
