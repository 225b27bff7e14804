package rsync

import (
	"context"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/queue"
)

// Source tells what agents on clusters say, where rsync does not watch itself. Run works
// until ctx ends, and calls deliver for each report; it may do so from several
// goroutines, but those of one pair in order. A report is of one pair; one that names a
// cluster only says that its agent is there. What was reported last is delivered again
// after a start.
type Source interface {
	Run(ctx context.Context, deliver func(context.Context, appcontext.Report)) error
}

// assembly is how long it takes until the shards of a process that begin together have
// all begun.
const assembly = time.Second

// listen runs the sources while this process has shards. When a shard comes they are
// started anew, so that it hears what was reported last.
func (s *Service) listen(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-s.terms.moved:
		case <-ctx.Done():
			return
		}
		if len(s.terms.working()) == 0 {
			continue
		}
		queue.Pause(ctx, assembly)
		select {
		case <-s.terms.moved:
		default:
		}
		s.hear(ctx)
	}
}

// hear runs the sources until a shard begins or ends.
func (s *Service) hear(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	for _, src := range s.parts.Sources {
		all.Go(func() { s.follow(ctx, src) })
	}
	select {
	case <-s.terms.moved:
		s.terms.change(func() {}) // listen looks at it
	case <-ctx.Done():
	}
	cancel()
	all.Wait()
}

// follow runs a source until ctx ends; one that ends before is run again.
func (s *Service) follow(ctx context.Context, src Source) {
	for ctx.Err() == nil {
		if err := src.Run(ctx, s.deliver); ctx.Err() == nil {
			s.parts.Log.Warn("a source of reports ended; it is started again", "err", err)
			queue.Pause(ctx, time.Second)
		}
	}
}

// deliver hands a report to all dispatchers; the one that has the pair keeps it.
func (s *Service) deliver(ctx context.Context, r appcontext.Report) {
	for _, d := range s.terms.working() {
		d.reports.Add(ctx, r)
	}
}
