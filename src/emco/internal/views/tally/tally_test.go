package tally

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/pairstore"
)

const stale = 3 * time.Minute

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// ready is a pair that its cluster has reported as ready, or not.
func ready(yes bool, at time.Time) *mirror.Entry {
	p := appcontext.Pair{Rev: 2, Desired: "d", Applied: "d", Phase: appcontext.Applied, At: at}
	return &mirror.Entry{State: pairstore.StateOf(p), Report: &mirror.Report{At: at, Seq: 1, Ready: yes, Since: at}}
}

func failed(why string) *mirror.Entry {
	return &mirror.Entry{State: pairstore.StateOf(appcontext.Pair{Rev: 2, Desired: "d", Phase: appcontext.Failed, Error: why})}
}

func pairKey(cluster v2.ClusterKey, app string) appcontext.PairKey {
	return appcontext.PairKey{Cluster: cluster, Deployment: "1", App: app}
}

// follower collects the events of a stream in a bubble of time.
type follower struct {
	begun bool // the header was sent
	got   []string
	stop  func()
}

func follow(t *testing.T, tally *Tally, from int64, about ...Topic) *follower {
	ctx, cancel := context.WithCancel(t.Context())
	f, done := &follower{}, make(chan struct{})
	go func() {
		defer close(done)
		_ = tally.Follow(ctx, about, from, func(e []byte) error {
			if e == nil {
				f.begun = true
				return nil
			}
			f.got = append(f.got, strings.ReplaceAll(strings.TrimSpace(string(e)), "\n", " | "))
			return nil
		})
	}()
	f.stop = func() { cancel(); <-done }
	return f
}

// tell waits until the stream has sent the changes, and returns its events.
func (f *follower) tell() string {
	time.Sleep(streamPause)
	synctest.Wait()
	out := strings.Join(f.got, "\n")
	f.got = nil
	return out
}

func TestAStreamTellsOfChangedMarks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tally := New(stale, time.Now)
		tally.Advanced(1)
		var mark atomic.Value
		mark.Store("one")
		about := Topic{Name: "events", Mark: func() string { return mark.Load().(string) }}
		f := follow(t, tally, -1, about)
		if got := f.tell(); strings.Contains(got, "rows") {
			t.Errorf("at first: %s", got)
		}
		if got := f.tell(); got != "" {
			t.Errorf("nothing has changed: %s", got)
		}
		mark.Store("two")
		if got := f.tell(); !strings.HasSuffix(got, `event: rows | data: {"topic":"events"}`) {
			t.Errorf("after a change: %s", got)
		}
		if got := f.tell(); got != "" {
			t.Errorf("told twice: %s", got)
		}
		f.stop()
		f = follow(t, tally, 0, about)
		defer f.stop()
		if got := f.tell(); !strings.Contains(got, `event: rows | data: {"topic":"events"}`) {
			t.Errorf("a client that goes on may have missed a change: %q", got)
		}
	})
}

// A client that goes on where nothing has changed gets the header of its stream at once, as a browser needs it.
func TestAStreamBeginsBeforeItsFirstEvent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tally := New(stale, time.Now)
		next, _, _ := tally.changes(-1)
		f := follow(t, tally, next, Topic{Name: "fleet"})
		defer f.stop()
		synctest.Wait()
		if !f.begun || len(f.got) > 0 {
			t.Errorf("begun: %t, events: %q", f.begun, f.got)
		}
	})
}

func TestAStreamTellsWhatHasChanged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tally := New(stale, time.Now)
		h := appcontext.Head{UID: "1", Rev: 1}
		tally.HeadChanged("1", &h)
		tally.PairChanged(pairKey("edge+a", "web"), ready(true, time.Now()))
		tally.Advanced(1)
		f := follow(t, tally, -1, Topic{Name: "fleet"}, Topic{Name: "cluster:edge+b", Cluster: "edge+b"}, Topic{Name: "group:g", Head: "1"})
		defer func() { f.stop() }()
		if got := f.tell(); !strings.Contains(got, `event: resync | data: {"resync":true}`) || strings.Contains(got, "event: fleet") {
			t.Errorf("at first: %s", got)
		}
		if got := f.tell(); got != "" {
			t.Errorf("nothing has changed: %s", got)
		}
		for range 5 { // five changes in one second are one event
			tally.PairChanged(pairKey("edge+b", "web"), failed("no"))
			tally.PairChanged(pairKey("edge+b", "web"), ready(false, time.Now()))
		}
		got := strings.Split(f.tell(), "\n")
		if len(got) != 3 ||
			!strings.HasSuffix(got[0], `event: fleet | data: {"pairs":{"notReady":1,"ready":1},"clusters":[{"cluster":"edge+b","state":"notReady"}]}`) ||
			!strings.HasSuffix(got[1], `event: rows | data: {"topic":"cluster:edge+b","state":"notReady","counts":{"notReady":1}}`) ||
			!strings.HasSuffix(got[2], `event: rows | data: {"topic":"group:g","state":"notReady","counts":{"notReady":1,"ready":1}}`) {
			t.Errorf("after changes:\n%s", strings.Join(got, "\n"))
		}
		time.Sleep(aliveEvery)
		if got := f.tell(); got != ": alive" {
			t.Errorf("after a silence: %q", got)
		}
		var last int64
		if _, err := fmt.Sscanf(got[2], "id: %d", &last); err != nil {
			t.Fatal(err)
		}
		f.stop()
		tally.PairChanged(pairKey("edge+b", "web"), ready(true, time.Now()))
		f = follow(t, tally, last, Topic{Name: "fleet"})
		if got := f.tell(); !strings.Contains(got, `{"cluster":"edge+b","state":"ready"}`) || strings.Contains(got, "resync") {
			t.Errorf("continued: %s", got)
		}
		for i := range maxChanged + 1 {
			tally.PairChanged(pairKey(v2.NewClusterKey("edge", fmt.Sprint("c", i)), "web"), failed("no"))
		}
		if got := f.tell(); !strings.Contains(got, `event: fleet | data: {"resync":true}`) {
			t.Errorf("too many changes: %.300s", got)
		}
		tally.Restarted()
		if got := f.tell(); !strings.Contains(got, "event: resync") {
			t.Errorf("after a restart: %.300s", got)
		}
		f.stop()
		f = follow(t, tally, 0, Topic{Name: "fleet"})
		if got := f.tell(); !strings.Contains(got, "event: resync") {
			t.Errorf("news that are not kept: %.300s", got)
		}
	})
}

