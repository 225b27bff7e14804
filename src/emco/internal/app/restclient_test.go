package app_test

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/rest"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// notInRest are the routes that package rest leaves out, with the reason.
var notInRest = map[string]string{
	"POST /v2/policy/agents/{agent}":                        "the same as POST of the collection",
	"POST " + groupRoute + "/policy-intents/{policyIntent}": "the same as POST of the collection",
	"POST " + clusterRoute + "/monitor/report":              "for agents, which use package status",
	"POST /v2/webhooks/git":                                 "for Git servers",
	"GET /v2/health":                                        "for load balancers of upstream EMCO; /readyz says more",
	"GET /v2/views/stream":                                  "server-sent events, for web pages; programs watch a status or follow events",
	"GET /v2/auth/login":                                    "for browsers; programs send a bearer token",
	"GET /v2/auth/callback":                                 "for browsers; programs send a bearer token",
	"POST /v2/auth/logout":                                  "for browsers; programs send a bearer token",
}

func TestPackageRestHasEveryRoute(t *testing.T) {
	t.Parallel()
	have := map[string]string{} // the documents of package rest, by method and path
	for _, route := range rest.All() {
		for _, op := range route.Operations() {
			key := op.Method + " /v2/" + op.Path
			if _, twice := have[key]; twice {
				t.Errorf("package rest has %s twice", key)
			}
			have[key] = op.Document
		}
	}
	excepted := maps.Clone(notInRest)
	err := declaredRoutes().Walk(func(route *mux.Route, _ *mux.Router, _ []*mux.Route) error {
		template := web.Template(route)
		if strings.HasSuffix(template, "/") { // upstream's second form of a query
			return nil
		}
		methods, err := route.GetMethods()
		for _, method := range methods {
			key := method + " " + template
			document, ok := have[key]
			delete(have, key)
			_, left := excepted[key]
			delete(excepted, key)
			switch described, is := route.GetHandler().(resource.Described); {
			case ok == left:
				t.Errorf("%s: package rest has it: %v, notInRest says why it has not: %v", key, ok, left)
			case ok && is && document != "" && document != described.Describe().Document:
				t.Errorf("%s: package rest has documents of type %s, the server of type %s", key, document, described.Describe().Document)
			case ok && !is && document != "":
				t.Errorf("%s is no document", key)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(have) > 0 || len(excepted) > 0 {
		t.Errorf("the server does not have %v, nor the exceptions %v", slices.Sorted(maps.Keys(have)), slices.Sorted(maps.Keys(excepted)))
	}
}

// headed returns the head of a document.
func headed(name string) v2.Named { return v2.Named{Metadata: v2.Metadata{Name: name}} }

// The routes of package rest are those of a server that runs: documents, files, changes at the same time, lists of
// several pages, and dry runs.
func TestPackageRestDrivesAServer(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	ctx := t.Context()
	_, err := rest.Projects.Create(ctx, s.api, v2.Project{Named: headed("shop")})
	s.must("create a project", err)
	_, err = rest.Projects.Update(ctx, s.api, func(p *v2.Project) error {
		p.Metadata.Description = "mine"
		other := *p
		other.Metadata.Description = "another's"
		_, err := rest.Projects.Replace(ctx, s.api, other, "shop")
		return err
	}, "shop")
	if !errs.Is(err, errs.Conflict) {
		t.Errorf("an update while another replaces the document: %v, want Conflict", err)
	}
	_, err = rest.Projects.Update(ctx, s.api, func(p *v2.Project) error { p.Metadata.Description = "mine"; return nil }, "shop")
	s.must("update the project", err)
	if p, err := rest.Projects.Get(ctx, s.api, "shop"); err != nil || p.Metadata.Description != "mine" {
		t.Errorf("the project is %+v, %v", p, err)
	}

	app := v2.CompositeApp{Named: headed("till"), Spec: v2.CompositeAppSpec{Version: "v1"}}
	_, err = rest.CompositeApps.Create(ctx, s.api, app, "shop")
	s.must("create a composite app", err)
	chart := s.chart("web", configMap)
	_, err = rest.Apps.Upload(ctx, s.api, v2.App{Named: headed("web")}, client.File{Part: client.FilePart, Name: client.FileName, Data: chart}, "shop", "till", "v1")
	s.must("upload an app", err)
	var got bytes.Buffer
	s.must("download the app", rest.Apps.Download(ctx, s.api, &got, "shop", "till", "v1", "web"))
	if !bytes.Equal(got.Bytes(), chart) {
		t.Errorf("the app has a file of %d bytes, want the %d that were sent", got.Len(), len(chart))
	}

	_, err = rest.LogicalClouds.Create(ctx, s.api, v2.LogicalCloud{Named: headed("stores"), Spec: v2.LogicalCloudSpec{Level: v2.LevelAdmin}}, "shop")
	s.must("create a logical cloud", err)
	for _, name := range []string{"k1", "k2"} {
		_, err = rest.CloudKVs.Create(ctx, s.api, v2.KV{Named: headed(name), Spec: v2.KVSpec{KV: []map[string]v2.Scalar{{"a": "b"}}}}, "shop", "stores")
		s.must("create "+name, err)
	}
	var names []string
	for kv, err := range rest.CloudKVs.All(ctx, s.api, "shop", "stores") {
		s.must("list", err)
		names = append(names, kv.Metadata.Name)
	}
	if !slices.Equal(names, []string{"k1", "k2"}) {
		t.Errorf("the list has %q", names)
	}
	s.must("delete", rest.CloudKVs.Delete(ctx, s.api, "shop", "stores", "k1"))
	if _, err := rest.CloudKVs.Get(ctx, s.api, "shop", "stores", "k1"); !errs.Is(err, errs.NotFound) {
		t.Errorf("a deleted document: %v, want NotFound", err)
	}
	if who, err := rest.WhoAmI.Get(ctx, s.api, nil); err != nil || who.Via != "off" {
		t.Errorf("the caller is %+v, %v", who, err)
	}
	if _, err := rest.StopCloud.DryRun(ctx, s.api, client.None, nil, "shop", "stores"); !errs.Is(err, errs.Conflict) {
		t.Errorf("a dry run that the state refuses: %v, want Conflict", err)
	}
}
