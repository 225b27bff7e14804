package pairstore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/pairstore"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/shards"
)

const shard = "rsync-03"

// space is a prefix of etcd with a writer of one shard.
type space struct {
	kv     *etcdkv.Client
	store  *pairstore.Store
	writer *pairstore.Writer
	fence  etcdkv.Fence
	ops    map[string]int // requests by kind
}

func newSpace(t testing.TB, client *clientv3.Client) *space {
	t.Helper()
	s := &space{ops: map[string]int{}}
	var mu sync.Mutex // guards ops during a Write
	s.kv = etcdkv.New(client, "/"+rand.Text(), etcdkv.Options{OnRequest: func(kind string, _ int) {
		mu.Lock()
		defer mu.Unlock()
		s.ops[kind]++
	}})
	s.store = pairstore.New(s.kv)
	own, err := shards.Own(t.Context(), etcdkv.New(etcd, strings.TrimSuffix(s.kv.Key(), "/"), etcdkv.Options{}), shard, "me", time.Minute)
	must(t, err)
	s.fence = own.Fence()
	s.restart(t)
	return s
}

// restart makes a writer from what etcd holds.
func (s *space) restart(t testing.TB) {
	t.Helper()
	all, err := s.store.Contents(context.Background())
	for errors.Is(err, errBroken) {
		all, err = s.store.Contents(context.Background())
	}
	must(t, err)
	stored := all[shard]
	if stored == nil {
		stored = pairstore.NewContents(shard)
	}
	s.writer = s.store.NewWriter(s.fence, stored)
}

func cluster(i int) v2.ClusterKey {
	return v2.ClusterKey(fmt.Sprintf("edge+c%05d", i))
}

func pairOf(i int, app string, rev int64) pairstore.Pair {
	return pairstore.Pair{
		Key: pairstore.Key{Cluster: cluster(i), Deployment: "7", App: app}, Registration: fmt.Sprint(1000 + i), Shard: shard,
		Rev: rev, Desired: "d", Held: []pairstore.Digest{"d"}, Phase: pairstore.Pending, At: time.Unix(rev, 0).UTC(),
	}
}

// stored reads all pairs; one that is stored twice is an error.
func (s *space) stored(t testing.TB) map[pairstore.Key]pairstore.Pair {
	t.Helper()
	for {
		out, err := s.tryRead(t)
		if errors.Is(err, errBroken) {
			continue
		}
		must(t, err)
		return out
	}
}

func (s *space) tryRead(t testing.TB) (map[pairstore.Key]pairstore.Pair, error) {
	out := map[pairstore.Key]pairstore.Pair{}
	for p, err := range s.store.Pairs(context.Background()) {
		if err != nil {
			return nil, err
		}
		if _, twice := out[p.Key]; twice {
			t.Fatalf("%v is stored twice", p.Key)
		}
		out[p.Key] = p
	}
	return out, nil
}

