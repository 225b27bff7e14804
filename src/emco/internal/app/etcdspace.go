package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// roomPeriod is how often etcd is asked whether it is full.
const roomPeriod = 15 * time.Second

// etcdSpace sees to it that etcd can be written. An embedded etcd that is full is compacted
// and defragmented: nobody else can reach it. If what it holds is really that large it is
// full again soon, and stays so until its quota is raised or deployments go.
type etcdSpace struct {
	contexts *appcontext.Store
	reclaim  func(context.Context) error // nil for an etcd that others look after
	full     prometheus.Gauge
	log      *slog.Logger
	period   time.Duration
}

func (r *etcdSpace) Name() string { return "etcd" }

// Ready asks etcd.
func (r *etcdSpace) Ready() error {
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	err := r.contexts.Ready(ctx)
	r.full.Set(0)
	if errors.Is(err, appcontext.ErrFull) {
		r.full.Set(1)
	}
	return err
}

// Run makes room when there is none, until ctx ends. Nothing is served meanwhile, so it
// takes at most a tenth of the time.
func (r *etcdSpace) Run(ctx context.Context) error {
	wait := r.period
	for pause(ctx, wait) {
		wait = r.period
		if !errors.Is(r.Ready(), appcontext.ErrFull) {
			continue
		}
		if r.reclaim == nil {
			r.log.Error("etcd is full; what is written is refused until there is room")
			continue
		}
		start := time.Now()
		err := r.reclaim(ctx)
		took := time.Since(start)
		r.log.Error("etcd was full; its history was dropped, and its file defragmented", "seconds", took.Seconds(), "err", err)
		wait = max(r.period, 10*took)
	}
	return nil
}

// pause waits; false if ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
