package trail

import (
	"context"
	"fmt"

	"github.com/emco-orchestrator/emco/src/api/audit"
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

// forward hands what is new in each stream to send, and keeps the positions. Reached keeps one within a stream.
func (t *Trail) forward(ctx context.Context, p bookmark, send func(ctx context.Context, n news, reached func(seq int64) error) error) error {
	at, err := p.read(ctx)
	if err != nil {
		return err
	}
	v, err := t.view(ctx)
	if err != nil {
		return err
	}
	probed := false
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
		n := news{Head: h, after: at[h.Stream], rev: v.rev}
		if n.blocks, err = t.blocks(ctx, h.Stream, n.after, n.rev); err != nil {
			return err
		}
		reached := func(seq int64) error {
			at[h.Stream] = seq
			return p.write(ctx, at)
		}
		if err := send(ctx, n, reached); err != nil {
			return err
		}
		if err := reached(h.Seq); err != nil {
			return err
		}
	}
	return nil
}