func (s *space) keys(t testing.TB, space string) int {
	t.Helper()
	r, err := etcd.Get(t.Context(), s.kv.Key(space)+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	must(t, err)
	return int(r.Count)
}

func TestAFleetThatStandsAlikeIsOneValuePerApp(t *testing.T) {
	t.Parallel()
	s := newSpace(t, etcd)
	var put []pairstore.Pair
	for i := range 1000 {
		put = append(put, pairOf(i, "web", 1), pairOf(i, "db", 1))
	}
	clear(s.ops)
	must(t, s.writer.Write(t.Context(), put, nil))
	if n := s.keys(t, "pair"); n != 0 {
		t.Errorf("%d pairs have a record of their own", n)
	}
	if n := s.keys(t, "pairtable"); n != 2 {
		t.Errorf("%d tables, want one for each app", n)
	}
	if s.ops["txn"] != 2 { // the clusters, and the pairs
		t.Errorf("%d transactions, want 2", s.ops["txn"])
	}
	for i := range put {
		put[i].Phase, put[i].Applied = pairstore.Applied, "d"
	}
	clear(s.ops)
	must(t, s.writer.Write(t.Context(), put, nil))
	if s.ops["txn"] != 1 {
		t.Errorf("%d transactions for a change of all, want 1", s.ops["txn"])
	}
	one := put[0]
	one.Phase, one.Error = pairstore.Retrying, "no route"
	clear(s.ops)
	must(t, s.writer.Write(t.Context(), []pairstore.Pair{one}, nil))
	if n := s.keys(t, "pair"); n != 1 || s.ops["txn"] != 1 {
		t.Errorf("%d records after %d transactions, want the one that differs", n, s.ops["txn"])
	}
	must(t, s.writer.Write(t.Context(), put[:1], nil))
	if n := s.keys(t, "pair"); n != 0 {
		t.Errorf("%d records remain after the pair stands like the others again", n)
	}
	got := s.stored(t)
	for _, p := range put {
		if !reflect.DeepEqual(got[p.Key], p) {
			t.Fatalf("got %+v, want %+v", got[p.Key], p)
		}
	}
}

// Where a deployment has started on clusters is found in a few requests, however many clusters are asked for, unless more
// pairs have records of their own than that.
func TestShardsOfManyClustersAreFoundInFewRequests(t *testing.T) {
	t.Parallel()
	s, ctx := newSpace(t, etcd), t.Context()
	var asked []v2.ClusterKey
	for i := range 1000 {
		asked = append(asked, cluster(i))
	}
	ask := func(want, requests int) {
		t.Helper()
		s.ops = map[string]int{}
		where, err := s.store.ShardsOf(ctx, "7", asked)
		must(t, err)
		for c, at := range where {
			if at != shard {
				t.Errorf("%s is in shard %q", c, at)
			}
		}
		if n := s.ops["get"] + s.ops["list"]; len(where) != want || n > requests {
			t.Errorf("%d clusters were found in %d requests %v, want %d in %d at most", len(where), n, s.ops, want, requests)
		}
	}
	const least = 3 // the revision, the tables, the keys of records
	ask(0, least)
	var few, others []pairstore.Pair
	for i := range 3 {
		few = append(few, pairOf(100*i, "web", 1)) // too few for a table
	}
	must(t, s.store.PutPairs(ctx, s.fence, few, nil))
	ask(len(few), least+1)
	for i := range 1100 {
		other := pairOf(i, "web", 1)
		other.Key.Deployment = "8"
		others = append(others, other)
	}
	must(t, s.store.PutPairs(ctx, s.fence, others, nil))
	ask(len(few), least+1+len(asked)/etcdkv.MaxOps+1)
}

func TestReadersFindPairsWhereverTheyAreStored(t *testing.T) {
	t.Parallel()
	s, ctx := newSpace(t, etcd), t.Context()
	var put []pairstore.Pair
	for i := range 10 {
		put = append(put, pairOf(i, "web", 1))
	}
	alone, other := pairOf(3, "db", 2), pairOf(4, "cache", 1)
	alone.Applied, other.Key.Deployment = "d", "8"
	must(t, s.writer.Write(ctx, append(put, alone, other), nil))
	on, err := s.store.PairsOn(ctx, cluster(3))
	must(t, err)
	if len(on) != 2 || on[0].Key.App != "db" || on[1].Key.App != "web" || on[1].Registration != "1003" {
		t.Errorf("on the cluster: %+v", on)
	}
	of, err := s.store.PairsOf(ctx, "7")
	must(t, err)
	if len(of) != 11 || of[3].Key != alone.Key || of[4].Key != put[3].Key {
		t.Errorf("of the deployment: %d pairs, %+v", len(of), of)
	}
	at, err := s.store.PairsAt(ctx, []pairstore.Key{alone.Key, {Cluster: cluster(77), Deployment: "7", App: "web"}, put[9].Key})
	must(t, err)
	if len(at) != 2 || at[0].Key != alone.Key || at[1].Key != put[9].Key {
		t.Errorf("by key: %+v", at)
	}
	where, err := s.store.ShardsOf(ctx, "8", []v2.ClusterKey{cluster(4), cluster(5)})
	must(t, err)
	if len(where) != 1 || where[cluster(4)] != shard {
		t.Errorf("shards of 8: %v", where)
	}
	where, err = s.store.ShardsOf(ctx, "7", []v2.ClusterKey{cluster(4), cluster(5), cluster(50)})
	must(t, err)
	if len(where) != 2 || where[cluster(5)] != shard {
		t.Errorf("shards of 7: %v", where)
	}
	for c, want := range map[int]bool{3: true, 4: false, 50: false} {
		if got, err := s.store.HasApplied(ctx, cluster(c)); err != nil || got != want {
			t.Errorf("%v has something applied: %v, %v", cluster(c), got, err)
		}
		if got, err := s.store.HasDesired(ctx, cluster(c)); err != nil || got != (c < 10) {
			t.Errorf("%v has something desired: %v, %v", cluster(c), got, err)
		}
	}
}

func TestAClusterThatIsRegisteredAgainKeepsWhatEachPairKnew(t *testing.T) {
	t.Parallel()
	s, ctx := newSpace(t, etcd), t.Context()
	var put []pairstore.Pair
	for i := range 5 {
		put = append(put, pairOf(i, "web", 1), pairOf(i, "db", 1))
	}
	must(t, s.writer.Write(ctx, put, nil))
	again := put[0]
	again.Registration = "9999"
	must(t, s.writer.Write(ctx, []pairstore.Pair{again}, nil))
	got := s.stored(t)
	if got[put[0].Key].Registration != "9999" || got[put[1].Key].Registration != "1000" {
		t.Errorf("registrations: web %s, db %s", got[put[0].Key].Registration, got[put[1].Key].Registration)
	}
	both := put[1]
	both.Registration = "9999"
	must(t, s.writer.Write(ctx, []pairstore.Pair{both}, nil))
	must(t, s.writer.Write(ctx, []pairstore.Pair{again, both}, nil))
	if got = s.stored(t); got[put[0].Key].Registration != "9999" || got[put[1].Key].Registration != "9999" {
		t.Errorf("registrations: web %s, db %s", got[put[0].Key].Registration, got[put[1].Key].Registration)
	}
	if n := s.keys(t, "pair"); n != 0 {
		t.Errorf("%d records remain after no pair has the old registration", n)
	}
}

func TestNumbersOfClustersThatLeftAreUsedAgain(t *testing.T) {
	t.Parallel()
	s, ctx := newSpace(t, etcd), t.Context()
	for generation := range 5 {
		var put []pairstore.Pair
		var remove []pairstore.Key
		for i := range 300 {
			put = append(put, pairOf(1000*generation+i, "web", 1))
			remove = append(remove, put[i].Key)
		}
		must(t, s.writer.Write(ctx, put, nil))
		must(t, s.writer.Write(ctx, nil, remove))
		s.restart(t)
	}
	if n := s.keys(t, "pairroster"); n != 2 {
		t.Errorf("the roster has %d parts, want 2 for 300 clusters", n)
	}
	if n := s.keys(t, "pairtable"); n != 0 {
		t.Errorf("%d tables without pairs", n)
	}
}

var errBroken = errors.New("broken on purpose")

// faulty is an etcd that leaves some transactions without an answer: they were made, or not.
type faulty struct {
	clientv3.KV

	mu     sync.Mutex
	rate   float64        // guarded by mu
	random *mathrand.Rand // guarded by mu
}

func (f *faulty) setRate(rate float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rate = rate
}

func (f *faulty) breaks() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.random.Float64() < f.rate
}

