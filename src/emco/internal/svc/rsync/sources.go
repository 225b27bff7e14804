package rsync

import (
	"context"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/pause"
)

// Source delivers what agents on clusters report, for clusters that are not watched from
// here. Run works until ctx ends and calls deliver for each report, from several goroutines
// if it likes, but in order for each pair. A report that names a cluster alone only means
// that its agent is there. After a start, the last report on each pair is delivered again.
type Source interface {
	Run(ctx context.Context, deliver func(context.Context, appcontext.Report)) error
}

// gatherShards is how long shards that start together take until all have started.
const gatherShards = time.Second

// runSources runs the sources while this process has shards. When shards change, it starts
// the sources again, so that a new shard gets the last reports.
func (s *Service) runSources(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-s.shards.changed:
		case <-ctx.Done():
			return
		}
		if len(s.shards.list()) == 0 {
			continue
		}
		_ = pause.For(ctx, gatherShards)
		select {
		case <-s.shards.changed:
		default:
		}
		s.runSourcesOnce(ctx)
	}
}

// runSourcesOnce runs the sources until shards change.
func (s *Service) runSourcesOnce(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	for _, src := range s.sources {
		all.Go(func() {
			for ctx.Err() == nil {
				if err := src.Run(ctx, s.deliverReport); ctx.Err() == nil {
					s.log.Warn("a source of reports ended; restarting it", "err", err)
					_ = pause.For(ctx, time.Second)
				}
			}
		})
	}
	select {
	case <-s.shards.changed:
		s.shards.signal() // for runSources
	case <-ctx.Done():
	}
	cancel()
	all.Wait()
}

// deliverReport hands a report to all shards of this process. The one that has the pair stores
// it; the others drop it.
func (s *Service) deliverReport(ctx context.Context, r appcontext.Report) {
	for _, sh := range s.shards.list() {
		sh.Report(ctx, r)
	}
}
