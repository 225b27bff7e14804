package shard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/pairstore"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
)

// stock takes a second to return its pairs, and counts its reads.
type stock struct {
	pairs []appcontext.Pair
	asked int
	fail  int
}

func (s *stock) all(context.Context) (map[string]*pairstore.Contents, error) {
	s.asked++
	time.Sleep(time.Second) // of the bubble's clock
	if s.asked <= s.fail {
		return nil, errors.New("etcd is away")
	}
	out := map[string]*pairstore.Contents{}
	for _, p := range s.pairs {
		if out[p.Shard] == nil {
			out[p.Shard] = pairstore.NewContents(p.Shard)
		}
		out[p.Shard].Records = append(out[p.Shard].Records, p)
	}
	return out, nil
}

func TestShardsLoadTheirPairsTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &stock{fail: 1}
		for n := range 100 {
			p := appcontext.Pair{Key: appcontext.PairKey{Cluster: v2.NewClusterKey("edge", fmt.Sprint("c", n)), Deployment: "7", App: "web"}, Shard: route.Group.Shard(n % route.Group.Shards)}
			if n >= 96 {
				p.Shard = [...]string{"", "rsync-99"}[n%2] // from before there were shards, or more of them
			}
			s.pairs = append(s.pairs, p)
		}
		l := &PairLoader{contents: s.all, shards: inFirst, reading: make(chan struct{}, 1)}
		var all sync.WaitGroup
		var mu sync.Mutex
		got, failed := 0, 0
		for n := range route.Group.Shards {
			all.Go(func() {
				stored, err := l.load(t.Context(), route.Group.Shard(n))
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					failed++
					return
				}
				want := 6
				if n == 0 {
					want = 10 // with the strays
				}
				if got += len(stored.Records); len(stored.Records) != want {
					t.Errorf("shard %d has %d pairs, want %d", n, len(stored.Records), want)
				}
			})
			synctest.Wait() // the first one reads, the others come too late for that
		}
		all.Wait()
		if s.asked > 3 || failed != 1 {
			t.Errorf("all pairs were read %d times and %d failed, want the first reading to fail and the others to share one", s.asked, failed)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := l.load(ctx, route.Group.Shard(0)); err == nil {
			t.Error("a cancelled load succeeds")
		}
	})
}

// On a busy machine the shards of a start come one after the other. They share a read, and none waits long.
func TestShardsThatComeOneAfterTheOtherShareARead(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		apart time.Duration
		reads int
	}{{40 * time.Millisecond, 1}, {120 * time.Millisecond, 3}} {
		synctest.Test(t, func(t *testing.T) {
			s := &stock{}
			l := &PairLoader{contents: s.all, shards: inFirst, reading: make(chan struct{}, 1)}
			var all sync.WaitGroup
			for n := range 12 {
				all.Go(func() {
					begun := time.Now()
					if _, err := l.load(t.Context(), route.Group.Shard(n)); err != nil {
						t.Error(err)
					}
					if took := time.Since(begun); took > maxGather+2*time.Second { // of reads
						t.Errorf("shard %d waited for %s", n, took)
					}
				})
				time.Sleep(tt.apart)
			}
			all.Wait()
			if s.asked > tt.reads {
				t.Errorf("%s apart: %d reads, want %d", tt.apart, s.asked, tt.reads)
			}
		})
	}
}
