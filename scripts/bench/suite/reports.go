package suite

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/scripts/e2e/fleet"
	"github.com/emco-orchestrator/emco/scripts/e2e/program"
	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/api/status"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/plain"

	"github.com/emco-orchestrator/emco/scripts/bench/agents"
	"github.com/emco-orchestrator/emco/scripts/bench/figures"
	"github.com/emco-orchestrator/emco/scripts/bench/peers"
	"github.com/emco-orchestrator/emco/scripts/bench/site"
)

// The number of connections, of objects per app, and of changes of one cluster whose staleness is measured at least.
const (
	lines    = 256
	reported = 3
	changes  = 20
)

// reports measures the rate of reports over HTTPS, and the delay until the API shows them: P7.
func (s *Suite) reports(ctx context.Context) error {
	clusters := 2000
	if s.Full {
		clusters = 10_000
	}
	dir := s.folder()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s.withFleet(ctx, reportFleet{name: fmt.Sprintf("%d clusters", clusters), apps: 1}, dir+"/one", clusters, func(h *reportFleet) {
		for _, news := range []bool{false, true} {
			s.add(h.flood(ctx, news))
		}
		s.add(h.staleness(ctx))
		s.add(h.branches(ctx))
	})
	if s.Full { // the sustained rate that the program must handle
		s.withFleet(ctx, reportFleet{name: fmt.Sprintf("%d clusters x 10 apps", clusters), apps: 10}, dir+"/ten", clusters, func(h *reportFleet) { s.add(h.staleness(ctx)) })
	}
	s.add(polling())
	return ctx.Err()
}

// Period is how long a load of Floods is measured, after as long to fill the caches.
const Period = period