type faultyTxn struct {
	clientv3.Txn
	kv *faulty
}

func (f *faulty) Txn(ctx context.Context) clientv3.Txn { return &faultyTxn{f.KV.Txn(ctx), f} }

func (x *faultyTxn) If(cs ...clientv3.Cmp) clientv3.Txn   { x.Txn = x.Txn.If(cs...); return x }
func (x *faultyTxn) Then(ops ...clientv3.Op) clientv3.Txn { x.Txn = x.Txn.Then(ops...); return x }
func (x *faultyTxn) Else(ops ...clientv3.Op) clientv3.Txn { x.Txn = x.Txn.Else(ops...); return x }

func (x *faultyTxn) Commit() (*clientv3.TxnResponse, error) {
	if x.kv.breaks() {
		return nil, errBroken
	}
	r, err := x.Txn.Commit()
	if err == nil && x.kv.breaks() {
		return nil, errBroken
	}
	return r, err
}

// TestWritesThatAreNotAnsweredLoseNothing changes random pairs while etcd does not answer some
// transactions. What was written is there once and as it was written; a pair whose write failed is
// as before or as written.
func TestWritesThatAreNotAnsweredLoseNothing(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			random := mathrand.New(mathrand.NewPCG(seed, 1))
			client := clientv3.NewCtxClient(t.Context())
			client.KV, client.Lease, client.Watcher = &faulty{KV: etcd.KV, rate: 0.15, random: mathrand.New(mathrand.NewPCG(seed, 2))}, etcd.Lease, etcd.Watcher
			s := newSpace(t, client)
			want := map[pairstore.Key]pairstore.Pair{}
			for range 40 {
				put, remove := randomChange(random)
				err := s.writer.Write(t.Context(), put, remove)
				if err == nil {
					for _, k := range remove {
						delete(want, k)
					}
					for _, p := range put {
						want[p.Key] = p
					}
					check(t, s.stored(t), want)
					continue
				}
				if !errors.Is(err, errBroken) {
					t.Fatal(err)
				}
				if random.IntN(3) == 0 { // the process dies here
					s.restart(t)
				}
				want = checkEither(t, s.stored(t), want, put, remove)
				// As rsync does, write again what was not confirmed.
				for err != nil {
					if err = s.writer.Write(t.Context(), put, remove); err != nil && !errors.Is(err, errBroken) {
						t.Fatal(err)
					}
				}
				for _, k := range remove {
					delete(want, k)
				}
				for _, p := range put {
					want[p.Key] = p
				}
				check(t, s.stored(t), want)
			}
		})
	}
}

