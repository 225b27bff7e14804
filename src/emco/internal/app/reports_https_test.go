package app_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/status"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// reportByHTTPS has the clusters of the fleet do so.
func (s *testStage) reportByHTTPS() {
	s.Helper()
	doc := strings.Replace(s.syncObject("repo", s.git.URL("fleet"), s.token), `"kv":[`, `"kv":[{"statusMode":"https"},`, 1)
	s.expect(http.StatusCreated, "PUT", provider+"/cluster-sync-objects/repo", doc)
}

// reportToken makes a token for a cluster.
func (s *testStage) reportToken(cluster string) string {
	s.Helper()
	var made struct{ Token string }
	s.must("read a token", json.Unmarshal([]byte(s.expect(http.StatusCreated, "POST", provider+"/clusters/"+cluster+"/monitor/token", "")), &made))
	return made.Token
}

// postAnswer is how a report was answered.
type postAnswer struct {
	code       int
	name, last string
}

// post sends a report to a control plane, as a monitor does.
func (a *clusterAgent) post(address, token string, r status.Report) (postAnswer, error) {
	a.Helper()
	text, err := status.Encode(r, 0)
	a.must("encode a report", err)
	cluster := strings.TrimPrefix(a.cluster, "edge+")
	req, err := http.NewRequestWithContext(a.Context(), http.MethodPost, address+status.Path(v2.NewClusterKey("edge", cluster)), bytes.NewReader(text))
	a.must("make a request", err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return postAnswer{}, err
	}
	a.must("end a report", res.Body.Close())
	return postAnswer{res.StatusCode, strings.Trim(res.Header.Get("ETag"), `"`), res.Header.Get(status.SequenceHeader)}, nil
}

// A cluster that reports by HTTPS becomes ready and not ready, also across restarts.
// Heartbeats keep its report fresh and write nothing else.
func TestWhatAgentsReportByHTTPSReachesTheStatus(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fleet("a", "b")
	s.reportByHTTPS()
	s.onboard("web")
	g := s.group("autumn", appPlaces{"web": {"a", "b"}})
	g.act("instantiate")
	g.becomes("Instantiated")
	a, b := s.agent("a"), s.agent("b")
	tokens := map[*clusterAgent]string{a: s.reportToken("a"), b: s.reportToken("b")}
	say := func(who *clusterAgent, r status.Report, want int) postAnswer {
		t.Helper()
		got, err := who.post(s.address, tokens[who], r)
		if err != nil || got.code != want {
			t.Fatalf("a report of %s: %+v, %v, want %d", who.cluster, got, err, want)
		}
		return got
	}
	ready := func(want string) {
		t.Helper()
		s.eventually("readyStatus", func() string { return unless(g.query("?status=ready").ReadyStatus, want) })
	}
	name := say(a, a.sees(status.Current), http.StatusNoContent).name
	say(b, b.sees(status.Current), http.StatusNoContent)
	ready("Ready")
	say(a, a.sees(status.Failed), http.StatusNoContent)
	ready("NotReady")
	say(a, a.sees(status.Current), http.StatusNoContent)
	ready("Ready")

	last := func() time.Time { return *pair(g.query("?status=ready"), "web", "a").LastReport }
	before, wrote := last(), s.metric(`emco_etcd_bytes_total{kind="txn"}`)
	a.seq++
	say(a, status.Report{Cluster: a.cluster, Seq: a.seq, At: time.Now(), Same: name}, http.StatusNoContent)
	s.eventually("the sign of life", func() string {
		if !last().After(before) {
			return "the last report is as old as before"
		}
		return ""
	})
	if after := s.metric(`emco_etcd_bytes_total{kind="txn"}`); number(after)-number(wrote) > 1000 {
		t.Errorf("a sign of life wrote %.0f bytes", number(after)-number(wrote))
	}
	say(a, status.Report{Cluster: "edge+b", Seq: a.seq + 10}, http.StatusForbidden)

	s.stop()
	s.start()
	ready("Ready")
	if got := say(a, status.Report{Cluster: a.cluster, Seq: a.seq}, http.StatusConflict); got.last != strconv.FormatUint(a.seq, 10) {
		t.Errorf("after a restart the last sequence is %s, want %d", got.last, a.seq)
	}
	s.expect(http.StatusNoContent, "DELETE", provider+"/clusters/a/monitor/token", "")
	say(a, a.sees(status.Failed), http.StatusUnauthorized)
	ready("Ready")
	for _, token := range tokens {
		if strings.Contains(s.log.String(), token) {
			t.Error("the log holds a token")
		}
	}
	g.act("terminate")
	g.becomes("Terminated")
}

