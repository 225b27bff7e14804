package app_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/emco-orchestrator/emco/src/api/status"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/app"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/emco/internal/failpoint"
	"github.com/emco-orchestrator/emco/src/emco/internal/failpoint/wrap"
)

// workFleet is a fleet whose clusters share a branch and the content of three apps, and a deployment
// on all of them.
type workFleet struct {
	testGroup
	clusters, apps int
	installed      []string // apps of the first installation
	revision       int64
	agents         []*clusterAgent
	tokens         []string  // of agents
	reporting      int       // clusters that report
	reported       time.Time // the first agent's last report, as the status shows it
	last           etcdWork  // before the change
	points         *failpoint.Set
}

// etcdWork is the requests of the whole program to etcd, without those that watch keys and keep
// leases alive.
type etcdWork struct {
	txns, written float64 // transactions, and the bytes of their keys and values
	reads, read   float64 // gets and lists, and the bytes of their answers

	audits, audited float64 // transactions of the audit log, and their bytes; not among those above

	batches float64 // transactions of txns that write what clusters report on apps
}

// minus returns the work since an earlier time.
func (w etcdWork) minus(before etcdWork) etcdWork {
	return etcdWork{w.txns - before.txns, w.written - before.written, w.reads - before.reads, w.read - before.read, w.audits - before.audits, w.audited - before.audited, w.batches - before.batches}
}

// size is a number of bytes: a constant, and so many for each cluster of the fleet.
type size struct{ constant, each float64 }

func (z size) of(clusters int) float64 { return z.constant + z.each*float64(clusters) }

