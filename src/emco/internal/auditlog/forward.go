package auditlog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/emco-orchestrator/emco/src/api/audit"
	"github.com/emco-orchestrator/emco/src/api/errs"
)

// bookmark keeps, for each stream, the number of the last line that a copy has.
type bookmark interface {
	read(ctx context.Context) (map[string]int64, error)
	write(ctx context.Context, at map[string]int64) error
}

// newLines are the lines of a stream that a copy does not have yet.
type newLines struct {
	audit.Head                         // the last of them
	after      int64                   // the line before the first one
	rev        int64                   // of etcd
	blocks     iter.Seq2[block, error] // that hold them
}

// sendFunc copies the new lines of a stream. It may call reached to store a position within the stream.
type sendFunc func(ctx context.Context, n newLines, reached func(seq int64) error) error

// forward hands the new lines of each stream to send, and stores the positions.
//
// The position of a stream is the number of the last line that the copy has. The bookmark keeps those of all streams together,
// and is tried before the first line goes out: without it the same lines would be copied again and again. When a stream fails,
// forward goes on with the next one, unless that would fail too: the error is Unavailable or Throttled, or a position could not
// be stored.
func (t *Log) forward(ctx context.Context, kept bookmark, send sendFunc) error {
	at, err := kept.read(ctx)
	if err != nil {
		return err
	}
	v, err := t.view(ctx)
	if err != nil {
		return err
	}
	behind := slices.DeleteFunc(slices.Clone(v.heads), func(h audit.Head) bool { return at[h.Stream] == h.Seq })
	if len(behind) == 0 {
		return nil
	}
	if err := kept.write(ctx, at); err != nil {
		return fmt.Errorf("no lines are copied, because their positions cannot be kept: %w", err)
	}
	p := &copyPositions{kept: kept, at: at}
	var failed error
	for _, h := range behind {
		err := t.forwardStream(ctx, h, v.rev, p, send)
		if err == nil {
			continue
		}
		failed = errors.Join(err, failed) // the newest is the first: its pause counts
		if p.lost != nil || errs.Is(err, errs.Unavailable) || errs.Is(err, errs.Throttled) || ctx.Err() != nil {
			break
		}
	}
	return failed
}

// forwardStream hands the lines of one stream to send, from its position to the head h.
func (t *Log) forwardStream(ctx context.Context, h audit.Head, rev int64, p *copyPositions, send sendFunc) error {
	if p.at[h.Stream] > h.Seq { // etcd was restored from a backup
		p.at[h.Stream] = 0
	}
	n := newLines{Head: h, after: p.at[h.Stream], rev: rev, blocks: t.blocks(ctx, h.Stream, p.at[h.Stream], rev, false)}
	reached := func(seq int64) error { return p.reach(ctx, h.Stream, seq) }
	if err := send(ctx, n, reached); err != nil || p.at[h.Stream] == h.Seq {
		return err
	}
	return reached(h.Seq) // the last lines are missing
}

// copyPositions are how far a copy is, by stream.
type copyPositions struct {
	kept bookmark
	at   map[string]int64
	lost error // why the last change could not be stored; nil if it was
}

// reach stores that the copy has a line of a stream.
func (p *copyPositions) reach(ctx context.Context, stream string, seq int64) error {
	p.at[stream] = seq
	p.lost = p.kept.write(ctx, p.at)
	return p.lost
}