// The tally equals a count of all records after any changes.
func TestTheTallyEqualsACount(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	now, pairs := noon, map[appcontext.PairKey]*mirror.Entry{}
	counted := New(stale, func() time.Time { return now })
	entries := []func() *mirror.Entry{
		func() *mirror.Entry { return ready(true, now) },
		func() *mirror.Entry { return ready(false, now) },
		func() *mirror.Entry { e := ready(true, now); e.Report.Seq = 0; return e },
		func() *mirror.Entry { return failed("x") },
		func() *mirror.Entry { e := ready(true, now); e.State.Common().Desired = ""; return e },
		func() *mirror.Entry { e := ready(true, now); e.State.Common().Blocked = "wave 2"; return e },
		func() *mirror.Entry { e := ready(true, now); e.State.Common().Applied = "old"; return e },
		func() *mirror.Entry { e := ready(true, now); e.Report = nil; return e },
		func() *mirror.Entry { return nil },
	}
	for i := range 10_000 {
		cluster := fmt.Sprint("edge+c", random.IntN(20))
		switch random.IntN(20) {
		case 0:
			now = now.Add(time.Duration(random.IntN(90)) * time.Second)
			counted.Age()
		case 1:
			counted.AgentHeard(v2.ClusterKey(cluster), now)
		default:
			k := appcontext.PairKey{
				Cluster: v2.ClusterKey(cluster), Deployment: v2.DeploymentID(fmt.Sprint(random.IntN(4))), App: fmt.Sprint("app", random.IntN(5)),
			}
			if pairs[k] = entries[random.IntN(len(entries))](); pairs[k] == nil {
				delete(pairs, k)
			}
			counted.PairChanged(k, pairs[k])
		}
		if i%500 != 0 {
			continue
		}
		counted.Age()
		var all Counts
		byCluster, byDeployment, byTarget := map[v2.ClusterKey]Counts{}, map[v2.DeploymentID]Counts{}, map[string]Counts{}
		for k, e := range pairs {
			c := counted.clusters[k.Cluster]
			silent := c.agent && now.Sub(c.heard) > stale
			s := cellOf(e).at(silent)
			all[s]++
			one := byCluster[k.Cluster]
			one[s]++
			byCluster[k.Cluster] = one
			one = byDeployment[k.Deployment]
			one[s]++
			byDeployment[k.Deployment] = one
			one = byTarget[string(k.Deployment)+string(k.Cluster)]
			one[s]++
			byTarget[string(k.Deployment)+string(k.Cluster)] = one
		}
		if counted.pairs != all {
			t.Fatalf("after %d changes the tally is %v, a count %v", i, counted.pairs, all)
		}
		for name, c := range counted.clusters {
			if c.counts != byCluster[name] {
				t.Fatalf("after %d changes %s has %v, a count %v", i, name, c.counts, byCluster[name])
			}
		}
		for uid, d := range counted.deployments {
			if d.counts != byDeployment[uid] {
				t.Fatalf("after %d changes deployment %s has %v, a count %v", i, uid, d.counts, byDeployment[uid])
			}
			for cluster, on := range d.targets {
				if on.counts != byTarget[string(uid)+string(cluster)] {
					t.Fatalf("after %d changes deployment %s on %s has %v, a count %v", i, uid, cluster, on.counts, byTarget[string(uid)+string(cluster)])
				}
			}
		}
	}
	counted.Restarted()
	if counted.Whole() || counted.pairs != (Counts{}) || len(counted.clusters) > 0 {
		t.Error("something is left after a restart")
	}
}

func BenchmarkFleetOf5000By20(b *testing.B) {
	t := New(stale, func() time.Time { return noon })
	h := appcontext.Head{UID: "1", Rev: 1}
	t.HeadChanged("1", &h)
	e := ready(true, noon)
	for i := range 5000 {
		for a := range 20 {
			t.PairChanged(appcontext.PairKey{Cluster: v2.ClusterKey(fmt.Sprintf("edge+c%04d", i)), Deployment: "1", App: fmt.Sprint("app", a)}, e)
		}
	}
	other := ready(false, noon)
	for i := 0; b.Loop(); i++ {
		if e == other {
			e = ready(true, noon)
		} else {
			e = other
		}
		t.PairChanged(appcontext.PairKey{Cluster: v2.ClusterKey(fmt.Sprintf("edge+c%04d", i%5000)), Deployment: "1", App: "app7"}, e)
	}
}
