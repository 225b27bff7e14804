package etcd

import (
	"context"
	"sync"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// newestRevision asks etcd for the revision of the last write of a document. Concurrent calls share a request.
type newestRevision struct {
	changes *changeLog
	turn    chan struct{} // holds one token while a request is under way

	mu   sync.Mutex
	next *question // whose request is not sent yet; nil for none; guarded by mu
}

// question is a request with its waiting callers.
type question struct {
	done chan struct{} // closed when at and err are final
	at   int64
	err  error
}

func newNewestRevision(l *changeLog) *newestRevision {
	return &newestRevision{changes: l, turn: make(chan struct{}, 1)}
}

// ask returns the revision of the last write that was acknowledged before the call, or of a later one.
func (n *newestRevision) ask(ctx context.Context) (int64, error) {
	q := n.join()
	select {
	case <-q.done:
		return q.at, q.err
	case <-ctx.Done():
		return 0, errs.E(errs.Unavailable, "read", n.changes.last, context.Cause(ctx))
	case n.turn <- struct{}{}:
	}
	n.send(context.WithoutCancel(ctx), q)
	<-n.turn
	return q.at, q.err
}

// join returns the question that is not sent yet.
func (n *newestRevision) join() *question {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.next == nil {
		n.next = &question{done: make(chan struct{})}
	}
	return n.next
}

// send asks, unless another goroutine has asked this question.
func (n *newestRevision) send(ctx context.Context, q *question) {
	n.mu.Lock()
	if n.next != q {
		n.mu.Unlock()
		return
	}
	n.next = nil // later callers need a newer answer
	n.mu.Unlock()
	q.at, q.err = n.changes.newest(ctx)
	close(q.done)
}
