package pairstore_test

import (
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"reflect"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/agents"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/pairstore"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// reportOf is the report of a cluster's agent on an app.
func reportOf(i int, app, says string) pairstore.Report {
	return pairstore.Report{
		Key: pairstore.Key{Cluster: cluster(i), Deployment: "7", App: app}, Seq: uint64(100 + i), At: noon.Add(time.Duration(i) * time.Second),
		Resources: []pairstore.ResourceStatus{{ID: manifest.ID{Version: "v1", Kind: "ConfigMap", Name: app}, Status: says}},
		Ready:     says == "Current", Since: noon, Commit: "c0ffee", Proof: pairstore.Proof{By: "c0ffee", Holds: "ca7"},
	}
}

// shared allows all reports of agents to be stored with others.
func shared(r pairstore.Report) bool { return r.Seq > 0 }

func (s *space) writeReports(t testing.TB, put ...pairstore.Report) {
	t.Helper()
	must(t, s.writer.WriteReports(t.Context(), pairstore.ReportChange{Put: put, Shared: shared}))
}

func (s *space) reports() *pairstore.ReportStore {
	return pairstore.NewReports(s.store, agents.New(s.kv))
}

// fleet writes pairs of two apps on clusters, and returns their keys.
func (s *space) fleet(t testing.TB, clusters int) (keys []pairstore.Key) {
	t.Helper()
	var put []pairstore.Pair
	for i := range clusters {
		put = append(put, pairOf(i, "web", 1), pairOf(i, "db", 1))
	}
	must(t, s.writer.Write(t.Context(), put, nil))
	for _, p := range put {
		keys = append(keys, p.Key)
	}
	return keys
}

// wantReports compares the reports on pairs, as the store and as the writer reads them, with those
// that were written.
func (s *space) wantReports(t testing.TB, keys []pairstore.Key, want map[pairstore.Key]pairstore.Report) {
	t.Helper()
	if complaint := compareReports(s.storedReports(t, keys), want); complaint != "" {
		t.Fatal("the store reads ", complaint)
	}
	got, err := s.writer.ReportsAt(t.Context(), keys)
	for errors.Is(err, errBroken) {
		got, err = s.writer.ReportsAt(t.Context(), keys)
	}
	must(t, err)
	if complaint := compareReports(got, want); complaint != "" {
		t.Fatal("the writer reads ", complaint)
	}
}

func (s *space) storedReports(t testing.TB, keys []pairstore.Key) []pairstore.Report {
	t.Helper()
	for {
		got, err := s.reports().ReportsAt(t.Context(), keys)
		if !errors.Is(err, errBroken) {
			must(t, err)
			return got
		}
	}
}

// compareReports describes the first report that is not as it was written, "" if all are.
func compareReports(got []pairstore.Report, want map[pairstore.Key]pairstore.Report) string {
	if len(got) != len(want) {
		return fmt.Sprintf("%d reports, want %d", len(got), len(want))
	}
	for _, r := range got {
		if w, there := want[r.Key]; !there || !sameReport(r, w) {
			return fmt.Sprintf("%+v, want %+v", r, w)
		}
	}
	return ""
}

// sameReport reports whether a report is as it was written: one that is stored with others has no
// sequence and time of its own, and may be ready since a later moment.
func sameReport(got, written pairstore.Report) bool {
	if got.Seq == pairstore.SharedSeq && got.At.IsZero() && !got.Since.Before(written.Since) {
		got.Seq, got.At, got.Since = written.Seq, written.At, written.Since
	}
	return reflect.DeepEqual(got, written)
}

func byKey(reports ...pairstore.Report) map[pairstore.Key]pairstore.Report {
	out := map[pairstore.Key]pairstore.Report{}
	for _, r := range reports {
		out[r.Key] = r
	}
	return out
}

func TestAFleetThatReportsTheSameIsOneValuePerApp(t *testing.T) {
	t.Parallel()
	s := newSpace(t, etcd)
	keys := s.fleet(t, 1000)
	var all []pairstore.Report
	for i := range 1000 {
		all = append(all, reportOf(i, "web", "Current"), reportOf(i, "db", "Current"))
	}
	clear(s.ops)
	s.writeReports(t, all...)
	if n, tables := s.keys(t, "report"), s.keys(t, "reporttable"); n != 0 || tables != 2 || s.ops["txn"] != 1 {
		t.Errorf("%d records and %d tables after %d transactions, want one table for each app after one", n, tables, s.ops["txn"])
	}
	s.wantReports(t, keys, byKey(all...))

	all[0] = reportOf(0, "web", "Failed")
	clear(s.ops)
	s.writeReports(t, all[0])
	if n := s.keys(t, "report"); n != 1 || s.ops["txn"] != 1 {
		t.Errorf("%d records after %d transactions, want the one that differs", n, s.ops["txn"])
	}
	s.wantReports(t, keys, byKey(all...))
	all[0] = reportOf(0, "web", "Current")
	all[0].Since = noon.Add(time.Minute)
	s.writeReports(t, all[0])
	if n := s.keys(t, "report"); n != 0 {
		t.Errorf("%d records remain after the cluster says what the others say", n)
	}
	s.restart(t)
	clear(s.ops)
	s.wantReports(t, keys, byKey(all...))
	if got, err := s.writer.ReportsAt(t.Context(), keys[:1]); err != nil || !got[0].Since.Equal(noon.Add(time.Minute)) {
		t.Errorf("got %+v, %v, want it ready a minute later than the others", got, err)
	}

	var remove []pairstore.Key
	for i := range 999 {
		remove = append(remove, keys[2*i], keys[2*i+1])
	}
	must(t, s.writer.WriteReports(t.Context(), pairstore.ReportChange{Remove: remove}))
	s.wantReports(t, keys, byKey(all[1998], all[1999]))
	must(t, s.writer.WriteReports(t.Context(), pairstore.ReportChange{Remove: keys[1998:]}))
	if n := s.keys(t, "report") + s.keys(t, "reporttable"); n != 0 {
		t.Errorf("%d values remain of reports that were removed", n)
	}
}

// Three equal reports, reports of clusters that are watched directly, and reports whose
// sequence is stored nowhere else have records.
func TestReportsThatMustNotBeSharedHaveRecords(t *testing.T) {
	t.Parallel()
	s := newSpace(t, etcd)
	keys := s.fleet(t, 8)
	want := map[pairstore.Key]pairstore.Report{}
	for i := range 8 {
		r := reportOf(i, "web", "Current")
		if i > 2 {
			r.Seq = 0
		}
		want[r.Key] = r
		s.writeReports(t, r)
	}
	must(t, s.writer.WriteReports(t.Context(), pairstore.ReportChange{Put: []pairstore.Report{want[keys[6]], want[keys[8]], want[keys[10]], want[keys[12]]}, Shared: shared}))
	r := reportOf(0, "db", "Current")
	want[r.Key] = r
	must(t, s.writer.WriteReports(t.Context(), pairstore.ReportChange{Put: []pairstore.Report{r}}))
	if n, tables := s.keys(t, "report"), s.keys(t, "reporttable"); n != 9 || tables != 0 {
		t.Errorf("%d records and %d tables, want 9 records", n, tables)
	}
	s.restart(t)
	s.wantReports(t, keys, want)
}

// A cluster may report twice in a batch, and a key may be removed and written again.
func TestTheLastReportOfAKeyCounts(t *testing.T) {
	t.Parallel()
	s := newSpace(t, etcd)
	keys := s.fleet(t, 5)
	var put []pairstore.Report
	for _, says := range []string{"Failed", "Current"} {
		for i := range 5 {
			put = append(put, reportOf(i, "web", says))
		}
	}
	must(t, s.writer.WriteReports(t.Context(), pairstore.ReportChange{Put: put, Repeated: put[:1], Remove: keys[:4], Shared: shared}))
	s.wantReports(t, keys, byKey(put[5:]...))
	failed := reportOf(0, "web", "Failed")
	s.writeReports(t, put[0], put[5], failed)
	put[5] = failed
	s.wantReports(t, keys, byKey(put[5:]...))
	must(t, s.writer.WriteReports(t.Context(), pairstore.ReportChange{Remove: keys}))
	s.wantReports(t, keys, nil)
}

// Programs before report tables wrote a record for each report. Repeated reports join
// a group.
func TestRecordsOfReportsJoinAGroup(t *testing.T) {
	t.Parallel()
	s := newSpace(t, etcd)
	keys := s.fleet(t, 300)
	var all []pairstore.Report
	for i := range 300 {
		all = append(all, reportOf(i, "web", "Current"))
	}
	all[7].Resources[0].Status = "Failed"
	must(t, s.reports().PutReports(t.Context(), etcdkv.Fence{}, all, nil))
	s.restart(t)
	s.wantReports(t, keys, byKey(all...))
	must(t, s.writer.WriteReports(t.Context(), pairstore.ReportChange{Repeated: all, Shared: shared}))
	if n, tables := s.keys(t, "report"), s.keys(t, "reporttable"); n != 1 || tables != 1 {
		t.Errorf("%d records and %d tables, want a table and the record of the one that differs", n, tables)
	}
	clear(s.ops)
	must(t, s.writer.WriteReports(t.Context(), pairstore.ReportChange{Repeated: all, Shared: shared}))
	if s.ops["txn"] != 0 {
		t.Errorf("%d transactions for reports that say the same again", s.ops["txn"])
	}
	s.wantReports(t, keys, byKey(all...))
}

// A group keeps some times since when its clusters are ready. Between them, the later one counts.
func TestReadinessOfAGroupIsNeverOlderThanItIs(t *testing.T) {
	t.Parallel()
	s := newSpace(t, etcd)
	keys := s.fleet(t, 200)
	random := mathrand.New(mathrand.NewPCG(1, 1))
	want := map[pairstore.Key]pairstore.Report{}
	for round := range 50 {
		var put []pairstore.Report
		for k := range 4 {
			r := reportOf(4*round+k, "web", "Current")
			r.Since = noon.Add(time.Duration(random.IntN(1000)) * time.Second)
			put, want[r.Key] = append(put, r), r
		}
		s.writeReports(t, put...)
	}
	s.restart(t)
	s.wantReports(t, keys, want)
	times := map[time.Time]bool{}
	for _, r := range s.storedReports(t, keys) {
		times[r.Since] = true
	}
	if n := s.keys(t, "report"); n != 0 || len(times) > 16 {
		t.Errorf("%d records, and %d times in the table", n, len(times))
	}
}

// A number stays with its cluster while only a report names it.
func TestANumberThatAReportNamesIsNotGivenAway(t *testing.T) {
	t.Parallel()
	s, ctx := newSpace(t, etcd), t.Context()
	keys := s.fleet(t, 5)
	var all []pairstore.Report
	for i := range 5 {
		all = append(all, reportOf(i, "web", "Current"))
	}
	s.writeReports(t, all...)
	var alone []pairstore.Pair
	for i := range 5 { // all stand alone now: no table of pairs names a number
		for _, app := range []string{"web", "db"} {
			p := pairOf(i, app, 2)
			p.Error = fmt.Sprint("error ", i)
			alone = append(alone, p)
		}
	}
	must(t, s.writer.Write(ctx, alone, nil))
	s.restart(t)
	var others []pairstore.Pair
	for i := 10; i < 15; i++ {
		others = append(others, pairOf(i, "web", 1))
	}
	must(t, s.writer.Write(ctx, others, nil))
	s.wantReports(t, keys, byKey(all...))
}

func TestReportsGoWithPairsToAnotherShard(t *testing.T) {
	t.Parallel()
	s, ctx := newSpace(t, etcd), t.Context()
	keys := s.fleet(t, 6)
	var all []pairstore.Report
	for i := range 6 {
		all = append(all, reportOf(i, "web", "Current"))
	}
	s.writeReports(t, all...)
	must(t, s.writer.ReleaseReports(ctx, keys[:2]))
	moved := pairOf(0, "web", 1)
	moved.Shard = "rsync-04"
	must(t, s.writer.Write(ctx, []pairstore.Pair{moved}, nil))
	if n := s.keys(t, "report"); n != 1 {
		t.Errorf("%d records, want that of the cluster that moves", n)
	}
	s.wantReports(t, keys, byKey(all...))

	contents, err := s.store.Contents(ctx)
	must(t, err)
	next := s.store.NewWriter(etcdkv.Fence{}, contents["rsync-04"])
	got, err := next.ReportsAt(ctx, keys[:1])
	must(t, err)
	if complaint := compareReports(got, byKey(all[0])); complaint != "" {
		t.Error("the new shard reads ", complaint)
	}
	failed := reportOf(0, "web", "Failed")
	must(t, next.WriteReports(ctx, pairstore.ReportChange{Put: []pairstore.Report{failed}, Shared: shared}))
	all[0] = failed
	if complaint := compareReports(s.storedReports(t, keys), byKey(all...)); complaint != "" {
		t.Error("the store reads ", complaint)
	}
}

// TestReportsThatAreNotAnsweredLoseNothing splits and merges sets of reports at random while etcd does
// not answer some transactions, and while the process dies between them. What was written is there
// once and as it was written; a report whose write failed is as before or as written.
func TestReportsThatAreNotAnsweredLoseNothing(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			random := mathrand.New(mathrand.NewPCG(seed, 3))
			kv := &faulty{KV: etcd.KV, random: mathrand.New(mathrand.NewPCG(seed, 4))}
			client := clientv3.NewCtxClient(t.Context())
			client.KV, client.Lease, client.Watcher = kv, etcd.Lease, etcd.Watcher
			s := newSpace(t, client)
			keys := s.fleet(t, 150)
			kv.setRate(0.15)
			want := map[pairstore.Key]pairstore.Report{}
			for range 40 {
				c := randomReports(random, want)
				err := s.writer.WriteReports(t.Context(), c)
				if err != nil && !errors.Is(err, errBroken) {
					t.Fatal(err)
				}
				if err != nil {
					if random.IntN(3) == 0 { // the process dies here
						s.restart(t)
					}
					stored := s.storedReports(t, keys)
					wantEither(t, stored, want, c)
					if random.IntN(2) == 0 { // newer reports come first
						want = byKey(stored...)
						continue
					}
					for err != nil { // as rsync does
						if err = s.writer.WriteReports(t.Context(), c); err != nil && !errors.Is(err, errBroken) {
							t.Fatal(err)
						}
					}
				}
				for _, k := range c.Remove {
					delete(want, k)
				}
				for _, r := range c.Put {
					want[r.Key] = r
				}
				s.wantReports(t, keys, want)
			}
			s.wantOnePlace(t, keys)
		})
	}
}