// A change costs etcd as many requests in a fleet of 500 clusters as in one of 50. What a row writes or
// reads for each cluster is only what its rule names: a list of clusters (a few bytes, compressed), the roster
// (36 bytes), and the document and the sign of life of a cluster that reports, which are its own. The audit log has lines for the few requests of
// a row and none for reports, however many clusters there are.
func TestTheWorkFollowsTheChangeNotTheFleet(t *testing.T) {
	t.Parallel()
	const (
		kib        = 1 << 10
		auditLines = 8 // of a row at most, of a kilobyte
	)
	var none size
	rows := []struct {
		name    string
		change  func(*workFleet) (complaint func() string) // complaint returns "" when the change is done
		txns    size                                       // at most
		written size                                       // at most, and perBatch for each batch of reports
		reads   size                                       // at most
		read    size                                       // at most
		rule    string

		perBatch size
	}{
		{"first installation", (*workFleet).install, size{16, 0}, size{10 * kib, 50}, size{40, 0}, size{20 * kib, 70}, "each app has one table; the roster and a list of placements name each cluster once", none},
		{"an update that changes nothing", (*workFleet).update, size{6, 0}, size{4 * kib, 0}, size{55, 0}, size{32 * kib, 0}, "a revision, which refers to the list of clusters; no pair", none},
		{"one value of one app", (*workFleet).changeValue, size{14, 0}, size{7 * kib, 0}, size{60, 0}, size{32 * kib, 0}, "a revision, which refers to the list of clusters; one content, one table", none},
		{"one cluster more", (*workFleet).addCluster, size{12, 0}, size{9 * kib, 5}, size{60, 0}, size{34 * kib, 64}, "a revision, a new list of clusters, the records of one cluster; a look into roster and tables", none},
		{"one app more", (*workFleet).addApp, size{15, 0}, size{21 * kib, 0}, size{60, 0}, size{38 * kib, 0}, "a revision, one content, one table; the new cluster joins a part of the roster, of up to 256 clusters", none},
		{"a first report", (*workFleet).report, size{3, 0}, size{4 * kib, 0}, size{5, 0}, size{4 * kib, 0}, "what one cluster reports", none},
		{"reports of all clusters, with the same news", (*workFleet).reportAll, size{20, 1}, size{2 * kib, 1200}, size{30, 2}, size{30 * kib, 1500}, "each cluster's document; what they say of an app is one value, which each batch of reports writes", size{6.25 * kib, 2}},
		{"the same report again", (*workFleet).report, size{2, 0}, size{kib / 2, 0}, size{2, 0}, size{kib, 0}, "the sign of life of one cluster", none},
		{"one label", (*workFleet).label, size{8, 0}, size{6 * kib, 0}, size{55, 0}, size{38 * kib, 0}, "a revision, which refers to the list of clusters; no pair", none},
		{"a move to another sync type", (*workFleet).move, size{12, 0}, size{8 * kib, 0}, size{40, 0}, size{12 * kib, 120}, "the pairs of one cluster, one by one, and the progress of the move; looks into roster and tables", none},
		{"a restart", (*workFleet).restart, size{55, 1. / 32}, size{6 * kib, 0}, size{105, 2. / 32}, size{44 * kib, 1400}, "the shards of operations, deliveries and status repositories are owned again; the mirror and rsync read placements, roster and tables by pages, and each agent's last document and what its nodes have free, 32 at a time each; reports that were written alone join equal ones, in few batches; a first report", size{7.5 * kib, 10}},
	}
	sizes := []int{50, 500}
	work := make([][]etcdWork, len(sizes)) // by size and row
	t.Run("fleets", func(t *testing.T) {
		for i, n := range sizes {
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				t.Parallel()
				f := newWorkFleet(t, n, "cache", "db", "web")
				for _, row := range rows {
					work[i] = append(work[i], f.done(row.name, row.change(f)))
				}
			})
		}
	})
	if t.Failed() {
		return
	}
	var text bytes.Buffer
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "change\tclusters\tbatches\ttransactions\tbytes written\treads\tbytes read\taudited\tbytes\trule")
	audited := make([]float64, len(sizes))
	for r, row := range rows {
		for i, n := range sizes {
			w := work[i][r]
			written := row.written.of(n) + w.batches*row.perBatch.of(n) // time decides on the batches
			audited[i] += w.audited
			_, _ = fmt.Fprintf(table, "%s\t%d\t%.0f\t%.0f of %.0f\t%.0f of %.0f\t%.0f of %.0f\t%.0f of %.0f\t%.0f of %d\t%.0f of %d\t%s\n", row.name, n, w.batches,
				w.txns, row.txns.of(n), w.written, written, w.reads, row.reads.of(n), w.read, row.read.of(n), w.audits, auditLines, w.audited, auditLines*kib, row.rule)
			if w.audits > auditLines || w.audited > auditLines*kib {
				t.Errorf("%s, %d clusters: the audit log writes %.0f times, %.0f bytes", row.name, n, w.audits, w.audited)
			}
			if w.written == 0 || w.txns > row.txns.of(n) || w.written > written || w.reads > row.reads.of(n) || w.read > row.read.of(n) {
				t.Errorf("%s, %d clusters: the work is %+v; the rule: %s", row.name, n, w, row.rule)
			}
		}
	}
	if slices.Contains(audited, 0) {
		t.Error("there is no audit log")
	}
	_ = table.Flush()
	t.Logf("requests to etcd and their bytes, each with its limit:\n%s", &text)
}

// The first installation of ten apps is at most so many reads and transactions for each app, and for the deployment,
// however many clusters there are.
func TestAnInstallationTakesFewCallsOfTheStore(t *testing.T) {
	t.Parallel()
	const (
		eachApp       = 2  // one to look what is stored, one to store the objects with their bundle
		forDeployment = 45 // also what views read each second meanwhile
		apps          = 10
	)
	var names []string
	for i := range apps {
		names = append(names, fmt.Sprintf("app%d", i))
	}
	for _, clusters := range []int{20, 300} {
		t.Run(fmt.Sprint(clusters), func(t *testing.T) {
			t.Parallel()
			f := newWorkFleet(t, clusters, names...)
			w := f.done("the installation", f.install())
			if calls := w.reads + w.txns; calls > eachApp*apps+forDeployment {
				t.Errorf("%.0f reads and %.0f transactions, want %d for each of %d apps and %d more", w.reads, w.txns, eachApp, apps, forDeployment)
			}
			t.Logf("%.0f reads, %.0f transactions", w.reads, w.txns)
		})
	}
}

