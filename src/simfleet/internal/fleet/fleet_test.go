package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/status"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/gittest"
	"github.com/emco-orchestrator/emco/src/simfleet/internal/script"
)

// field is a real Git server with what is desired of some clusters.
type field struct {
	*testing.T
	server *gittest.Server
	bare   gittest.Bare
	names  []string
	pause  time.Duration // least time between two reports of a cluster
}

func newField(t *testing.T, clusters int) *field {
	t.Helper()
	srv, err := gittest.Serve(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	f := &field{T: t, server: srv, pause: 100 * time.Millisecond}
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

func (f *field) must(err error) {
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

// desire writes what clusters are to hold.
func (f *field) desire(content string, names ...string) {
	f.Helper()
	files := map[string]gittest.File{}
	for _, n := range names {
		files["clusters/"+n+"/context/7/app/web/web+Deployment.yaml"] = gittest.File{Content: fmt.Sprintf(object, content)}
	}
	_, err := f.bare.CommitExternal(f.Context(), "main", files)
	f.must(err)
}

// start has a fleet live until the test ends.
func (f *field) start(own bool, do ...string) *Fleet {
	f.Helper()
	all, err := script.ParseAll(do)
	f.must(err)
	repo := git.Repo{URL: f.server.URL("fleet")}
	fl, err := New(Options{
		Clusters: f.names, Branch: "main", Repo: repo, Status: repo, Prefix: status.DefaultPrefix, Own: own, Refresh: 50 * time.Millisecond,
		Interval: 200 * time.Millisecond, Gather: 10 * time.Millisecond, Report: f.pause, Heartbeat: time.Minute, Workers: 4, Seed: 1, Orders: all, Agent: "simfleet",
	})
	f.must(err)
	ctx, cancel := context.WithCancel(f.Context())
	var run sync.WaitGroup
	run.Go(func() { fl.Run(ctx) })
	f.Cleanup(func() { cancel(); run.Wait() })
	return fl
}

// report reads what a cluster has reported of its one object.
func (f *field) report(name string) (status.Object, error) {
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

// says waits until a cluster reports content and status.
func (f *field) says(name, content, what string) {
	f.Helper()
	f.eventually(func() error {
		o, err := f.report(name)
		if err == nil && (o.Content != content || o.Status != what) {
			err = fmt.Errorf("%s says %q is %s, want %q %s", name, o.Content, o.Status, content, what)
		}
		return err
	})
}

func (f *field) eventually(try func() error) {
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

// Clusters hold what Git says, and say so by the monitor's own reports; also if each
// fetches by itself.
func TestClustersFollowGit(t *testing.T) {
	t.Parallel()
	for _, own := range []bool{false, true} {
		t.Run(fmt.Sprintf("own=%v", own), func(t *testing.T) {
			t.Parallel()
			f := newField(t, 8)
			fl := f.start(own)
			for _, n := range f.names {
				f.says(n, "1", status.Current)
			}
			f.desire("2", f.names[3])
			f.says(f.names[3], "2", status.Current)
			f.says(f.names[4], "1", status.Current)
			f.eventually(func() error {
				if s := fl.Summary(); !s.Settled() || s.Current != 8 || s.Applied != 9 || s.Bytes == 0 || s.Reports < 9 {
					return errors.New(s.Text())
				}
				return nil
			})
		})
	}
}

// A fleet is not settled while a cluster holds what it has not reported, though it has
// reported before.
func TestAFleetIsSettledOnceAllIsReported(t *testing.T) {
	t.Parallel()
	f := newField(t, 2)
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

// A cluster's folder may be a level deeper than EMCO's.
func TestFoldersMayBeDeeper(t *testing.T) {
	t.Parallel()
	for _, own := range []bool{false, true} {
		f := newField(t, 1)
		f.names = append(f.names, "sim+deep")
		_, err := f.bare.CommitExternal(t.Context(), "main", map[string]gittest.File{"clusters/0a/sim+deep/context/7/app/web/web+Deployment.yaml": {Content: fmt.Sprintf(object, "9")}})
		f.must(err)
		f.start(own)
		f.says("sim+deep", "9", status.Current)
		f.says(f.names[0], "1", status.Current)
	}
}

func TestOrdersAreObeyed(t *testing.T) {
	t.Parallel()
	f := newField(t, 4)
	fl := f.start(false, "0s 0 offline", "0s 1 fail Deployment/web", "0s 2 lag 1h")
	f.says(f.names[1], "1", status.Failed)
	f.says(f.names[3], "1", status.Current)
	f.desire("2", f.names...)
	f.says(f.names[3], "2", status.Current)
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
		fl.agenda.Wake(i, fl.began)
	}
	f.says(f.names[0], "2", status.Current)
	f.says(f.names[1], "2", status.Current)
	f.desire("3", f.names[2])
	f.says(f.names[2], "3", status.Current)
}

// What somebody changes on a cluster is reported if there is time for it, and put right.
func TestDriftIsPutRight(t *testing.T) {
	t.Parallel()
	f := newField(t, 1)
	fl := f.start(false)
	f.says(f.names[0], "1", status.Current)
	c := fl.clusters[0]
	c.mu.Lock()
	c.drifted = []string{"Deployment/*"}
	if got := c.Report().Apps[0].Objects[0].Content; got != touched {
		t.Errorf("content is %q, want that of somebody else", got)
	}
	c.changed(time.Now())
	c.mu.Unlock()
	f.says(f.names[0], "1", status.Current)
	f.eventually(func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.drifted) > 0 {
			return errors.New("it was not put right")
		}
		return nil
	})
}

// Who asks how it goes is answered while a report is on its way, however long that takes.
func TestASummaryWaitsForNoTurn(t *testing.T) {
	t.Parallel()
	f := newField(t, 2)
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
