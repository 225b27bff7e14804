package agentreports

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/emco-orchestrator/emco/src/api/status"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/agents"
)

// shelf is a fleet's agents and documents in memory: an etcd that takes no time, so that in a test with its own
// clock only pauses do.
type shelf struct {
	testing.TB
	changed chan agents.Agent
	read    func(clusters int) // called by each read of documents; may be nil

	mu     sync.Mutex
	newest map[v2.ClusterKey]agents.Document // guarded by mu
}

func (s *shelf) Agents(ctx context.Context) iter.Seq[agents.Agent] {
	return func(yield func(agents.Agent) bool) {
		for {
			select {
			case <-ctx.Done():
				return
			case a := <-s.changed:
				if !yield(a) {
					return
				}
			}
		}
	}
}

// report stores news of a cluster, and has the watch yield its agent.
func (s *shelf) report(cluster v2.ClusterKey, seq uint64) {
	s.Helper()
	news := fmt.Sprint("news ", seq)
	text, err := status.Encode(good(cluster, seq, news), 0)
	if err != nil {
		s.Error(err)
	}
	s.mu.Lock()
	s.newest[cluster] = agents.Document{Cluster: cluster, Seq: seq, At: time.Now(), Text: text}
	s.mu.Unlock()
	s.changed <- agents.Agent{Cluster: cluster, Seq: seq, At: time.Now(), DocumentID: news, Parts: 1}
}

func (s *shelf) AgentDocuments(_ context.Context, clusters []v2.ClusterKey) (out []agents.Document, err error) {
	s.mu.Lock()
	for _, c := range clusters {
		out = append(out, s.newest[c])
	}
	s.mu.Unlock()
	if s.read != nil {
		s.read(len(clusters))
	}
	return out, nil
}

func (s *shelf) SetCapacity(context.Context, v2.ClusterKey, time.Time, status.Capacity) error {
	return nil
}

func (s *shelf) Agent(_ context.Context, cluster v2.ClusterKey) (agents.Agent, error) {
	return agents.Agent{Cluster: cluster}, nil
}

func (s *shelf) RefusalsOf(context.Context, v2.ClusterKey) (agents.Refusals, error) {
	return agents.Refusals{}, nil
}

// follow runs a source on the shelf until do returns. delivered returns the news delivered so far, in their order.
func (s *shelf) follow(t *testing.T, do func(delivered func() []string)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	var got []string
	src := NewSource(s, s, nil, &clusterMap{}, Options{})
	var running sync.WaitGroup
	running.Go(func() {
		_ = src.Run(ctx, func(_ context.Context, r appcontext.Report) {
			mu.Lock()
			defer mu.Unlock()
			if r.Key.App != "" {
				got = append(got, fmt.Sprintf("%s %s", r.Key.Cluster, r.Resources[0].Reason))
			}
		})
	})
	do(func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(got)
	})
	cancel()
	running.Wait()
}

func newShelf(t *testing.T) *shelf {
	return &shelf{TB: t, changed: make(chan agents.Agent), newest: map[v2.ClusterKey]agents.Document{}}
}

func clustersOf(n int) (out []v2.ClusterKey) {
	for i := range n {
		out = append(out, v2.ClusterKey(fmt.Sprintf("edge+c%05d", i)))
	}
	return out
}

// What a flood leaves in the queue is delivered without waiting for anything: reads follow each other as soon as
// they leave half of a processor.
func TestAfterAFloodNewsWaitOnlyForThoseBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, began, took := newShelf(t), time.Time{}, []time.Duration{}
		const read = time.Millisecond
		s.read = func(int) { time.Sleep(read); took = append(took, time.Since(began)) }
		fleet := clustersOf(1000)
		s.follow(t, func(delivered func() []string) {
			began = time.Now()
			for _, c := range fleet {
				s.report(c, 1)
			}
			synctest.Wait()
			time.Sleep(time.Minute)
			synctest.Wait()
			want := make([]string, len(fleet))
			for i, c := range fleet {
				want[i] = string(c) + " news 1"
			}
			if got := delivered(); !slices.Equal(got, want) {
				t.Errorf("%d reports were delivered, want the %d of the fleet in the order in which they came", len(got), len(fleet))
			}
		})
		for i := 3; i < len(took); i++ { // the first reads begin while news come
			if got := took[i] - took[i-1]; got != 2*read {
				t.Errorf("read %d ended %v after the one before; want %v for it and as much for others", i, got, read)
			}
		}
	})
}

// While all clusters report again before their turn, one document in a gap is read for many that come.
func TestInAFloodReplacedNewsAreSkipped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, reads, documents := newShelf(t), 0, 0
		s.read = func(n int) { reads, documents = reads+1, documents+n; time.Sleep(time.Millisecond) }
		fleet := clustersOf(500)
		const rounds, each = 100, 20 * time.Microsecond // 50,000 reports in a second
		s.follow(t, func(delivered func() []string) {
			for turn := range rounds {
				for _, c := range fleet {
					s.report(c, uint64(turn)+1)
					time.Sleep(each)
				}
			}
			if most := int(rounds*time.Duration(len(fleet))*each/documentGap) + 2; reads > most || documents > most*maxDocuments {
				t.Errorf("%d reads of %d documents while %d came, want at most %d reads", reads, documents, rounds*len(fleet), most)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			last := map[string]bool{}
			for _, r := range delivered() {
				last[r] = true
			}
			for _, c := range fleet {
				if !last[fmt.Sprintf("%s news %d", c, rounds)] {
					t.Errorf("the last news of %s were not delivered", c)
				}
			}
		})
	})
}