// randomChange returns pairs of a few clusters, apps and states, and keys to remove.
func randomChange(random *mathrand.Rand) (put []pairstore.Pair, remove []pairstore.Key) {
	seen, rev := map[pairstore.Key]bool{}, int64(random.IntN(4))
	for range 1 + random.IntN(150) {
		p := pairOf(random.IntN(200), []string{"web", "db"}[random.IntN(2)], rev)
		if random.IntN(10) == 0 {
			p.Error = fmt.Sprint("error ", random.IntN(1000))
		}
		if random.IntN(12) == 0 {
			p.Registration += "-new"
		}
		if seen[p.Key] {
			continue
		}
		if seen[p.Key] = true; random.IntN(6) == 0 {
			remove = append(remove, p.Key)
		} else {
			put = append(put, p)
		}
	}
	return put, remove
}

func check(t *testing.T, got, want map[pairstore.Key]pairstore.Pair) {
	t.Helper()
	for k, p := range want {
		if !reflect.DeepEqual(got[k], p) {
			t.Fatalf("%v: got %+v, want %+v", k, got[k], p)
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d pairs, want %d", len(got), len(want))
	}
}

// checkEither checks that each pair is as before or as written, and returns what is stored.
func checkEither(t *testing.T, got, before map[pairstore.Key]pairstore.Pair, put []pairstore.Pair, remove []pairstore.Key) map[pairstore.Key]pairstore.Pair {
	t.Helper()
	written := map[pairstore.Key]*pairstore.Pair{}
	for i := range put {
		written[put[i].Key] = &put[i]
	}
	for _, k := range remove {
		written[k] = nil
	}
	for k, p := range before {
		now, there := got[k]
		w, touched := written[k]
		if there && reflect.DeepEqual(now, p) || touched && (w == nil && !there || w != nil && reflect.DeepEqual(now, *w)) {
			continue
		}
		t.Fatalf("%v: got %+v (%v), want it as before or as written", k, now, there)
	}
	for k, now := range got {
		if _, known := before[k]; !known && (written[k] == nil || !reflect.DeepEqual(now, *written[k])) {
			t.Fatalf("%v appeared: %+v", k, now)
		}
	}
	return got
}
