package dcm_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/contexttest"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/dcm"
)

const (
	lc   = "/v2/projects/p/logical-clouds/lc"
	refs = lc + "/cluster-references"
)

// cloudFixture is a server with a project "p", a registered cluster and the logical cloud "lc".
type cloudFixture struct {
	*resourcetest.Server
	t        *testing.T
	contexts *appcontext.Store
}

func newCloudFixture(t *testing.T) cloudFixture {
	t.Helper()
	c := cloudFixture{t: t, contexts: contexttest.New(t)}
	c.Server = resourcetest.Serve(t, func(r *mux.Router, db *store.DB) {
		actions := dcm.NewClouds(db, c.contexts)
		dcm.NewResources(db, actions).Mount(r)
		actions.Mount(r)
	})
	for _, key := range []store.Key{"projects/p", "cluster-providers/edge/clusters/c1"} {
		if _, err := c.DB.Create(t.Context(), store.Write{Key: key, Body: json.RawMessage("{}")}); err != nil {
			t.Fatal(err)
		}
	}
	c.Run(t, step{Do: "POST /v2/projects/p/logical-clouds", Body: `{"metadata":{"name":"lc"},"spec":{"level":"0"}}`, Status: 201})
	return c
}

func (c cloudFixture) refer() {
	c.t.Helper()
	c.Run(c.t, step{Do: "POST " + refs, Body: `{"metadata":{"name":"r"},"spec":{"clusterProvider":"edge","cluster":"c1"}}`, Status: 201})
}

func TestCloudsLive(t *testing.T) {
	t.Parallel()
	c := newCloudFixture(t)
	c.Run(t,
		step{Do: "GET " + lc + "/status", Status: 200, Text: `"states":{"statusctxid":"","actions":[{"state":"Created"`},
		step{Do: "POST " + lc + "/terminate", Status: 202}, // there is nothing to do, as in upstream EMCO
		step{Do: "POST " + lc + "/instantiate", Status: 400, Text: "No Cluster References associated"},
	)
	c.refer()
	c.Run(t,
		step{Do: "POST " + lc + "/instantiate", Body: `{"metadata":{"name":""}}`, Status: 202, Text: "="},
		step{Do: "POST " + lc + "/instantiate", Status: 409, Text: "not allowed in state Instantiated; allowed in Created, Terminated"},
		step{Do: "GET " + lc + "/status?status=ready", Status: 200, Text: `"deployedStatus":"Instantiated","readyStatus":"Ready"`},
		step{Do: "PUT " + lc, Body: `{"metadata":{"name":"lc"},"spec":{"level":"0"}}`, Status: 201}, // it changes nothing
		step{Do: "GET " + lc, Status: 200, Text: `"spec":{"namespace":"default","level":"0","user":{"userName":"","type":""},"labels":null}`},
		step{Do: "PUT " + lc, Body: `{"metadata":{"name":"lc"},"spec":{"namespace":"default","level":"0","user":{"userName":"","type":""},"labels":null}}`, Status: 201}, // nor does what was read
		step{Do: "PUT " + lc, Body: `{"metadata":{"name":"lc","description":"new"},"spec":{"level":"0"}}`, Status: 409, Text: "terminate it before it is changed"},
		step{Do: "DELETE " + refs + "/r", Status: 204}, // no deployment uses the cloud
	)
	c.refer()
	c.Run(t,
		step{Do: "POST " + lc + "/terminate", Status: 202},
		step{Do: "POST " + lc + "/terminate", Status: 409, Text: "not allowed in state Terminated; allowed in Instantiated"},
		step{Do: "GET " + lc + "/status", Status: 200, Text: `"deployedStatus":"Terminated"`},
		step{Do: "POST " + lc + "/instantiate", Status: 202},
	)
	c.wantHistory("Created 0 false", "Instantiated 1 true", "Terminated 0 true", "Instantiated 2 true")
	c.Run(t,
		step{Do: "DELETE " + refs + "/r", Status: 204},
		step{Do: "DELETE " + lc, Status: 409, Text: "terminate it before it is deleted"},
		step{Do: "POST " + lc + "/terminate", Status: 202},
	)
	doc, err := c.DB.Get(t.Context(), "projects/p/logical-clouds/lc")
	if err != nil {
		t.Fatal(err)
	}
	c.Run(t, step{Do: "DELETE " + lc, Status: 204})
	if _, err := c.contexts.Head(t.Context(), appcontext.HeadID(doc.UID)); !errs.Is(err, errs.NotFound) {
		t.Errorf("the AppContext still has the cloud: %v", err)
	}
}

