package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/app"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// edgeClusters simulates the clusters that pull from the stage's repository. At each look a
// cluster takes over the content of its branch. Its agent reports all objects, unless it has
// no agent. Objects are current unless a test sets another state. edgeClusters is a source of
// reports.
type edgeClusters struct {
	s *testStage

	mu      sync.Mutex
	seq     uint64
	mute    map[string]bool                                      // clusters without an agent
	ill     map[string]string                                    // "cluster Kind name" or "Kind name" -> "Status reason"
	holds   map[appcontext.PairKey]map[manifest.ID]objectContent // what is there
	told    map[appcontext.PairKey]string                        // what was last reported
	seen    []string                                             // what came and went, "c1 web +Job migrate"
	deliver func(context.Context, appcontext.Report)             // of the Run that is under way
	blobs   map[string]objectContent
}

// objectContent is what matters of an object.
type objectContent struct {
	id    manifest.ID
	stamp string
}

// newEdgeStage is a stage with clusters that pull and report, but for those that are mute.
func newEdgeStage(t *testing.T, mute ...string) (*testStage, *edgeClusters) {
	t.Helper()
	s := newStage(t)
	e := &edgeClusters{
		s: s, mute: map[string]bool{}, ill: map[string]string{}, blobs: map[string]objectContent{},
		holds: map[appcontext.PairKey]map[manifest.ID]objectContent{}, told: map[appcontext.PairKey]string{},
	}
	for _, c := range mute {
		e.mute[c] = true
	}
	s.options = append(s.options, app.WithSource(e))
	s.stop()
	s.start()
	return s, e
}

// Run looks at the branch all the time, and reports what has changed.
func (e *edgeClusters) Run(ctx context.Context, deliver func(context.Context, appcontext.Report)) error {
	e.mu.Lock()
	e.deliver = deliver
	clear(e.told)
	e.mu.Unlock()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := e.look(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// look brings the clusters to the state of the branch, and reports.
func (e *edgeClusters) look(ctx context.Context) error {
	wanted, err := e.wanted(ctx)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for key := range e.holds {
		if wanted[key] == nil {
			wanted[key] = map[manifest.ID]objectContent{}
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(wanted), func(a, b appcontext.PairKey) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) }) {
		e.note(key, e.holds[key], wanted[key])
		e.holds[key] = wanted[key]
		e.report(ctx, key)
	}
	return nil
}

// note records created and removed objects.
func (e *edgeClusters) note(key appcontext.PairKey, had, has map[manifest.ID]objectContent) {
	var came, went []string
	for id, c := range has {
		switch old, there := had[id]; {
		case !there:
			came = append(came, fmt.Sprintf("%s %s +%s %s", key.Cluster.Cluster(), key.App, id.Kind, id.Name))
		case old != c:
			came = append(came, fmt.Sprintf("%s %s ~%s %s", key.Cluster.Cluster(), key.App, id.Kind, id.Name))
		}
	}
	for id := range had {
		if _, stays := has[id]; !stays {
			went = append(went, fmt.Sprintf("%s %s -%s %s", key.Cluster.Cluster(), key.App, id.Kind, id.Name))
		}
	}
	slices.Sort(came)
	slices.Sort(went)
	e.seen = append(append(e.seen, came...), went...)
}

// report sends a report on a pair if it differs from the last one.
func (e *edgeClusters) report(ctx context.Context, key appcontext.PairKey) {
	if e.mute[key.Cluster.Cluster()] {
		return
	}
	r := appcontext.Report{Key: key, At: time.Now()}
	for _, id := range slices.SortedFunc(maps.Keys(e.holds[key]), manifest.Compare) {
		status, reason, _ := strings.Cut(e.state(key, id), " ")
		r.Resources = append(r.Resources, appcontext.ResourceStatus{ID: id, Status: status, Reason: reason, Content: e.holds[key][id].stamp})
	}
	text, err := json.Marshal(r.Resources)
	if err != nil {
		panic(err)
	}
	if last, known := e.told[key]; known && last == string(text) {
		return
	}
	e.told[key] = string(text)
	e.seq++
	r.Seq = e.seq
	e.deliver(ctx, r)
}

func (e *edgeClusters) state(key appcontext.PairKey, id manifest.ID) string {
	object := id.Kind + " " + id.Name
	for _, at := range []string{key.Cluster.Cluster() + " " + object, object} {
		if s := e.ill[at]; s != "" {
			return s
		}
	}
	return "Current"
}

// wanted reads the branch.
func (e *edgeClusters) wanted(ctx context.Context) (map[appcontext.PairKey]map[manifest.ID]objectContent, error) {
	out := map[appcontext.PairKey]map[manifest.ID]objectContent{}
	files, err := e.s.read.files(ctx, branch)
	if err != nil {
		return nil, err
	}
	for path, blob := range files {
		part := strings.Split(path, "/") // clusters/C/context/U/app/A/F
		if len(part) != 7 || part[4] != "app" {
			continue
		}
		c, err := e.object(ctx, blob)
		if err != nil {
			return nil, err
		}
		key := appcontext.PairKey{Cluster: v2.ClusterKey(part[1]), Deployment: v2.DeploymentID(part[3]), App: part[5]}
		if out[key] == nil {
			out[key] = map[manifest.ID]objectContent{}
		}
		out[key][c.id] = c
	}
	return out, nil
}

// object reads a file.
func (e *edgeClusters) object(ctx context.Context, blob string) (objectContent, error) {
	if c, ok := e.blobs[blob]; ok {
		return c, nil
	}
	text, err := e.s.read.blob(ctx, blob)
	if err != nil {
		return objectContent{}, err
	}
	var o struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string `yaml:"kind"`
		Metadata   struct {
			Name, Namespace string
			Annotations     map[string]string
		}
	}
	if err := yaml.Unmarshal([]byte(text), &o); err != nil {
		return objectContent{}, err
	}
	c := objectContent{id: manifest.ID{Version: o.APIVersion, Kind: o.Kind, Name: o.Metadata.Name, Namespace: o.Metadata.Namespace}, stamp: o.Metadata.Annotations[manifest.StampKey]}
	if group, version, ok := strings.Cut(o.APIVersion, "/"); ok {
		c.id.Group, c.id.Version = group, version
	}
	e.blobs[blob] = c
	return c, nil
}

