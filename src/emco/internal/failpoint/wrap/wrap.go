// Package wrap puts failpoints around the parts of the program: the API, the document
// store, etcd, the Git host and its writer, the renderer, and the clusters' API servers.
// The parts do not know of it. A wrapper fails with the error of a part that does not
// answer.
//
// Each write has a point before it, where it was not made, and one after it, where it was
// made and the answer is lost.
package wrap

import (
	"context"
	"slices"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/failpoint"
)

// The points, by what fails there.
const (
	APIRequest = "api.request" // the request is not carried out
	APIAnswer  = "api.answer"  // the request was carried out, and the answer is lost

	DocumentRead         = "documents.read"
	DocumentPutBefore    = "documents.put.before"
	DocumentPutAfter     = "documents.put.after"
	DocumentRemoveBefore = "documents.remove.before"
	DocumentRemoveAfter  = "documents.remove.after"

	EtcdRead = "etcd.read"

	GitHeadBefore   = "git.head.before"   // before the branch is read
	GitHeadAfter    = "git.head.after"    // the tip is known, and no tree is fetched yet
	GitRead         = "git.read"          // reading trees and files
	GitCommitBefore = "git.commit.before" // before anything is pushed
	GitCommitAfter  = "git.commit.after"  // the branch holds the commit, and the answer is lost
	GitAnswer       = "git.answer"        // the writer knows the commit, and nothing has recorded it

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

// writeKind is the kind of a transaction in etcd. Its points are "etcd.WRITE.before" and
// "etcd.WRITE.after".
type writeKind string

const (
	writeBlob    writeKind = "blob"    // content
	writePlace   writeKind = "place"   // placements that no revision names yet
	writePublish writeKind = "publish" // a revision becomes the desired one
	writeStep    writeKind = "step"    // a head changes: an action, or an operation that failed
	writeIntend  writeKind = "intend"  // pairs before their delivery
	writeSettle  writeKind = "settle"  // pairs after their delivery, and removed ones
	writeCommit  writeKind = "commit"  // Git commits of a revision
	writeReport  writeKind = "report"  // reports of clusters
	writeOwn     writeKind = "own"     // ownerships and members
	writeHistory writeKind = "history" // what clusters held
	writeEvent   writeKind = "event"   // events
	writeMove    writeKind = "move"    // moves of clusters
	writeRemove  writeKind = "remove"  // deletion of a deployment
)

// writes is all kinds. A transaction with several has the first of these.
var writes = []writeKind{
	writeRemove, writePublish, writeStep, writeSettle, writeIntend, writeOwn, writePlace, writeBlob, writeCommit, writeReport, writeMove, writeHistory, writeEvent,
}

func (w writeKind) before() string { return "etcd." + string(w) + ".before" }
func (w writeKind) after() string  { return "etcd." + string(w) + ".after" }

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

// at returns the failure of a point as that of a part that does not answer.
func at(ctx context.Context, s *failpoint.Set, point, op, subject string) error {
	if err := s.At(ctx, point); err != nil {
		return errs.E(errs.Unavailable, op, subject, err)
	}
	return nil
}

// between runs do between two points. A failure at the second one looks to the caller like
// one at the first.
func between(at func(point string) error, before, after string, do func() error) error {
	if err := at(before); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	return at(after)
}
