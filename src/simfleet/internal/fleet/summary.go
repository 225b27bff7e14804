package fleet

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// clusterState is the state of a cluster.
type clusterState int32

const (
	stateBehind  clusterState = iota // has not applied what it fetched, or has not polled yet
	stateCurrent                     // has applied what is in Git, is well, and has reported that
	stateFailed                      // has an object that failed
	stateOffline
	stateUnable   // cannot fetch
	stateSilent   // has not reported its latest state
	clusterStates // their number
)

// Summary is the state of a fleet.
type Summary struct {
	Seconds  float64 `json:"seconds"` // since the start
	Clusters int     `json:"clusters"`
	Current  int     `json:"current"`
	Behind   int     `json:"behind"`
	Failed   int     `json:"failed"`
	Offline  int     `json:"offline"`
	Unable   int     `json:"unable"` // cannot fetch
	Silent   int     `json:"silent"` // have not reported their latest state

	Applied    int     `json:"applied"`           // by all clusters
	AppliedP50 float64 `json:"appliedP50Seconds"` // since a cluster first saw the commit
	AppliedP99 float64 `json:"appliedP99Seconds"`

	Exchanges uint64 `json:"fetches"` // fetches with a result
	Bytes     uint64 `json:"bytesFetched"`

	Reports    int     `json:"reports"`
	ReportP50  float64 `json:"reportP50Seconds"` // to write one
	ReportP99  float64 `json:"reportP99Seconds"`
	Failures   int     `json:"reportsFailed"`
	LastReason string  `json:"lastFailure,omitempty"`
}

// Summary counts the clusters as they are now.
func (f *Fleet) Summary() Summary {
	var n [clusterStates]int
	for _, c := range f.clusters {
		n[c.lastState()]++
	}
	exchanges, bytes := f.fetcher.Received()
	f.mu.Lock()
	defer f.mu.Unlock()
	return Summary{
		Seconds: time.Since(f.started).Seconds(), Clusters: len(f.clusters),
		Current: n[stateCurrent], Behind: n[stateBehind], Failed: n[stateFailed], Offline: n[stateOffline], Unable: n[stateUnable], Silent: n[stateSilent],
		Applied: f.delays.n, AppliedP50: f.delays.quantile(0.5), AppliedP99: f.delays.quantile(0.99),
		Exchanges: exchanges, Bytes: bytes,
		Reports: f.writes.n, ReportP50: f.writes.quantile(0.5), ReportP99: f.writes.quantile(0.99),
		Failures: f.failures, LastReason: f.lastFailure,
	}
}

// Settled reports whether all clusters that are online have applied what is in Git, and have reported it.
func (s Summary) Settled() bool { return s.Current+s.Failed+s.Offline == s.Clusters }

// Line returns the summary in one line, for progress.
func (s Summary) Line() string {
	return fmt.Sprintf("%6.0f s  current %d, behind %d, failed %d, offline %d, unable %d, silent %d; applied %d, reports %d, not reported %d",
		s.Seconds, s.Current, s.Behind, s.Failed, s.Offline, s.Unable, s.Silent, s.Applied, s.Reports, s.Failures)
}

// Text returns the summary for the end of a run.
func (s Summary) Text() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%d clusters after %.0f s: %d current, %d behind, %d failed, %d offline, %d unable to fetch, %d that could not report\n",
		s.Clusters, s.Seconds, s.Current, s.Behind, s.Failed, s.Offline, s.Unable, s.Silent)
	fmt.Fprintf(&out, "applied %d times, from the commit: p50 %.2f s, p99 %.2f s; fetched %d bytes in %d exchanges\n", s.Applied, s.AppliedP50, s.AppliedP99, s.Bytes, s.Exchanges)
	fmt.Fprintf(&out, "%d reports, %.1f a second, each p50 %.3f s, p99 %.3f s; %d failed", s.Reports, float64(s.Reports)/max(s.Seconds, 0.001), s.ReportP50, s.ReportP99, s.Failures)
	if s.LastReason != "" {
		fmt.Fprintf(&out, ", the last: %s", s.LastReason)
	}
	out.WriteByte('\n')
	return out.String()
}

// maxSample bounds the durations of a sample. Of more, each is kept with the same probability.
const maxSample = 20_000

// durationSample estimates quantiles of durations.
type durationSample struct {
	n    int
	kept []float64
}

func (s *durationSample) add(d time.Duration) {
	s.n++
	if len(s.kept) < maxSample {
		s.kept = append(s.kept, d.Seconds())
	} else if i := rand.IntN(s.n); i < maxSample {
		s.kept[i] = d.Seconds()
	}
}

func (s *durationSample) quantile(q float64) float64 {
	if len(s.kept) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s.kept))
	return sorted[int(q*float64(len(sorted)-1)+0.5)]
}