// newWorkFleet registers the clusters and everything else that the first installation of apps needs.
func newWorkFleet(t *testing.T, clusters int, apps ...string) *workFleet {
	t.Helper()
	points := failpoint.New(wrap.Points()...)
	s := newStageWith(t, func(c *config.Config) {
		onSQLite(c)
		c.Audit.Mode = config.AuditOff              // until all is registered: many lines are compressed at certain times
		c.Status.Stale = config.Duration(time.Hour) // a sixth of it later, an unchanged report is handled again
	}, app.WithFailpoints(points), app.WithUpkeepAfter(time.Hour))
	names := make([]string, clusters)
	for i := range names {
		names[i] = fmt.Sprintf("c%03d", i)
	}
	s.fleet(names...)
	s.reportByHTTPS()
	s.onboard(apps...)
	places := appPlaces{}
	for _, a := range apps {
		places[a] = nil
	}
	f := &workFleet{testGroup: s.group("autumn", places), clusters: clusters, apps: len(apps), installed: apps, points: points}
	for _, name := range names {
		f.agents, f.tokens = append(f.agents, s.agent(name)), append(f.tokens, s.reportToken(name))
	}
	f.stop()
	f.config.Audit.Mode = ""
	f.start()
	f.last = f.settled()
	return f
}

func (f *workFleet) install() func() string {
	f.Helper()
	f.act("instantiate")
	return f.delivered(f.installed...)
}

func (f *workFleet) update() func() string { return f.updateOf() }

// updateOf updates the deployment, which changes what clusters hold of the given apps.
func (f *workFleet) updateOf(apps ...string) func() string {
	f.Helper()
	f.act("update")
	return f.delivered(apps...)
}

func (f *workFleet) changeValue() func() string {
	f.Helper()
	f.profile("PUT", till+"/composite-profiles/small/profiles/web", "web", "changed")
	return f.updateOf("web")
}

func (f *workFleet) addCluster() func() string {
	f.Helper()
	f.cluster("new", "repo")
	f.member("new")
	f.clusters++
	return f.updateOf("cache", "db", "web")
}

func (f *workFleet) addApp() func() string {
	f.Helper()
	f.app("more")
	f.place("more")
	f.apps++
	return f.updateOf("more")
}

func (f *workFleet) label() func() string {
	f.Helper()
	f.expect(http.StatusCreated, "POST", provider+"/clusters/c000/labels", `{"clusterLabel":"zone-a"}`)
	return f.update()
}

// move has a cluster read the same branch by another reconciler.
func (f *workFleet) move() func() string {
	f.Helper()
	f.expect(http.StatusAccepted, "POST", provider+"/clusters/c001/move", `{"gitOpsType":"argocd"}`)
	return func() string {
		if m := f.moving("c001"); !m.Done {
			return fmt.Sprintf("the move is at %+v", m)
		}
		return f.shown()()
	}
}

// report has the first cluster report that all is well.
func (f *workFleet) report() func() string {
	f.Helper()
	f.post(0)
	f.reporting = max(f.reporting, 1)
	return func() string {
		at := pair(f.query("?status=ready"), "web", "c000").LastReport
		if at == nil || !at.After(f.reported) {
			return "the status does not show the report"
		}
		if last := f.allReady(); last != "" { // the report and its content about apps are written one after the other
			return last
		}
		f.reported = *at
		return ""
	}
}

// allReady complains until all apps are ready on the clusters that report.
func (f *workFleet) allReady() string {
	f.Helper()
	return unless(fmt.Sprint(f.query("?status=ready").ReadyCounts["Ready"]), fmt.Sprint(f.apps*f.reporting))
}

// reportAll has all clusters report that all is well, many at the same time, as clusters do: the
// first one reports so for the second time.
func (f *workFleet) reportAll() func() string {
	f.Helper()
	var g errgroup.Group
	g.SetLimit(32)
	for i := range f.agents {
		g.Go(func() error { return f.send(i) })
	}
	f.must("report", g.Wait())
	f.reporting = len(f.agents)
	return f.allReady
}

// post sends the report of an agent.
func (f *workFleet) post(i int) {
	f.Helper()
	f.must("report", f.send(i))
}

