package suite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/emco-orchestrator/emco/scripts/e2e/fleet"

	"github.com/emco-orchestrator/emco/scripts/bench/figures"
	"github.com/emco-orchestrator/emco/scripts/bench/pace"
	"github.com/emco-orchestrator/emco/scripts/bench/peers"
	"github.com/emco-orchestrator/emco/scripts/bench/world"
)

const (
	clustersPath = "cluster-providers/" + fleet.Provider + "/clusters"
	groupPath    = "projects/" + fleet.Project + "/composite-apps/bench/v1/deployment-intent-groups/bench"
	pageSize     = 100              // clusters
	atOnce       = 256              // connections
	patience     = 10 * time.Second // time limit of an answer, from when the request was due
)

// requestKind is one kind of API request.
type requestKind struct {
	name  string
	share float64 // of the rates
	fixed int     // requests per second in the services set; 0: none
	// do sends the i-th request, and returns with its answer. Many goroutines call it.
	do func(ctx context.Context, i int) error
}

// latency sends each kind of request at fixed rates: P10. After a rate that is too high for the
// program, it skips the higher ones.
func (s *Suite) latency(ctx context.Context, p *peers.Emco, clusters int) {
	a := newAPIClient(p)
	defer a.client.CloseIdleConnections()
	tokens, err := a.tokens(ctx)
	if err != nil {
		s.add(figures.Sample{Metric: "P10", Case: "pages of clusters", Peer: figures.Process, Failed: err.Error()})
		return
	}
	for _, r := range a.requests(clusters, tokens) {
		for _, rate := range s.rates() {
			rate = int(float64(rate) * r.share)
			sample := atRate(ctx, r, rate, s.number(rate), period)
			sample.Metric, sample.Case, sample.Peer = "P10", fmt.Sprintf("%d/s: %s of %d", rate, r.name, clusters), figures.Process
			if s.add(sample); sample.Note != "" || sample.Failed != "" {
				break
			}
		}
	}
}

// Requests has do run each kind of request at its rate of the services set for some time.
func Requests(ctx context.Context, p *peers.Emco, clusters int, lasts time.Duration, do func(name string, load func() figures.Sample) error) error {
	a := newAPIClient(p)
	defer a.client.CloseIdleConnections()
	for _, r := range a.requests(clusters, []string{""}) {
		if r.fixed == 0 {
			continue
		}
		if err := do(r.name, func() figures.Sample { return atRate(ctx, r, r.fixed, 0, lasts) }); err != nil {
			return err
		}
	}
	return nil
}

// number reserves unused numbers, enough for a rate.
func (s *Suite) number(rate int) int {
	first := s.seq
	s.seq += rate * int(period/time.Second)
	return first
}

// rates of requests per second.
func (s *Suite) rates() []int {
	if s.Full {
		return []int{500, 2000, 5000}
	}
	return []int{500}
}

// apiClient is the API of the processes, which it asks in turn.
type apiClient struct {
	urls   []string
	token  string
	client *http.Client
	turn   *atomic.Int64
}

func newAPIClient(p *peers.Emco) apiClient {
	a := apiClient{token: string(p.Token), turn: &atomic.Int64{}, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: atOnce, MaxConnsPerHost: atOnce}}}
	for _, e := range p.Processes() {
		a.urls = append(a.urls, e.URL()+"/v2/")
	}
	return a
}

// requests are the measured kinds. Those that create clusters come last.
func (a apiClient) requests(clusters int, tokens []string) []requestKind {
	out := []requestKind{
		{"one cluster", 1, 1000, func(ctx context.Context, i int) error {
			_, err := a.send(ctx, http.MethodGet, clustersPath+"/"+world.Cluster(i%clusters), "")
			return err
		}},
		{fmt.Sprintf("a page of %d clusters", pageSize), 1, 100, func(ctx context.Context, i int) error {
			_, err := a.page(ctx, tokens[i%len(tokens)])
			return err
		}},
		{"status without parts", 1, 100, func(ctx context.Context, _ int) error {
			_, err := a.send(ctx, http.MethodGet, groupPath+"/status?status=deployed&output=summary", "")
			return err
		}},
		{"a label for a cluster", 0.4, 200, func(ctx context.Context, i int) error {
			_, err := a.send(ctx, http.MethodPost, clustersPath+"/"+world.Cluster(i%clusters)+"/labels", fmt.Sprintf(`{"clusterLabel": "load%d"}`, i))
			return err
		}},
		{"a new cluster on top", 0.4, 200, func(ctx context.Context, i int) error {
			_, err := a.send(ctx, http.MethodPost, clustersPath, fmt.Sprintf(`{"metadata": {"name": "load%d"}, "spec": {"gitOps": {"gitOpsType": "git", "gitOpsReferenceObject": "fleet-repo"}}}`, i))
			return err
		}},
	}
	if len(tokens) > 1 {
		whole := requestKind{fmt.Sprintf("all clusters, by %d a page,", pageSize), 0.1, 0, func(ctx context.Context, _ int) error {
			_, err := a.tokens(ctx)
			return err
		}}
		out = slices.Insert(out, 2, whole)
	}
	return out
}