func number(text string) float64 {
	v, _ := strconv.ParseFloat(text, 64)
	return v
}

// An acknowledged report survives kill -9 and is not processed twice.
func TestAcknowledgedReportsSurviveAKill(t *testing.T) {
	t.Parallel()
	var token string
	var g testGroup
	v := newCrashStage(t, func(s *testStage) {
		s.fleet("a")
		s.reportByHTTPS()
		s.onboard("web")
		g = s.group("autumn", appPlaces{"web": {"a"}})
		g.act("instantiate")
		g.becomes("Instantiated")
		token = s.reportToken("a")
	})
	a := v.agent("a")
	for _, state := range []string{status.Failed, status.Current, status.Failed, status.Current} {
		r := a.sees(state)
		v.eventually("a report is taken", func() string {
			v.mu.Lock()
			p := v.now
			v.mu.Unlock()
			got, err := a.post("http://"+p.address, token, r)
			if err != nil || got.code != http.StatusNoContent {
				return "it is not"
			}
			_ = p.cmd.Process.Kill()
			<-p.ended
			return ""
		})
		want := map[string]string{status.Failed: v2.NotReady, status.Current: v2.Ready}[state]
		v.ready("what was acknowledged is shown", g, func(st v2.Status) string { return unless(st.ReadyStatus, want) })
		v.mu.Lock()
		p := v.now
		v.mu.Unlock()
		if got, err := a.post("http://"+p.address, token, r); err != nil || got.code != http.StatusConflict {
			t.Errorf("the same report after the kill: %+v, %v", got, err)
		}
	}
}

// Concurrent reports of many clusters are written together; after a kill each cluster finds
// its last acknowledged report, or a later one.
func TestReportsThatAreWrittenTogetherSurviveAKill(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	tokens := map[string]string{}
	v := newCrashStage(t, func(s *testStage) {
		s.fleet(names...)
		s.reportByHTTPS()
		for _, name := range names {
			tokens[name] = s.reportToken(name)
		}
	})
	v.mu.Lock()
	p := v.now
	v.mu.Unlock()
	var taken atomic.Int64
	acknowledged := make([]uint64, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		a := v.agent(name)
		all.Go(func() {
			for seq := uint64(1); ; seq++ {
				got, err := a.post("http://"+p.address, tokens[name], status.Report{Cluster: a.cluster, Seq: seq, At: time.Now(), Agent: strconv.FormatUint(seq, 10)})
				switch {
				case err != nil: // it was killed
					return
				case got.code == http.StatusNoContent:
					acknowledged[i] = seq
					taken.Add(1)
				case got.code != http.StatusTooManyRequests && got.code != http.StatusServiceUnavailable:
					t.Errorf("report %d of %s: %d", seq, name, got.code)
					return
				}
			}
		})
	}
	v.eventually("many reports are taken", func() string {
		if n := taken.Load(); n < 100 {
			return strconv.FormatInt(n, 10)
		}
		return ""
	})
	_ = p.cmd.Process.Kill()
	<-p.ended
	all.Wait()
	for i, name := range names {
		a := v.agent(name)
		v.eventually("what was acknowledged is known", func() string {
			v.mu.Lock()
			address := v.now.address
			v.mu.Unlock()
			got, err := a.post("http://"+address, tokens[name], status.Report{Cluster: a.cluster, Seq: acknowledged[i]})
			if err != nil || got.code != http.StatusConflict {
				return "it is not"
			}
			if last, err := strconv.ParseUint(got.last, 10, 64); err != nil || last < acknowledged[i] {
				t.Errorf("of %s report %s is known, and %d was acknowledged", name, got.last, acknowledged[i])
			}
			return ""
		})
	}
}