// setState sets the state of an object, "Kind name" or "cluster Kind name", from now on:
// "Failed why", or "" for current.
func (e *edgeClusters) setState(object, state string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ill[object] = state
}

// install gives a cluster an agent.
func (e *edgeClusters) install(cluster string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.mute, cluster)
}

// wantHistory waits until just these things have come and gone since it was last asked.
func (e *edgeClusters) wantHistory(what string, want ...string) {
	e.s.Helper()
	var all []string
	e.s.eventually(what, func() string {
		all = append(all, e.history()...)
		if slices.Equal(all, want) {
			return ""
		}
		return fmt.Sprintf("got\n%s\nwant\n%s", strings.Join(all, "\n"), strings.Join(want, "\n"))
	})
}

// wantAll waits until just these things have come and gone, in any order.
func (e *edgeClusters) wantAll(what string, want ...string) {
	e.s.Helper()
	var all []string
	slices.Sort(want)
	e.s.eventually(what, func() string {
		all = append(all, e.history()...)
		if slices.Equal(slices.Sorted(slices.Values(all)), want) {
			return ""
		}
		return fmt.Sprintf("got\n%s\nwant\n%s", strings.Join(all, "\n"), strings.Join(want, "\n"))
	})
}

// wantOrder waits until these things have come and gone in this order, whatever else has.
func (e *edgeClusters) wantOrder(want ...string) {
	e.s.Helper()
	var all []string
	e.s.eventually("the order", func() string {
		all = append(all, e.history()...)
		rest := all
		for _, w := range want {
			i := slices.Index(rest, w)
			if i < 0 {
				return fmt.Sprintf("%q is missing, or not in its place, in\n%s", w, strings.Join(all, "\n"))
			}
			rest = rest[i+1:]
		}
		return ""
	})
}

// history returns what came and went since it was last asked.
func (e *edgeClusters) history() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := e.seen
	e.seen = nil
	return out
}
