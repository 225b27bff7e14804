package views

import (
	"context"
	"sync"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/views/tally"
)

const (
	sampleEvery = time.Minute
	keptSamples = 61 // an hour, and the one that is being left
)

// pastCounts keeps the number of clusters in each state, for an hour. It forgets with the
// process.
type pastCounts struct {
	mu      sync.Mutex
	samples []pastSample // the oldest first; guarded by mu
}

type pastSample struct {
	at       time.Time
	clusters tally.Counts
}

// due reports whether it is time for a sample.
func (p *pastCounts) due(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.samples) == 0 || now.Sub(p.samples[len(p.samples)-1].at) >= sampleEvery
}

func (p *pastCounts) add(now time.Time, clusters tally.Counts) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.samples = append(p.samples, pastSample{now, clusters}); len(p.samples) > keptSamples {
		p.samples = append(p.samples[:0], p.samples[1:]...)
	}
}

// hourAgo returns the counts of an hour ago; nil if the process has not counted for so long.
func (p *pastCounts) hourAgo(now time.Time) v2.ViewCounts {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.samples) - 1; i >= 0; i-- {
		if age := now.Sub(p.samples[i].at); age >= time.Hour {
			if age > time.Hour+2*sampleEvery {
				return nil // nothing was counted at that time
			}
			return p.samples[i].clusters.View()
		}
	}
	return nil
}

// remember takes a sample of the whole fleet once a minute.
func (v *Views) remember(ctx context.Context) {
	now := v.Now()
	if !v.Tally.Whole() || !v.past.due(now) {
		return
	}
	keys, _, err := v.registered(ctx, pageFilter{})
	if err != nil {
		return // the next look is a second later
	}
	sums, _ := v.Tally.ClusterSums(keys)
	var clusters tally.Counts
	for _, s := range sums {
		clusters[s.State]++
	}
	v.past.add(now, clusters)
}
