package rsync

import (
	"context"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// Source tells what agents on clusters say, where rsync does not watch itself. Run works
// until ctx ends, and calls deliver for each report; it may do so from several
// goroutines, but those of one pair in order. A report is of one pair; one that names a
// cluster only says that its agent is there. What was reported last is delivered again
// after a start.
type Source interface {
	Run(ctx context.Context, deliver func(context.Context, appcontext.Report)) error
}

// listen runs a source until ctx ends; one that ends before is run again.
func (d *dispatcher) listen(ctx context.Context, s Source) {
	for ctx.Err() == nil {
		if err := s.Run(ctx, d.reports.take); ctx.Err() == nil {
			d.log.Warn("a source of reports ended; it is started again", "err", err)
			pause(ctx, time.Second)
		}
	}
}
