package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/status"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/gittest"
	"github.com/emco-orchestrator/emco/src/simfleet/internal/script"
)

// testFleet is a real Git server with the desired state of some clusters.
type testFleet struct {
	*testing.T
	server *gittest.Server
	bare   gittest.Bare
	names  []string
	pause  time.Duration // shortest time between two reports of a cluster
}

func newTestFleet(t *testing.T, clusters int) *testFleet {
	t.Helper()
	srv, err := gittest.Serve(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	f := &testFleet{T: t, server: srv, pause: 100 * time.Millisecond}
	if f.bare, err = srv.Seed(t.Context(), "fleet", "main"); err != nil {
		t.Fatal(err)
	}
	f.must(f.bare.Config(t.Context(), "receive.denyNonFastForwards", "false"))
	for i := range clusters {
		f.names = append(f.names, fmt.Sprintf("sim+c%02d", i))
	}
	f.desire("1", f.names...)
	return f
}

func (f *testFleet) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

const object = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: shop
  labels: {emco/deployment-id: 7-web}
  annotations: {emco/content: "%s"}
`

// desire writes the desired state of clusters.
func (f *testFleet) desire(content string, names ...string) {
	f.Helper()
	files := map[string]gittest.File{}
	for _, n := range names {
		files["clusters/"+n+"/context/7/app/web/web+Deployment.yaml"] = gittest.File{Content: fmt.Sprintf(object, content)}
	}
	_, err := f.bare.CommitExternal(f.Context(), "main", files)
	f.must(err)
}

// start runs a fleet until the test ends.
func (f *testFleet) start(own bool, do ...string) *Fleet {
	f.Helper()
	all, err := script.ParseAll(do)
	f.must(err)
	repo := git.Repo{URL: f.server.URL("fleet")}
	var clusters []v2.ClusterKey
	for _, name := range f.names {
		key, err := v2.ParseClusterKey(name)
		f.must(err)
		clusters = append(clusters, key)
	}
	fl, err := New(Options{
		Clusters: clusters, Branch: "main", Repo: repo, Status: repo, Prefix: status.DefaultPrefix, Own: own, Refresh: 50 * time.Millisecond,
		Interval: 200 * time.Millisecond, Gather: 10 * time.Millisecond, Report: f.pause, Heartbeat: time.Minute, Workers: 4, Seed: 1, Orders: all, Agent: "simfleet",
	})
	f.must(err)
	ctx, cancel := context.WithCancel(f.Context())
	var run sync.WaitGroup
	run.Go(func() { fl.Run(ctx) })
	f.Cleanup(func() { cancel(); run.Wait() })
	return fl
}

// report reads the last report of a cluster about its one object.
func (f *testFleet) report(name string) (status.Object, error) {
	text, err := f.bare.Show(f.Context(), status.Branch(status.DefaultPrefix, name), status.File)
	if err != nil {
		return status.Object{}, err
	}
	r, err := status.Decode([]byte(text))
	if err != nil {
		return status.Object{}, err
	}
	if r.Cluster != name || len(r.Apps) != 1 || r.Apps[0].Label != "7-web" || len(r.Apps[0].Objects) != 1 {
		return status.Object{}, fmt.Errorf("report is %+v", r)
	}
	return r.Apps[0].Objects[0], nil
}

// waitFor waits until a cluster reports content and status.
func (f *testFleet) waitFor(name, content, what string) {
	f.Helper()
	f.eventually(func() error {
		o, err := f.report(name)
		if err == nil && (o.Content != content || o.Status != what) {
			err = fmt.Errorf("%s reports %q is %s, want %q %s", name, o.Content, o.Status, content, what)
		}
		return err
	})
}

func (f *testFleet) eventually(try func() error) {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			f.Fatal(err)
		case <-tick.C:
		}
	}
}

// Clusters apply what is in Git and report it with the monitor's code, in both ways to fetch.
func TestClustersFollowGit(t *testing.T) {
	t.Parallel()
	for _, own := range []bool{false, true} {
		t.Run(fmt.Sprintf("own=%v", own), func(t *testing.T) {
			t.Parallel()
			f := newTestFleet(t, 8)
			fl := f.start(own)
			for _, n := range f.names {
				f.waitFor(n, "1", status.Current)
			}
			f.desire("2", f.names[3])
			f.waitFor(f.names[3], "2", status.Current)
			f.waitFor(f.names[4], "1", status.Current)
			f.eventually(func() error {
				if s := fl.Summary(); !s.Settled() || s.Current != 8 || s.Applied != 9 || s.Bytes == 0 || s.Reports < 9 {
					return errors.New(s.Text())
				}
				return nil
			})
		})
	}
}

// A fleet is not settled while the latest state of a cluster is not reported, even if the
// cluster has reported before.
func TestAFleetIsSettledWhenAllIsReported(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, 2)
	f.pause = time.Hour // after the first one
	fl := f.start(false)
	is := func(current, silent, applied int) {
		t.Helper()
		f.eventually(func() error {
			s := fl.Summary()
			if s.Current != current || s.Silent != silent || s.Applied != applied || s.Settled() != (silent == 0) {
				return errors.New(s.Text())
			}
			return nil
		})
	}
	is(2, 0, 2)
	f.desire("2", f.names[0])
	is(1, 1, 3)
}

// A cluster's folder may be one level deeper than upstream's.
func TestFoldersMayBeDeeper(t *testing.T) {
	t.Parallel()
	for _, own := range []bool{false, true} {
		f := newTestFleet(t, 1)
		f.names = append(f.names, "sim+deep")
		_, err := f.bare.CommitExternal(t.Context(), "main", map[string]gittest.File{"clusters/0a/sim+deep/context/7/app/web/web+Deployment.yaml": {Content: fmt.Sprintf(object, "9")}})
		f.must(err)
		f.start(own)
		f.waitFor("sim+deep", "9", status.Current)
		f.waitFor(f.names[0], "1", status.Current)
	}
}

func TestOrdersTakeEffect(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, 4)
	fl := f.start(false, "0s 0 offline", "0s 1 fail Deployment/web", "0s 2 lag 1h")
	f.waitFor(f.names[1], "1", status.Failed)
	f.waitFor(f.names[3], "1", status.Current)
	f.desire("2", f.names...)
	f.waitFor(f.names[3], "2", status.Current)
	f.eventually(func() error {
		if s := fl.Summary(); s.Offline != 1 || s.Failed != 1 || s.Behind != 1 || s.Current != 1 || s.Settled() {
			return errors.New(s.Text())
		}
		return nil
	})
	if _, err := f.report(f.names[0]); err == nil {
		t.Error("a cluster that is offline has reported")
	}
	for i, line := range []string{"0s 0 online", "0s 1 heal", "0s 2 lag 0s"} {
		o, err := script.Parse(line)
		f.must(err)
		fl.clusters[i].order(o)
		fl.scheduler.Wake(i, fl.started)
	}
	f.waitFor(f.names[0], "2", status.Current)
	f.waitFor(f.names[1], "2", status.Current)
	f.desire("3", f.names[2])
	f.waitFor(f.names[2], "3", status.Current)
}

// An object that is changed on a cluster is reported so, until the next poll repairs it.
func TestDriftIsRepaired(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, 1)
	fl := f.start(false)
	f.waitFor(f.names[0], "1", status.Current)
	c := fl.clusters[0]
	c.mu.Lock()
	c.drifted = []string{"Deployment/*"}
	if got := c.Report().Apps[0].Objects[0].Content; got != driftedContent {
		t.Errorf("content is %q, want the changed one", got)
	}
	c.changed(time.Now())
	c.mu.Unlock()
	f.waitFor(f.names[0], "1", status.Current)
	f.eventually(func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.drifted) > 0 {
			return errors.New("it was not repaired")
		}
		return nil
	})
}

// A summary does not wait for a report that is under way.
func TestASummaryWaitsForNoTurn(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, 2)
	begun, release := make(chan struct{}, 16), make(chan struct{})
	f.server.BeforePush(func(string) { begun <- struct{}{}; <-release })
	fl := f.start(false)
	<-begun
	answered := make(chan Summary)
	go func() { answered <- fl.Summary() }()
	select {
	case s := <-answered:
		if s.Clusters != 2 || s.Reports != 0 {
			t.Errorf("the summary is %+v", s)
		}
	case <-time.After(20 * time.Second):
		t.Error("the summary waits for a push")
	}
	close(release)
	f.server.BeforePush(nil)
	f.eventually(func() error { // the server must not be removed during a push
		if s := fl.Summary(); s.Reports != 2 {
			return errors.New(s.Text())
		}
		return nil
	})
}
