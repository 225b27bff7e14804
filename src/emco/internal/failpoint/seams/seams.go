// Package seams puts failpoints between the parts of the program: around the API, the
// document store, etcd, the Git host and its writer, the renderer, and the clusters'
// API servers. The parts themselves know nothing of it. A seam fails with what the real
// thing would say when it does not answer, so that everything above is put to the test.
//
// Each write has a point before it, where it was not made, and one after it, where it
// was made and whoever asked does not get to know.
package seams

import (
	"context"
	"slices"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/failpoint"
)

// The points, by what they are the failure of.
const (
	APIRequest = "api.request" // a request that was not looked at
	APIAnswer  = "api.answer"  // a request that was carried out, and of which the answer is lost

	DocumentRead         = "documents.read"
	DocumentPutBefore    = "documents.put.before"
	DocumentPutAfter     = "documents.put.after"
	DocumentRemoveBefore = "documents.remove.before"
	DocumentRemoveAfter  = "documents.remove.after"

	EtcdRead = "etcd.read"

	GitHeadBefore   = "git.head.before"   // before the branch is looked at
	GitHeadAfter    = "git.head.after"    // when its tip is known, before trees are fetched
	GitRead         = "git.read"          // trees and files that are read
	GitCommitBefore = "git.commit.before" // before anything is pushed
	GitCommitAfter  = "git.commit.after"  // the branch holds the commit, and the reply is lost
	GitAnswer       = "git.answer"        // the writer knows the commit, and nobody has written it down

	RenderBefore = "render.before"
	RenderAfter  = "render.after"

	KubeRead         = "kube.read"
	KubeDefineBefore = "kube.define.before" // definitions of kinds
	KubeDefineAfter  = "kube.define.after"
	KubeApplyBefore  = "kube.apply.before" // all other objects
	KubeApplyAfter   = "kube.apply.after"
	KubePruneBefore  = "kube.prune.before"
	KubePruneAfter   = "kube.prune.after"
)

// write is what a transaction in etcd is about. Its points are "etcd.WRITE.before" and
// "etcd.WRITE.after".
type write string

const (
	writeBlob    write = "blob"    // content
	writePlace   write = "place"   // placements, which no revision names yet
	writePublish write = "publish" // a revision becomes the desired one
	writeStep    write = "step"    // a head changes: an action, or an operation that failed
	writeIntend  write = "intend"  // pairs that are to be worked on
	writeSettle  write = "settle"  // pairs of which the outcome is known, and those that are gone
	writeCommit  write = "commit"  // which Git commits carried a revision
	writeReport  write = "report"  // what clusters report
	writeOwn     write = "own"     // who works
	writeEvent   write = "event"   // lines for people who read
	writeMove    write = "move"    // how far a cluster's move is
	writeRemove  write = "remove"  // a deployment is forgotten
)

// writes are all of them. A transaction that holds several is about the first of these.
var writes = []write{
	writeRemove, writePublish, writeStep, writeSettle, writeIntend, writeOwn, writePlace, writeBlob, writeCommit, writeReport, writeMove, writeEvent,
}

func (w write) before() string { return "etcd." + string(w) + ".before" }
func (w write) after() string  { return "etcd." + string(w) + ".after" }

// Points returns all points, in order.
func Points() []string {
	out := []string{
		APIRequest, APIAnswer, DocumentRead, DocumentPutBefore, DocumentPutAfter, DocumentRemoveBefore, DocumentRemoveAfter,
		EtcdRead, GitHeadBefore, GitHeadAfter, GitRead, GitCommitBefore, GitCommitAfter, GitAnswer, RenderBefore, RenderAfter,
		KubeRead, KubeDefineBefore, KubeDefineAfter, KubeApplyBefore, KubeApplyAfter, KubePruneBefore, KubePruneAfter,
	}
	for _, w := range writes {
		out = append(out, w.before(), w.after())
	}
	slices.Sort(out)
	return out
}

// at is the point's failure as one of a part that does not answer.
func at(ctx context.Context, s *failpoint.Set, point, op, subject string) error {
	if err := s.At(ctx, point); err != nil {
		return errs.E(errs.Unavailable, op, subject, err)
	}
	return nil
}

// between does something between two points: after the second one it is done, and whoever
// asked for it gets to know no more than before the first.
func between(at func(point string) error, before, after string, do func() error) error {
	if err := at(before); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	return at(after)
}