// page reads the page of a token, and returns the token of the next one.
func (a apiClient) page(ctx context.Context, token string) (next string, err error) {
	head, err := a.send(ctx, http.MethodGet, fmt.Sprintf("%s?limit=%d&continue=%s", clustersPath, pageSize, url.QueryEscape(token)), "")
	return head.Get("X-Continue"), err
}

// tokens reads all pages, and returns the token of each.
func (a apiClient) tokens(ctx context.Context) (out []string, err error) {
	for token := ""; ; {
		out = append(out, token)
		if token, err = a.page(ctx, token); token == "" || err != nil {
			return out, err
		}
	}
}

// send makes a call and reads the whole answer.
func (a apiClient) send(ctx context.Context, method, path, body string) (http.Header, error) {
	url := a.urls[int(a.turn.Add(1))%len(a.urls)]
	req, err := http.NewRequestWithContext(ctx, method, url+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if a.token != "" {
		req.Header.Set("Authorization", "Bearer "+a.token)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := a.client.Do(req)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, res.Body)
	err = errors.Join(err, res.Body.Close())
	if res.StatusCode >= 300 {
		err = errors.Join(err, errors.New(res.Status))
	}
	return res.Header, err
}

// atRate sends requests at a fixed rate for some time, regardless of the answers, with numbers from first on. Times
// start when a request is due, so a wait for a connection, or for the sender, counts. After a request
// without a timely answer the rate is too high: atRate sends no more, and cancels the waiting ones.
func atRate(ctx context.Context, r requestKind, rate, first int, lasts time.Duration) (out figures.Sample) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l := loadGenerator{tooMuch: cancel}
	began := time.Now()
	n := int(float64(rate) * lasts.Seconds())
	for i := 0; i < n && ctx.Err() == nil; i++ {
		due := began.Add(time.Duration(i) * time.Second / time.Duration(rate))
		if !pace.Until(ctx, due) {
			break
		}
		l.send(ctx, due, func(ctx context.Context) error { return r.do(ctx, first+i) })
	}
	l.all.Wait()
	took := time.Since(began).Seconds()
	out.Values = map[string]float64{"achieved": float64(len(l.took)) / took, "errors": float64(l.wrong)}
	switch {
	case l.wrong > 0:
		out.Failed = fmt.Sprintf("%d requests failed, such as: %s", l.wrong, l.why)
	case l.late:
		out.Note = fmt.Sprintf("more than it can do: no answer within %s to one request, after %d of %d; higher rates are not measured", patience, len(l.took), n)
	default:
		out.Values["p50"], out.Values["p99"] = figures.Median(l.took)*1000, figures.Quantile(l.took, 0.99)*1000
	}
	return out
}

// loadGenerator sends requests and records the time from due to answered.
type loadGenerator struct {
	tooMuch func() // ends all running requests
	all     sync.WaitGroup

	mu    sync.Mutex
	took  []float64
	late  bool // one request had no timely answer
	wrong int  // refusals, and broken connections
	why   string
}

func (l *loadGenerator) send(ctx context.Context, due time.Time, do func(context.Context) error) {
	l.all.Go(func() {
		timed, cancel := context.WithDeadline(ctx, due.Add(patience))
		defer cancel()
		err := do(timed)
		l.mu.Lock()
		defer l.mu.Unlock()
		switch {
		case err == nil:
			l.took = append(l.took, time.Since(due).Seconds())
		case ctx.Err() != nil: // cancelled
		case timed.Err() != nil:
			l.late = true
			l.tooMuch()
		default:
			l.wrong++
			l.why = err.Error()
		}
	})
}