// Floods starts the program of folder bin with clusters that report over HTTPS, and has do run the two
// loads of P7: heartbeats, and reports that are news. It needs an empty folder.
func Floods(ctx context.Context, bin, dir string, clusters int, do func(name string, p *program.Emco, flood func() (figures.Sample, error)) error) error {
	h := reportFleet{suite: &Suite{Options: Options{Bin: bin}}, name: fmt.Sprintf("%d clusters", clusters), apps: 1}
	defer h.close()
	if err := h.open(ctx, dir, clusters); err != nil {
		return err
	}
	for _, load := range []struct {
		name string
		news bool
	}{{"heartbeats", false}, {"news", true}} {
		err := do(load.name, h.program, func() (figures.Sample, error) {
			out := h.flood(ctx, load.news)
			if out.Failed != "" {
				return out, errors.New(out.Failed)
			}
			return out, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// withFleet runs a fleet that reports to its own program while do runs.
func (s *Suite) withFleet(ctx context.Context, h reportFleet, dir string, clusters int, do func(*reportFleet)) {
	h.suite = s
	defer h.close()
	if err := h.open(ctx, dir, clusters); err != nil {
		s.add(figures.Sample{Metric: "P7", Case: h.name, Peer: figures.Process, Failed: "prepare: " + err.Error()})
		return
	}
	do(&h)
}

// reportFleet is a program with a fleet that reports over HTTPS.
type reportFleet struct {
	suite      *Suite
	name       string
	apps       int
	site       *site.Site
	program    *program.Emco
	api        *client.Client
	fleet      fleet.Fleet
	deployment fleet.Deployment
	agents     []*agents.Agent
}

func (h *reportFleet) open(ctx context.Context, dir string, clusters int) (err error) {
	if h.site, err = site.Open(ctx, dir+"/origin"); err != nil {
		return err
	}
	if h.program, err = program.Start(ctx, program.Options{Bin: h.suite.Bin, Dir: dir + "/emco"}); err != nil {
		return err
	}
	if h.fleet, err = fleet.Open(h.program.URL()); err != nil {
		return err
	}
	if h.api, err = client.New(client.Options{BaseURL: h.program.URL()}); err != nil {
		return err
	}
	user, token := h.site.Credential()
	where := fleet.Repository{URL: h.site.Server.URL(site.Repository), User: user, Token: token, Keys: map[string]v2.Scalar{"statusMode": "https"}}
	h.deployment = fleet.Deployment{Name: "reports"}
	for i := range h.apps {
		h.deployment.Apps = append(h.deployment.Apps, fleet.App{Chart: fleet.Synthetic(fmt.Sprintf("web%d", i), reported)})
	}
	for _, do := range []func() error{
		func() error { return h.fleet.Found(ctx, where) },
		func() error { return h.fleet.Register(ctx, clusters) },
		func() error { return h.fleet.OpenCloud(ctx) },
		func() error { return h.fleet.Onboard(ctx, dir, h.deployment) },
		func() error { return h.fleet.Act(ctx, h.deployment.Path(), "instantiate") },
		func() error { return h.await(ctx) },
		func() error { return h.createAgents(ctx, clusters) },
	} {
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}

func (h *reportFleet) close() {
	if h.program != nil {
		_ = h.program.Stop()
	}
	if h.site != nil {
		_ = h.site.Close()
	}
}

func (h *reportFleet) await(ctx context.Context) error {
	return program.Poll(ctx, 50*time.Millisecond, func() error {
		st, err := h.fleet.Status(ctx, h.deployment.Path(), false)
		if err == nil && st.DeployedStatus != v2.StatusInstantiated {
			err = errors.New("deployedStatus is " + st.DeployedStatus)
		}
		return err
	})
}

// createAgents gives each cluster an agent with a token, which knows the content of the branch.
func (h *reportFleet) createAgents(ctx context.Context, clusters int) error {
	held, err := h.syncedApps(ctx)
	if err != nil {
		return err
	}
	h.agents = make([]*agents.Agent, clusters)
	return fleet.Each(ctx, clusters, func(ctx context.Context, i int) (err error) {
		h.agents[i], err = h.agent(ctx, fleet.GitCluster(i), held)
		return err
	})
}

func (h *reportFleet) agent(ctx context.Context, cluster string, held []status.App) (*agents.Agent, error) {
	key := v2.NewClusterKey(fleet.Provider, cluster)
	made, err := client.Post[struct{ Token, Path string }](ctx, h.api, key.StoreKey()+"/monitor/token", struct{}{})
	return &agents.Agent{Cluster: key.String(), Path: made.Path, Token: made.Token, Apps: held}, err
}

// syncedApps is the content of a cluster in sync with the branch: the same for all clusters.
func (h *reportFleet) syncedApps(ctx context.Context) ([]status.App, error) {
	root := "clusters/" + v2.NewClusterKey(fleet.Provider, fleet.GitCluster(0)).String() + "/"
	listing, err := h.site.Bare.Git(ctx, "", "ls-tree", "-r", "--name-only", site.Branch, "--", root)
	if err != nil {
		return nil, err
	}
	apps := map[string]*status.App{}
	for path := range strings.Lines(listing) {
		path = strings.TrimSpace(path)
		if !strings.Contains(path, "/app/") {
			continue
		}
		text, err := h.site.Bare.Git(ctx, "", "show", site.Branch+":"+path)
		if err != nil {
			return nil, err
		}
		label, o := objectIn(text)
		if apps[label] == nil {
			apps[label] = &status.App{Label: label}
		}
		apps[label].Objects = append(apps[label].Objects, o)
	}
	if len(apps) != h.apps || apps[""] != nil {
		return nil, fmt.Errorf("the branch has %d apps for a cluster, want %d", len(apps), h.apps)
	}
	var out []status.App
	for _, label := range slices.Sorted(maps.Keys(apps)) {
		out = append(out, *apps[label])
	}
	return out, nil
}

// objectIn is a cluster's report about the object in a file of the branch.
func objectIn(text string) (label string, o status.Object) {
	o = status.Object{Version: "v1", Kind: "ConfigMap", Namespace: "default", Status: status.Current}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		value = strings.Trim(value, `"'`)
		switch key {
		case "name":
			o.Name = value
		case "namespace":
			o.Namespace = value
		case status.ContentAnnotation:
			o.Content = value
		case status.DeploymentLabel:
			label = value
		}
	}
	return label, o
}

// flood sends reports of all clusters as fast as the server answers.
func (h *reportFleet) flood(ctx context.Context, news bool) figures.Sample {
	out := figures.Sample{Metric: "P7", Case: h.name + ", signs of life", Peer: figures.Process}
	if news {
		out.Case = h.name + ", each report is news"
	}
	l := agents.Load{Address: h.program.URL(), Connections: lines, For: period, News: news}
	if _, err := l.Run(ctx, h.agents); err != nil { // a first round, which fills the caches
		out.Failed = err.Error()
		return out
	}
	used := peers.CPUOf(h.program.PID())
	r, err := l.Run(ctx, h.agents)
	used = peers.CPUOf(h.program.PID()) - used
	switch {
	case err != nil:
		out.Failed = err.Error()
	case r.Wrong != "":
		out.Failed = "answered " + r.Wrong
	default:
		if err := h.checkStored(ctx); err != nil {
			out.Failed = err.Error()
		}
	}
	memory, _ := h.program.Memory()
	out.Values = map[string]float64{
		"rate": float64(r.Taken) / r.Seconds, "p99": figures.Quantile(r.Took, 0.99) * 1000, "p50": figures.Median(r.Took) * 1000,
		"late": float64(r.Late), "cpu": used.Seconds(), "rss": float64(memory.Peak) / (1 << 20),
	}
	if news && out.Failed == "" {
		if out.Values["behind"], err = h.catchUp(ctx); err != nil {
			out.Failed = err.Error()
		}
	}
	return out
}

// catchUp waits until the API shows all news. The program processes clusters in the order in which they came: the
// first change of a cluster may have the turn of an earlier one that waits, the second one comes after all others.
func (h *reportFleet) catchUp(ctx context.Context) (seconds float64, err error) {
	for range 2 {
		one, err := h.measureStaleness(ctx, h.agents[0])
		if err != nil {
			return 0, err
		}
		seconds += one
	}
	return seconds, nil
}

// checkStored compares the acknowledged reports of some agents with the stored ones. On a busy machine not all agents
// have had a turn.
func (h *reportFleet) checkStored(ctx context.Context) error {
	var acknowledged []*agents.Agent
	for _, a := range h.agents {
		if a.Taken > 0 {
			acknowledged = append(acknowledged, a)
		}
	}
	if len(acknowledged) == 0 {
		return errors.New("no report was acknowledged")
	}
	for i := 0; i < len(acknowledged); i += max(1, len(acknowledged)/50) {
		a := acknowledged[i]
		note, err := client.Get[struct{ Sequence uint64 }](ctx, h.api, strings.TrimPrefix(strings.TrimSuffix(a.Path, "/report"), "/v2/"))
		if err == nil && note.Sequence != a.Taken {
			err = fmt.Errorf("of %s report %d is stored, and %d was acknowledged", a.Cluster, note.Sequence, a.Taken)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// stalenessLimit is how long a machine may take until the API shows a change, and until it has shown enough of them.
const stalenessLimit = time.Minute

// staleness is the delay until the API shows a cluster's report, while the rest of the fleet reports
// news twice a minute.
func (h *reportFleet) staleness(ctx context.Context) figures.Sample {
	rest := len(h.agents) - 1
	out := figures.Sample{Metric: "P7", Case: fmt.Sprintf("%s, %d news/s", h.name, max(1, rest/30)), Peer: figures.Process}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var beside sync.WaitGroup
	var load agents.Result
	beside.Go(func() {
		l := agents.Load{Address: h.program.URL(), Connections: 16, For: 2 * stalenessLimit, News: true, Rate: max(1, rest/30)}
		load, _ = l.Run(ctx, h.agents[1:])
	})
	var took []float64
	for began := time.Now(); ctx.Err() == nil && (time.Since(began) < 4*period || len(took) < changes); {
		if time.Since(began) > stalenessLimit {
			out.Failed = fmt.Sprintf("in %v the API showed %d changes, want %d", stalenessLimit, len(took), changes)
			break
		}
		seconds, err := h.measureStaleness(ctx, h.agents[0])
		if err != nil {
			out.Failed = err.Error()
			break
		}
		took = append(took, seconds)
	}
	cancel()
	beside.Wait()
	out.Values = map[string]float64{
		"rate": float64(load.Taken) / max(load.Seconds, 0.001), "staleness": figures.Quantile(took, 0.99), "p99": figures.Quantile(load.Took, 0.99) * 1000, "p50": figures.Median(load.Took) * 1000,
	}
	out.Note = fmt.Sprintf("%d changes of one cluster were measured", len(took))
	return out
}

// measureStaleness sends news of an agent, and waits until the status shows it. The time begins with the report that
// the server takes: after a load at full rate it may refuse some.
func (h *reportFleet) measureStaleness(ctx context.Context, a *agents.Agent) (seconds float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, stalenessLimit)
	defer cancel()
	var began time.Time
	err = program.Poll(ctx, 5*time.Millisecond, func() error {
		began = time.Now()
		code, err := a.Report(h.program.URL(), true)
		if err == nil && code != http.StatusNoContent {
			err = fmt.Errorf("a report was answered %d", code)
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	path := h.deployment.Path() + "/status?status=ready&output=all&cluster=" + url.QueryEscape(a.Cluster)
	err = program.Poll(ctx, 5*time.Millisecond, func() error {
		res, err := h.api.Do(ctx, client.Request{Method: http.MethodGet, Path: path})
		if err == nil && !strings.Contains(string(res.Body), a.Reported()) {
			err = errors.New("the status does not show " + a.Reported())
		}
		return err
	})
	return time.Since(began).Seconds(), err
}

// branches is the rate of reports to branches of clusters, through the writer of the monitor's Git
// mode, and the cost to read them all.
func (h *reportFleet) branches(ctx context.Context) figures.Sample {
	out := figures.Sample{Metric: "P7", Case: h.name + ", each report is news", Peer: "a branch for each cluster"}
	host := plain.New(plain.Options{})
	defer host.Close()
	repo, message := h.site.Repo(), git.Message{Title: "status", Author: "bench <bench@localhost>"}
	counts, failures := make([]int, 8), make([]error, 8)
	began := time.Now()
	var all sync.WaitGroup
	for k := range counts {
		all.Go(func() {
			for i := k; time.Since(began) < 2*period && failures[k] == nil && i < len(h.agents); i += len(counts) {
				a := h.agents[i]
				text, err := a.Text()
				if err == nil {
					_, err = host.Replace(ctx, repo, status.Branch(status.DefaultPrefix, a.Cluster), "", map[string][]byte{status.File: text}, message)
				}
				counts[k]++
				failures[k] = err
			}
		})
	}
	all.Wait()
	pushed, took := 0, time.Since(began).Seconds()
	for _, n := range counts {
		pushed += n
	}
	began = time.Now()
	found, err := host.Branches(ctx, repo, status.DefaultPrefix, func(string, git.Hash) bool { return true }, git.Limit{Object: status.MaxSize, Files: 4})
	if err = errors.Join(append(failures, err)...); err != nil || len(found) != pushed {
		out.Failed = fmt.Sprintf("%d of %d branches were found, %v", len(found), pushed, err)
	}
	out.Values = map[string]float64{"rate": float64(pushed) / took, "fetches": 1}
	out.Note = fmt.Sprintf("8 pushes at a time; one fetch of %d branches takes %.2f s", pushed, time.Since(began).Seconds())
	return out
}

// polling is the computed rate of EMCO on GitHub, within its limits: one call per pair and minute, and
// 5,000 calls per hour and token.
func polling() figures.Sample {
	const callsAnHour, everySeconds = 5000.0, 60.0
	pairs := math.Floor(callsAnHour * everySeconds / 3600)
	return figures.Sample{
		Metric: "P7", Case: "by the limits of a token", Peer: "EMCO, GitHub", Values: map[string]float64{"rate": pairs / everySeconds},
		Note: "computed, not run: one call for a pair and minute, and 5,000 calls an hour",
	}
}
