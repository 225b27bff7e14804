package auditlog

import (
	"context"
	"errors"
	"fmt"

	"github.com/emco-orchestrator/emco/src/api/audit"
	"github.com/emco-orchestrator/emco/src/api/errs"
)

// bookmark keeps, for each stream, the number of the last line that a copy has.
type bookmark interface {
	read(ctx context.Context) (map[string]int64, error)
	write(ctx context.Context, at map[string]int64) error
}

// news are the lines of a stream that a copy does not have yet.
type news struct {
	audit.Head         // the last of them
	after      int64   // the line before the first one
	rev        int64   // of etcd
	blocks     []block // that hold them
}

// forward hands the new lines of each stream to send, and stores the positions. send may call reached to store a position within the
// stream. When a stream fails, forward goes on with the next one, unless that would fail too: the error is Unavailable or Throttled, or
// a position could not be stored.
func (t *Log) forward(ctx context.Context, p bookmark, send func(ctx context.Context, n news, reached func(seq int64) error) error) error {
	at, err := p.read(ctx)
	if err != nil {
		return err
	}
	v, err := t.view(ctx)
	if err != nil {
		return err
	}
	probed := false
	var failed, kept error
	for _, h := range v.heads {
		if at[h.Stream] == h.Seq {
			continue
		}
		if !probed { // else the same lines would be copied again and again
			if err := p.write(ctx, at); err != nil {
				return fmt.Errorf("no lines are copied, because their positions cannot be kept: %w", err)
			}
			probed = true
		}
		if at[h.Stream] > h.Seq { // etcd was restored from a backup
			at[h.Stream] = 0
		}
		reached := func(seq int64) error {
			at[h.Stream] = seq
			kept = p.write(ctx, at)
			return kept
		}
		n := news{Head: h, after: at[h.Stream], rev: v.rev}
		n.blocks, err = t.blocks(ctx, h.Stream, n.after, n.rev)
		if err == nil {
			err = send(ctx, n, reached)
		}
		if err == nil && at[h.Stream] != h.Seq { // the last lines are missing
			err = reached(h.Seq)
		}
		if err == nil {
			continue
		}
		failed = errors.Join(err, failed) // the newest is the first: its pause counts
		if kept != nil || errs.Is(err, errs.Unavailable) || errs.Is(err, errs.Throttled) || ctx.Err() != nil {
			break
		}
	}
	return failed
}