// randomReports changes reports of a few clusters, apps and contents, repeats some, and removes some.
func randomReports(random *mathrand.Rand, have map[pairstore.Key]pairstore.Report) (c pairstore.ReportChange) {
	says := []string{"Current", "InProgress", "Failed"}[random.IntN(3)]
	since := noon.Add(time.Duration(random.IntN(100)) * time.Second)
	seen := map[pairstore.Key]bool{}
	for range 1 + random.IntN(120) {
		r := reportOf(random.IntN(150), []string{"web", "db"}[random.IntN(2)], says)
		if r.Since = since; random.IntN(10) == 0 {
			r.Resources[0].Reason = fmt.Sprint("reason ", random.IntN(1000))
		}
		if random.IntN(15) == 0 {
			r.Seq = 0
		}
		if seen[r.Key] {
			continue
		}
		seen[r.Key] = true
		switch last, known := have[r.Key]; {
		case random.IntN(6) == 0:
			c.Remove = append(c.Remove, r.Key)
		case known && random.IntN(4) == 0:
			c.Repeated = append(c.Repeated, last)
		default:
			c.Put = append(c.Put, r)
		}
	}
	c.Shared = shared
	return c
}

// wantEither checks that each report is as before or as written.
func wantEither(t *testing.T, got []pairstore.Report, before map[pairstore.Key]pairstore.Report, c pairstore.ReportChange) {
	t.Helper()
	now, written, touched := byKey(got...), byKey(c.Put...), map[pairstore.Key]bool{}
	for _, k := range c.Remove {
		touched[k] = true
	}
	for k, r := range now {
		b, was := before[k]
		w, is := written[k]
		if !(was && sameReport(r, b)) && !(is && sameReport(r, w)) {
			t.Fatalf("%v: got %+v, want it as before or as written", k, r)
		}
	}
	for k := range before {
		if _, there := now[k]; !there && !touched[k] {
			t.Fatalf("the report on %v is gone", k)
		}
	}
}

// wantOnePlace checks that no report with a record is in a table too.
func (s *space) wantOnePlace(t *testing.T, keys []pairstore.Key) {
	t.Helper()
	before := byKey(s.storedReports(t, keys)...)
	r, err := etcd.Get(t.Context(), s.kv.Key("report")+"/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	must(t, err)
	_, err = etcd.Delete(t.Context(), s.kv.Key("report")+"/", clientv3.WithPrefix())
	must(t, err)
	after := byKey(s.storedReports(t, keys)...)
	if len(before)-len(after) != len(r.Kvs) {
		t.Errorf("%d reports, %d without the %d records", len(before), len(after), len(r.Kvs))
	}
}