func (f *workFleet) send(i int) error {
	got, err := f.agents[i].post(f.address, f.tokens[i], f.agents[i].sees(status.Current))
	if err == nil && got.code != http.StatusNoContent {
		err = fmt.Errorf("the report of agent %d was answered with %d", i, got.code)
	}
	return err
}

// restart restarts the program, after which a cluster reports for the first time: earlier reports of agents are
// handled first.
func (f *workFleet) restart() func() string {
	f.Helper()
	agent, token := f.agent("new"), f.reportToken("new")
	f.stop()
	f.must("begin to count again", f.points.Arm(""))
	f.start()
	f.last = etcdWork{} // the counters of the program began again too
	shown := f.shown()
	return func() string {
		if last := shown(); last != "" || f.reporting > len(f.agents) {
			return cmp.Or(last, f.allReady())
		}
		f.reporting++
		got, err := agent.post(f.address, token, agent.sees(status.Current))
		f.must("report", err)
		return cmp.Or(unless(got.code, http.StatusNoContent), f.allReady())
	}
}

// delivered complains until the next revision is on all clusters and in the events, which are written last.
// The apps are those that the revision changes on clusters.
func (f *workFleet) delivered(apps ...string) func() string {
	f.revision++
	shown := f.shown()
	want := []string{"RevisionPublished"}
	for _, a := range apps {
		want = append(want, "Applied "+a)
	}
	slices.Sort(want)
	return func() string {
		if last := shown(); last != "" {
			return last
		}
		var events v2.EventsAnswer
		f.must("read the events", json.Unmarshal([]byte(f.expect(http.StatusOK, "GET", f.path+"/events", "")), &events))
		var got []string
		for _, e := range events.Events {
			if e.Revision == f.revision && (e.Reason == "RevisionPublished" || e.Reason == "Applied") {
				got = append(got, strings.TrimSpace(e.Reason+" "+e.App))
			}
		}
		slices.Sort(got)
		return unless(strings.Join(slices.Compact(got), ", "), strings.Join(want, ", "))
	}
}

// shown complains until the status shows the current revision on all clusters.
func (f *workFleet) shown() func() string {
	return func() string {
		st, n := f.status(), 0
		for _, a := range st.Apps {
			for _, c := range a.Clusters {
				if c.Phase == "Applied" && c.Revision == f.revision {
					n++
				}
			}
		}
		return unless(fmt.Sprint(st.DeployedStatus, " ", n), fmt.Sprint("Instantiated ", f.clusters*f.apps))
	}
}

// done waits until a change is done, and returns its work, without the reads of looking at the status.
func (f *workFleet) done(name string, complaint func() string) (w etcdWork) {
	f.Helper()
	f.eventually(name, func() string {
		before := f.settled()
		last := complaint()
		looked := f.work().minus(before)
		f.last.reads, f.last.read = f.last.reads+looked.reads, f.last.read+looked.read
		return last
	})
	now := f.settled()
	w, f.last = now.minus(f.last), now
	return w
}

// settled returns the work when it no longer grows.
func (f *workFleet) settled() (w etcdWork) {
	f.Helper()
	still := 0
	f.eventually("the work ends", func() string {
		now := f.work()
		if still++; now != w {
			w, still = now, 0
		}
		return unless(min(still, 5), 5)
	})
	return w
}

// work reads the counters.
func (f *workFleet) work() (w etcdWork) {
	f.Helper()
	text := "\n" + f.do("GET", "/metrics", "").Body
	count := func(name, kind string) float64 {
		_, value, _ := strings.Cut(text, "\nemco_"+name+`_total{kind="`+kind+`"} `)
		value, _, _ = strings.Cut(value, "\n")
		if value == "" {
			return 0
		}
		return number(value)
	}
	w.txns, w.written = count("etcd_operations", "txn"), count("etcd_bytes", "txn")
	w.audits, w.audited = count("audit_etcd_operations", "txn"), count("audit_etcd_bytes", "txn")
	w.batches = float64(f.points.Counts().Reached["etcd.report.before"])
	for _, kind := range []string{"get", "list"} {
		w.reads, w.read = w.reads+count("etcd_operations", kind), w.read+count("etcd_bytes", kind)
	}
	return w
}
