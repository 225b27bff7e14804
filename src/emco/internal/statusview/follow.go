package statusview

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// whileBehind is how often a stream looks by itself while the mirror tells it nothing.
const pollInterval = 5 * time.Second

// Feed is a status that can be followed.
type Feed struct {
	UID  string                                    // of the document
	Read func(ctx context.Context) (Answer, error) // makes an answer anew
}

// Serve answers with what the feed says once, or, if the query asks to watch, with each
// answer that differs from the one before.
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
		return web.Raw(w, http.StatusOK, text)
	}
	return r.streams.Serve(w, req, func(ctx context.Context, send func([]byte) error) error {
		var last manifest.Digest
		return r.Follow(ctx, f, func(a Answer) error {
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
	})
}

// Follow tells an answer at once, and another one whenever it may have changed, at most
// one in each interval: what came between is left out. When clusters last said something
// is told only of those that are silent, or each sign of life would be another answer. It returns nil when ctx ends, the
// error of tell, or why no answer can be made, unless that is a store that is away.
func (r *Reader) Follow(ctx context.Context, f Feed, tell func(Answer) error) error {
	ids, life := []string{f.UID}, false
	sub := r.mirror.Subscribe(ids...)
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
		if !slices.Equal(ids, a.ids) || life != a.stale { // it may have changed before we listened
			ids, life = a.ids, a.stale
			sub.Follow(ids...)
			sub.Life(life)
			continue
		}
		first = false
		a.dropLiveness()
		if err := tell(a); err != nil {
			return err
		}
		r.await(ctx, sub.Changed(), a)
		pause(ctx, next)
	}
	return nil
}

// await returns when the answer may be another one.
func (r *Reader) await(ctx context.Context, changed <-chan struct{}, a Answer) {
	var turns, behind <-chan time.Time
	if !a.Expires.IsZero() {
		turns = time.After(a.Expires.Sub(r.options.Now()) + time.Millisecond)
	}
	if r.mirror.Behind() {
		behind = time.After(pollInterval)
	}
	select {
	case <-ctx.Done():
	case <-changed:
	case <-turns:
	case <-behind:
	}
}

func pause(ctx context.Context, until <-chan time.Time) {
	select {
	case <-ctx.Done():
	case <-until:
	}
}
