package app_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/status"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// The clusters that report, with one app each.
var reporting = []string{"a", "b", "c", "d", "e", "f"}

// reportingFleet is a group on clusters that report by HTTPS, and their tokens.
func reportingFleet(s *testStage) (g testGroup, tokens map[string]string) {
	s.fleet(reporting...)
	s.reportByHTTPS()
	s.onboard("web")
	g = s.group("autumn", appPlaces{"web": reporting})
	g.act("instantiate")
	g.becomes("Instantiated")
	tokens = map[string]string{}
	for _, name := range reporting {
		tokens[name] = s.reportToken(name)
	}
	return g, tokens
}

// reportValues counts the values of reports in etcd: records, and tables.
func (s *testStage) reportValues() (records, tables int) {
	s.Helper()
	s.inside(func(ctx context.Context, _ *store.DB, etcd *clientv3.Client) {
		for _, key := range s.keys(ctx, etcd) {
			key = strings.TrimPrefix(key, "/")
			switch {
			case strings.HasPrefix(key, "reporttable/"):
				tables++
			case strings.HasPrefix(key, "report/"):
				records++
			}
		}
	})
	return records, tables
}

// A fleet reports that it is ready, one cluster fails and recovers, and the program dies before or
// after it writes that. Afterwards the status shows what the clusters reported, and what they report
// alike is one value.
func TestReportsOfAFleetSurviveAKill(t *testing.T) {
	t.Parallel()
	var g testGroup
	var tokens map[string]string
	v := newCrashStage(t, func(s *testStage) { g, tokens = reportingFleet(s) })
	agents := map[string]*clusterAgent{}
	for _, name := range reporting {
		agents[name] = v.agent(name)
	}
	for i, change := range []struct {
		state    string
		clusters []string
		counts   string
	}{
		{status.Current, reporting, "map[Ready:6]"},
		{status.Failed, reporting[2:3], "map[NotReady:1 Ready:5]"},
		{status.Current, reporting[2:3], "map[Ready:6]"},
		{status.Failed, reporting, "map[NotReady:6]"},
		{status.Current, reporting, "map[Ready:6]"},
	} {
		v.arm("etcd.report." + []string{"before", "after"}[i%2] + "=kill(once)")
		for _, name := range change.clusters {
			a := agents[name]
			r := a.sees(change.state)
			v.eventually("a report is taken", func() string {
				v.mu.Lock()
				address := v.now.address
				v.mu.Unlock()
				got, err := a.post("http://"+address, tokens[name], r)
				if err != nil || got.code != http.StatusNoContent && got.code != http.StatusConflict {
					return fmt.Sprint("it is not: ", got.code, err)
				}
				return ""
			})
		}
		v.ready("the status shows "+change.counts, g, func(st v2.Status) string { return unless(fmt.Sprint(st.ReadyCounts), change.counts) })
		if n := v.fired(); n == 0 {
			t.Errorf("step %d: the program did not die", i)
		}
	}
	v.end()
	if records, tables := v.reportValues(); records != 0 || tables != 1 {
		t.Errorf("%d records and %d tables of reports, want one table", records, tables)
	}
	v.restart("")
}

// Programs before tables of reports stored a record for each report. Today's program reads them, and
// stores together what the agents repeat.
func TestReportsOfAnOlderProgramAreReadAndStoredTogether(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	g, tokens := reportingFleet(s)
	for _, name := range reporting {
		state := status.Current
		if name == "c" {
			state = status.Failed
		}
		a := s.agent(name)
		if got, err := a.post(s.address, tokens[name], a.sees(state)); err != nil || got.code != http.StatusNoContent {
			t.Fatalf("a report of %s: %+v, %v", name, got, err)
		}
	}
	ready := func() (st v2.Status) {
		t.Helper()
		s.eventually("five clusters are ready", func() string {
			st = g.query("?status=ready")
			return unless(fmt.Sprint(st.ReadyCounts), "map[NotReady:1 Ready:5]")
		})
		return st
	}
	before := ready()
	s.stop()
	s.asAnOlderProgram(before.States.StatusCtxID)
	if records, tables := s.reportValues(); records != 6 || tables != 0 {
		t.Fatalf("%d records and %d tables of reports, want those of an older program", records, tables)
	}
	s.start()
	after := ready()
	for _, name := range reporting {
		if was, is := pair(before, "web", name).LastReport, pair(after, "web", name).LastReport; is == nil || is.Before(was.Truncate(time.Second)) {
			t.Errorf("the last report of %s is of %v, want %v", name, is, was)
		}
	}
	// Reports of agents from before the stop are handled before a new one.
	a := s.agent("c")
	a.seq += 100
	if got, err := a.post(s.address, tokens["c"], a.sees(status.Current)); err != nil || got.code != http.StatusNoContent {
		t.Fatalf("a report of c: %+v, %v", got, err)
	}
	s.eventually("all are ready", func() string { return unless(fmt.Sprint(g.query("?status=ready").ReadyCounts), "map[Ready:6]") })
	s.stop()
	if records, tables := s.reportValues(); records != 0 || tables != 1 {
		t.Errorf("%d records and %d tables of reports, want one table", records, tables)
	}
	s.start()
}

// asAnOlderProgram replaces tables of reports by the records that programs before them wrote.
func (s *testStage) asAnOlderProgram(deployment string) {
	s.Helper()
	s.inside(func(ctx context.Context, _ *store.DB, etcd *clientv3.Client) {
		contexts := appcontext.New(etcd, s.config.Etcd.Prefix)
		var keys []appcontext.PairKey
		for _, name := range reporting {
			keys = append(keys, appcontext.PairKey{Cluster: v2.NewClusterKey("edge", name), Deployment: v2.DeploymentID(deployment), App: "web"})
		}
		reports, err := contexts.ReportsAt(ctx, keys)
		s.must("read the reports", err)
		for i, r := range reports {
			a, err := contexts.Agent(ctx, r.Key.Cluster)
			s.must("read an agent", err)
			reports[i].Seq, reports[i].At = a.Seq, a.At
		}
		_, err = etcd.Delete(ctx, strings.TrimSuffix(s.config.Etcd.Prefix, "/")+"/reporttable/", clientv3.WithPrefix())
		s.must("remove the tables", err)
		s.must("write records", contexts.PutReports(ctx, appcontext.Fence{}, reports, nil))
	})
}
