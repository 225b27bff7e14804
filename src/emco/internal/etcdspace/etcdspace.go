// Package etcdspace watches whether etcd answers, and keeps it writable. It logs outages, reports when etcd's quota is
// used up, and frees space in an embedded etcd, which no other process can reach.
package etcdspace

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/pause"
)

// probeTimeout bounds a check: probes of /readyz often wait for a second only.
const probeTimeout = 800 * time.Millisecond

// defaultPatience leaves a leader the time to change: etcd answers nothing meanwhile.
const defaultPatience = 3 * time.Second

// Service checks etcd periodically. A full embedded etcd is compacted and defragmented. If
// its content is really that large it is soon full again, until its quota is raised or
// deployments are removed.
type Service struct {
	Contexts *appcontext.Store
	Reclaim  func(context.Context) error // frees space; nil if etcd is not embedded
	OnProbe  func(full bool)             // called with the result of each check
	Log      *slog.Logger
	Period   time.Duration // between two checks; 0 is 15 seconds

	Place    string        // names etcd in the log, such as "etcd at https://10.0.0.1:2379"
	Patience time.Duration // how long etcd may be silent before the log says so; 0 is 3 seconds

	outage outage
}

// Name is "etcd".
func (s *Service) Name() string { return "etcd" }

// Ready asks etcd whether it can be read and written.
func (s *Service) Ready() error {
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	err := s.Contexts.Ready(ctx)
	full := errors.Is(err, appcontext.ErrFull)
	s.OnProbe(full)
	if err == nil || full {
		s.outage.answered(s.Log, s.Place)
	} else {
		s.outage.failed(s.Log, s.Place, cmp.Or(s.Patience, defaultPatience), err)
	}
	return err
}

// Run frees space when etcd is full, until ctx ends. An embedded etcd answers nothing
// meanwhile, so this takes at most a tenth of the time.
func (s *Service) Run(ctx context.Context) error {
	period := s.Period
	if period == 0 {
		period = 15 * time.Second
	}
	for wait := period; pause.For(ctx, wait) == nil; {
		wait = period
		if !errors.Is(s.Ready(), appcontext.ErrFull) {
			continue
		}
		if s.Reclaim == nil {
			s.Log.Error("etcd is full; it refuses writes until it has space again")
			continue
		}
		start := time.Now()
		err := s.Reclaim(ctx)
		took := time.Since(start)
		s.Log.Error("etcd was full; its history was dropped and its file defragmented", "took", took, "err", err)
		wait = max(period, 10*took)
	}
	return nil
}
