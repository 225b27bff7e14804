package shard

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
)

// stock yields one pair a second, and counts its reads.
type stock struct {
	pairs []appcontext.Pair
	asked int
	fail  int
}

func (s *stock) all(context.Context) iter.Seq2[appcontext.Pair, error] {
	return func(yield func(appcontext.Pair, error) bool) {
		s.asked++
		time.Sleep(time.Second) // of the bubble's clock
		if s.asked <= s.fail {
			yield(appcontext.Pair{}, errors.New("etcd is away"))
			return
		}
		for _, p := range s.pairs {
			if !yield(p, nil) {
				return
			}
		}
	}
}

func TestShardsLoadTheirPairsTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &stock{fail: 1}
		for n := range 100 {
			p := appcontext.Pair{Key: appcontext.PairKey{Cluster: v2.NewClusterKey("edge", fmt.Sprint("c", n)), UID: "7", App: "web"}, Shard: route.Group.Shard(n % route.Group.Shards)}
			if n >= 96 {
				p.Shard = [...]string{"", "rsync-99"}[n%2] // from before there were shards, or more of them
			}
			s.pairs = append(s.pairs, p)
		}
		l := &PairLoader{pairs: s.all, shards: inFirst, reading: make(chan struct{}, 1)}
		var all sync.WaitGroup
		var mu sync.Mutex
		got, failed := 0, 0
		for n := range route.Group.Shards {
			all.Go(func() {
				pairs, err := l.load(t.Context(), route.Group.Shard(n))
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
				if got += len(pairs); len(pairs) != want {
					t.Errorf("shard %d has %d pairs, want %d", n, len(pairs), want)
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
