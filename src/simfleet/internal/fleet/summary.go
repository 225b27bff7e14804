package fleet

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// condition is where a cluster is.
type condition int32

const (
	isBehind  condition = iota // has not applied what it fetched, or has never looked
	isCurrent                  // holds what Git says, all is well, and it has said so
	isFailed                   // holds an object that fails
	isOffline
	isUnable // could not fetch
	isSilent // has not reported yet what it holds
	conditions
)

// Summary is where a fleet is.
type Summary struct {
	Seconds  float64 `json:"seconds"` // since the start
	Clusters int     `json:"clusters"`
	Current  int     `json:"current"`
	Behind   int     `json:"behind"`
	Failed   int     `json:"failed"`
	Offline  int     `json:"offline"`
	Unable   int     `json:"unable"` // could not fetch
	Silent   int     `json:"silent"` // hold something that they have not reported yet

	Applied    int     `json:"applied"`           // folders that clusters applied, in all
	AppliedP50 float64 `json:"appliedP50Seconds"` // from when the commit was first seen
	AppliedP99 float64 `json:"appliedP99Seconds"`

	Exchanges uint64 `json:"fetches"` // in which something came
	Bytes     uint64 `json:"bytesFetched"`

	Reports    int     `json:"reports"`
	ReportP50  float64 `json:"reportP50Seconds"` // that writing one took
	ReportP99  float64 `json:"reportP99Seconds"`
	Failures   int     `json:"reportsFailed"`
	LastReason string  `json:"lastFailure,omitempty"`
}

// Summary counts the clusters as they are now.
func (f *Fleet) Summary() Summary {
	var n [conditions]int
	for _, c := range f.clusters {
		n[c.condition()]++
	}
	exchanges, bytes := f.fetcher.Received()
	f.mu.Lock()
	defer f.mu.Unlock()
	return Summary{
		Seconds: time.Since(f.began).Seconds(), Clusters: len(f.clusters),
		Current: n[isCurrent], Behind: n[isBehind], Failed: n[isFailed], Offline: n[isOffline], Unable: n[isUnable], Silent: n[isSilent],
		Applied: f.delays.n, AppliedP50: f.delays.quantile(0.5), AppliedP99: f.delays.quantile(0.99),
		Exchanges: exchanges, Bytes: bytes,
		Reports: f.writes.n, ReportP50: f.writes.quantile(0.5), ReportP99: f.writes.quantile(0.99),
		Failures: f.failures, LastReason: f.last,
	}
}

// Settled says whether all clusters that are online hold what Git says, and have said so.
func (s Summary) Settled() bool { return s.Current+s.Failed+s.Offline == s.Clusters }

// Line is a summary in a line, for progress.
func (s Summary) Line() string {
	return fmt.Sprintf("%6.0f s  current %d, behind %d, failed %d, offline %d, unable %d, silent %d; applied %d, reports %d, not reported %d",
		s.Seconds, s.Current, s.Behind, s.Failed, s.Offline, s.Unable, s.Silent, s.Applied, s.Reports, s.Failures)
}

// Text is a summary for the end.
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

// kept bounds what is remembered of times: of more, each is kept with equal chance.
const kept = 20_000

// samples are times of which quantiles are asked for.
type samples struct {
	n    int
	some []float64
}

func (s *samples) add(d time.Duration) {
	s.n++
	if len(s.some) < kept {
		s.some = append(s.some, d.Seconds())
	} else if i := rand.IntN(s.n); i < kept {
		s.some[i] = d.Seconds()
	}
}

func (s *samples) quantile(q float64) float64 {
	if len(s.some) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s.some))
	return sorted[int(q*float64(len(sorted)-1)+0.5)]
}