// wantHistory compares "state revision instance is the cloud's id" of all actions.
func (c cloudFixture) wantHistory(want ...string) {
	c.t.Helper()
	var st v2.Status
	if err := json.Unmarshal([]byte(c.Do(c.t, step{Do: "GET " + lc + "/status"}).Body), &st); err != nil {
		c.t.Fatal(err)
	}
	var got []string
	for _, a := range st.States.Actions {
		got = append(got, fmt.Sprint(a.State, " ", a.Revision, " ", a.Instance != "" && a.Instance == st.States.StatusCtxID))
	}
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		c.t.Errorf("history %q, want %q", got, want)
	}
}

func TestACloudInUseStays(t *testing.T) {
	t.Parallel()
	c := newCloudFixture(t)
	c.refer()
	c.Run(t, step{Do: "POST " + lc + "/instantiate", Status: 202})
	const group = "projects/p/composite-apps/ca/v1/deployment-intent-groups/g"
	doc, err := c.DB.Create(t.Context(), store.Write{Key: group, Refs: []store.Ref{{Key: "projects/p/logical-clouds/lc", Must: true}}})
	if err != nil {
		t.Fatal(err)
	}
	head := appcontext.Head{}
	is := func(change func(*appcontext.Head)) {
		t.Helper()
		to := head
		to.UID, to.State = appcontext.HeadID(doc.UID), appcontext.Instantiated
		change(&to)
		if head, err = c.contexts.ChangeHead(t.Context(), head, to, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name string
		is   func(*appcontext.Head)
		used bool
	}{
		{"approved only", func(h *appcontext.Head) { h.State = appcontext.Approved }, false},
		{"about to be instantiated", func(h *appcontext.Head) { h.Op = &appcontext.Operation{ID: "1", UID: appcontext.HeadID(doc.UID)} }, true},
		{"instantiated", func(h *appcontext.Head) { h.Op, h.Rev = nil, 1 }, true},
		{"stopped", func(h *appcontext.Head) { h.State, h.Stopped = appcontext.InstantiateStopped, true }, true},
		{"moved to another group", func(h *appcontext.Head) { h.State, h.MovedTo = appcontext.Updated, "another" }, false},
		{"terminated", func(h *appcontext.Head) { h.State, h.Gone = appcontext.Terminated, true }, false},
	} {
		is(tt.is)
		a := c.Do(t, step{Do: "POST " + lc + "/terminate"})
		if used := a.Status == 409 && strings.Contains(a.Body, "in use by "+group); used != tt.used || !used && a.Status != 202 {
			t.Errorf("%s: got %d %s, want it in use: %v", tt.name, a.Status, a.Body, tt.used)
		}
		if !tt.used {
			c.Run(t, step{Do: "POST " + lc + "/instantiate", Status: 202})
			continue
		}
	}
}

// A cluster leaves a cloud whose other clusters go on, once no deployment of the cloud has anything there, nor will have.
func TestAClusterLeavesACloudInUse(t *testing.T) {
	t.Parallel()
	c := newCloudFixture(t)
	c.refer()
	c.Run(t, step{Do: "POST " + lc + "/instantiate", Status: 202})
	const group, leave = "projects/p/composite-apps/ca/v1/deployment-intent-groups/g", "DELETE " + refs + "/r"
	doc, err := c.DB.Create(t.Context(), store.Write{Key: group, Refs: []store.Ref{{Key: "projects/p/logical-clouds/lc", Must: true}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, uid := t.Context(), appcontext.HeadID(doc.UID)
	publish := func(head appcontext.Head, clusters ...v2.ClusterKey) appcontext.Head {
		t.Helper()
		places := func(yield func(appcontext.Placement) bool) {
			for _, k := range clusters {
				if !yield(appcontext.Placement{Cluster: k, Apps: map[string]appcontext.Digest{"web": "d"}}) {
					return
				}
			}
		}
		head, err := c.contexts.Publish(ctx, head, appcontext.Revision{Number: head.LastRev + 1}, places)
		if err != nil {
			t.Fatal(err)
		}
		return head
	}
	pair := appcontext.Pair{Key: appcontext.PairKey{Cluster: "edge+c1", Deployment: uid.Deployment(), App: "web"}, Applied: "d", Phase: appcontext.Applied}

	head := appcontext.Head{UID: uid, State: appcontext.Instantiated, Op: &appcontext.Operation{ID: "1", UID: uid, Rev: 1}}
	if head, err = c.contexts.ChangeHead(ctx, appcontext.Head{}, head, nil, nil); err != nil {
		t.Fatal(err)
	}
	c.Run(t, step{Do: leave, Status: 409, Text: "in use by " + group + ", which has an operation under way; wait until it has ended"})
	head = publish(head, "edge+c1", "edge+c2")
	c.Run(t, step{Do: leave, Status: 409, Text: "in use by " + group + ", which has apps on cluster edge+c1; place them elsewhere and update it"})
	if err := c.contexts.PutPairs(ctx, appcontext.Fence{}, []appcontext.Pair{pair}, nil); err != nil {
		t.Fatal(err)
	}
	publish(head, "edge+c2")
	c.Run(t, step{Do: leave, Status: 409, Text: "which has apps on cluster edge+c1"}) // they are still there
	if err := c.contexts.PutPairs(ctx, appcontext.Fence{}, nil, []appcontext.PairKey{pair.Key}); err != nil {
		t.Fatal(err)
	}
	c.Run(t, step{Do: leave, Status: 204})
}

func TestCloudsStop(t *testing.T) {
	t.Parallel()
	c := newCloudFixture(t)
	c.refer()
	c.Run(t,
		step{Do: "POST " + lc + "/stop", Status: 409, Text: "not allowed in state Created; allowed in Instantiated, Terminated"},
		step{Do: "POST " + lc + "/instantiate", Status: 202},
		step{Do: "POST " + lc + "/stop", Status: 200, Text: "="},
		step{Do: "POST " + lc + "/stop", Status: 409},
		step{Do: "GET " + lc + "/status", Status: 200, Text: `"deployedStatus":"InstantiateFailed"`},
		step{Do: "PUT " + lc, Body: `{"metadata":{"name":"lc","description":"new"},"spec":{"level":"0"}}`, Status: 409, Text: "terminate it before it is changed"},
		step{Do: "POST " + lc + "/terminate", Status: 202},
		step{Do: "POST " + lc + "/stop", Status: 200},
		step{Do: "GET " + lc + "/status", Status: 200, Text: `"deployedStatus":"TerminateFailed"`},
		step{Do: "POST " + lc + "/instantiate", Status: 202},
	)
	c.wantHistory("Created 0 false", "Instantiated 1 true", "InstantiateStopped 0 true", "Terminated 0 true", "TerminateStopped 0 true", "Instantiated 2 true")
}

func TestCloudsKnowARequestThatIsRepeated(t *testing.T) {
	t.Parallel()
	c := newCloudFixture(t)
	c.refer()
	const early, key = "Idempotency-Key: early", "Idempotency-Key: k"
	c.Run(t,
		step{Do: "POST " + lc + "/terminate", Header: early, Status: 202}, // there is nothing to do
		step{Do: "POST " + lc + "/instantiate?reason=opening+day", Header: key, Status: 202},
		step{Do: "POST " + lc + "/instantiate", Header: key, Status: 202},
		step{Do: "POST " + lc + "/terminate", Header: early, Status: 202}, // and nothing is done now
		step{Do: "POST " + lc + "/stop", Header: key, Status: 422, Text: "another request, instantiate"},
		step{Do: "GET " + lc + "/status", Status: 200, Text: `"deployedStatus":"Instantiated"`},
	)
	c.wantHistory("Created 0 false", "Created 0 false", "Instantiated 1 true")
	c.Run(t, step{
		Do: "GET " + lc + "/events", Status: 200,
		Text: `"reason":"Instantiated","message":"the logical cloud is Instantiated: opening day","actor":"anonymous","revision":1}]}`,
	})
}

// A deployment starts to use a cloud while the cloud is terminated: exactly one of the
// two requests is refused.
func TestACloudIsNeverTerminatedUnderADeployment(t *testing.T) {
	t.Parallel()
	c := newCloudFixture(t)
	c.refer()
	cloud, err := c.DB.Get(t.Context(), "projects/p/logical-clouds/lc")
	if err != nil {
		t.Fatal(err)
	}
	won := map[bool]int{}
	for round := range 30 {
		c.Run(t, step{Do: "POST " + lc + "/instantiate", Status: 202})
		head, err := c.contexts.Head(t.Context(), appcontext.HeadID(cloud.UID))
		if err != nil {
			t.Fatal(err)
		}
		key := store.Key(fmt.Sprintf("projects/p/composite-apps/ca/v1/deployment-intent-groups/g%d", round))
		group, err := c.DB.Create(t.Context(), store.Write{Key: key, Refs: []store.Ref{{Key: cloud.Key, Must: true}}})
		if err != nil {
			t.Fatal(err)
		}
		to := appcontext.Head{UID: appcontext.HeadID(group.UID), State: appcontext.Instantiated}
		used, terminated := make(chan error, 1), make(chan struct{})
		go func() {
			if round%2 == 1 {
				<-terminated // what was read before is old then
			}
			_, err := c.contexts.ChangeHeads(t.Context(), appcontext.HeadChange{To: to, Needs: &head})
			used <- err
		}()
		status := c.Do(t, step{Do: "POST " + lc + "/terminate"}).Status
		close(terminated)
		use := <-used
		if (use == nil) == (status == 202) || use != nil && !errors.Is(use, appcontext.ErrOvertaken) || status != 202 && status != 409 {
			t.Fatalf("round %d: the terminate was answered %d, and the use %v", round, status, use)
		}
		won[use == nil]++
		if use == nil {
			gone := to
			gone.State, gone.Gone = appcontext.Terminated, true
			if to, err = c.contexts.Head(t.Context(), appcontext.HeadID(group.UID)); err == nil {
				_, err = c.contexts.ChangeHead(t.Context(), to, gone, nil, nil)
			}
			if err != nil {
				t.Fatal(err)
			}
			c.Run(t, step{Do: "POST " + lc + "/terminate", Status: 202})
		}
	}
	if won[false] < 15 {
		t.Errorf("the terminate was first %d times only", won[false])
	}
}

func TestUnknownClouds(t *testing.T) {
	t.Parallel()
	c := newCloudFixture(t)
	const none = "/v2/projects/p/logical-clouds/none"
	c.Run(t,
		step{Do: "POST " + none + "/instantiate", Status: 404, Text: "=LogicalCloud not found"},
		step{Do: "POST " + none + "/terminate", Status: 404, Text: "=LogicalCloud not found"},
		step{Do: "GET " + none + "/status", Status: 404, Text: "=LogicalCloud not found"},
		step{Do: "GET " + lc + "/instantiate", Status: 405},
	)
}
