package agentreports

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/status"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// BenchmarkReports is what a report costs from the request to the answer, with etcd and
// with the mirror and the source that follow it, but without connections and disk. The
// measure is CPU-µs/report, which other programs on the machine change little.
func BenchmarkReports(b *testing.B) {
	for _, c := range []struct {
		name string
		news bool
	}{{"signs", false}, {"news", true}} {
		b.Run(c.name, func(b *testing.B) {
			f := newFlood(b)
			f.round(c.news) // fills the caches and stores a first report of each
			f.round(c.news)
			b.ReportAllocs()
			before := used()
			for b.Loop() {
				f.round(c.news)
			}
			b.ReportMetric(float64((used()-before).Microseconds())/float64(b.N*floodSize), "CPU-µs/report")
		})
	}
}

// How many agents report in a round, and how many of them at a time.
const (
	floodSize  = 2048
	floodLines = 256
)

// agentLoad is a load of many agents that report to one process.
type agentLoad struct {
	*process
	rounds atomic.Int64 // and gaps of time that have passed
	agents []benchAgent
}

// benchAgent is an agent and its last answer.
type benchAgent struct {
	url, bearer string
	said        status.Report
	header      http.Header
	code        int
}

func newFlood(b *testing.B) *agentLoad {
	b.Helper()
	names := make([]v2.ClusterKey, floodSize)
	for i := range names {
		names[i] = v2.ClusterKey(fmt.Sprint("edge+c", i))
	}
	l := newLab(b, names...)
	l.listen(time.Minute)
	f := &agentLoad{process: l.process(), agents: make([]benchAgent, floodSize)}
	for i, name := range names {
		f.agents[i] = benchAgent{url: path(name) + "/report", bearer: "Bearer " + f.token(name, ""), said: good(name, 1, ""), header: http.Header{}}
	}
	return f
}

// round has each agent report once.
func (f *agentLoad) round(news bool) {
	n := f.rounds.Add(1)
	f.passes(reportGap)
	var all sync.WaitGroup
	for line := range floodLines {
		all.Go(func() {
			for i := line; i < len(f.agents); i += floodLines {
				f.agents[i].report(f, uint64(n), news)
			}
		})
	}
	all.Wait()
}

func (s *benchAgent) report(f *agentLoad, seq uint64, news bool) {
	r := s.said
	r.Seq = seq
	if name := s.header.Get("ETag"); name != "" && !news {
		r.Apps, r.Same = nil, name[1:len(name)-1]
	} else if news {
		r.Apps[0].Objects[0].Reason = fmt.Sprint("turn ", seq)
	}
	text, err := status.Encode(r, 0)
	if err != nil {
		f.Error(err)
	}
	s.code = http.StatusServiceUnavailable
	for s.code == http.StatusServiceUnavailable && f.Context().Err() == nil { // while all are looked up
		req, err := http.NewRequestWithContext(f.Context(), http.MethodPost, s.url, bytes.NewReader(text))
		if err != nil {
			f.Error(err)
			return
		}
		req.Header.Set("Authorization", s.bearer)
		f.server.Config.Handler.ServeHTTP(s, req)
	}
	if s.code != http.StatusNoContent {
		f.Errorf("report %d of %s: %d", seq, r.Cluster, s.code)
	}
}

func (s *benchAgent) Header() http.Header            { return s.header }
func (s *benchAgent) WriteHeader(code int)           { s.code = code }
func (s *benchAgent) Write(text []byte) (int, error) { return io.Discard.Write(text) }

// used is the time of processors that this process has used.
func used() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
