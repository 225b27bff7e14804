package oidc

import (
	"context"
	"sync"
	"time"
)

// question asks a provider for something that many requests need. One goroutine at a time asks, and the others wait
// for its answer, however slow the provider is. After an answer or a failure, nothing asks again for a pause.
type question struct {
	ask func(context.Context) error // has a deadline of its own
	now func() time.Time

	asking   sync.Mutex // held while the provider is asked
	answered time.Time  // end of the last question; guarded by asking
	failure  error      // of the last question; guarded by asking
}

// wait asks, or waits for the answer to whoever asks. It returns why the last question failed; nil if it did not.
func (q *question) wait(ctx context.Context) error {
	q.asking.Lock()
	defer q.asking.Unlock()
	q.askLocked(ctx, retryPause)
	return q.failure
}

// try asks, unless another caller does, or did within a pause; then the caller goes on with what is known.
func (q *question) try(ctx context.Context, pause time.Duration) {
	if q.asking.TryLock() {
		defer q.asking.Unlock()
		q.askLocked(ctx, pause)
	}
}

func (q *question) askLocked(ctx context.Context, pause time.Duration) {
	if q.now().Sub(q.answered) < pause {
		return
	}
	q.failure = q.ask(context.WithoutCancel(ctx)) // others wait for the same answer
	q.answered = q.now()
}
