package statusview

import (
	"context"
	"net/http"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// pollInterval is how often a stream reads while the mirror is behind and announces no changes.
const pollInterval = 5 * time.Second

// Feed reads a status repeatedly.
type Feed struct {
	Doc  store.Doc
	Read func(ctx context.Context) (Answer, error) // returns the current answer
}

// topicsOf returns what the status of a document depends on, if it has inherited no deployment.
func topicsOf(doc store.Doc) mirror.Topics {
	id := appcontext.HeadID(doc.UID)
	return mirror.Topics{Heads: []appcontext.HeadID{id}, Deployments: []v2.DeploymentID{id.Deployment()}}
}

// Serve answers once or, if the query watches, with each answer that differs from the
// previous one.
func (r *Reader) Serve(w http.ResponseWriter, req *http.Request, q Query, f Feed) error {
	if !q.Watch {
		a, err := f.Read(req.Context())
		if err != nil {
			return err
		}
		text, err := a.JSON()
		if err != nil {
			return err
		}
		return web.Conditional(w, req, text)
	}
	return r.streams.Serve(w, req, func(ctx context.Context, send func([]byte) error) error {
		var last manifest.Digest
		err := r.Follow(ctx, f, func(a Answer) error {
			text, err := a.JSON()
			if err != nil {
				return err
			}
			if d := manifest.DigestOf(text); d != last {
				last = d
				return send(text)
			}
			return nil
		})
		if errs.Is(err, errs.NotFound) && last != "" {
			return nil // the document was deleted: that was all
		}
		return err
	})
}

// Follow passes the current answer to send, and another one whenever it may have changed, at
// most one per interval: it skips answers in between. Answers contain the time of the last
// report only for stale clusters, or each heartbeat would be a change. Follow returns nil
// when ctx ends, the error of send, or why an answer cannot be read; it keeps trying while
// a store is unavailable.
func (r *Reader) Follow(ctx context.Context, f Feed, send func(Answer) error) error {
	topics, withHeartbeats := topicsOf(f.Doc), false
	sub := r.mirror.Subscribe(topics)
	defer sub.Close()
	for first := true; ctx.Err() == nil; {
		next := time.After(r.options.Interval)
		a, err := f.Read(ctx)
		switch {
		case errs.Is(err, errs.Unavailable) && !first:
			pause(ctx, next)
			continue
		case err != nil && ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		if !topics.Equal(a.topics) || withHeartbeats != a.stale { // it may have changed before the subscription covered these
			topics, withHeartbeats = a.topics, a.stale
			sub.Follow(topics)
			sub.SignalRepeats(withHeartbeats)
			continue
		}
		first = false
		a.dropLiveness()
		if err := send(a); err != nil {
			return err
		}
		r.await(ctx, sub.Changed(), a)
		pause(ctx, next)
	}
	return nil
}

// await waits until the answer may have changed.
func (r *Reader) await(ctx context.Context, changed <-chan struct{}, a Answer) {
	var expired, behind <-chan time.Time
	if !a.Expires.IsZero() {
		expired = time.After(a.Expires.Sub(r.options.Now()) + time.Millisecond)
	}
	if r.mirror.Behind() {
		behind = time.After(pollInterval)
	}
	select {
	case <-ctx.Done():
	case <-changed:
	case <-expired:
	case <-behind:
	}
}

func pause(ctx context.Context, until <-chan time.Time) {
	select {
	case <-ctx.Done():
	case <-until:
	}
}
