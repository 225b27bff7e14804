package app_test

import (
	"bytes"
	"io"
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
	"POST /v2/auth/backchannel-logout":                      "for issuers",
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
	_, err = rest.Apps.Upload(ctx, s.api, v2.App{Named: headed("web")}, []client.File{{Part: client.FilePart, Name: client.FileName, Data: chart}}, "shop", "till", "v1")
	s.must("upload an app", err)
	var got bytes.Buffer
	s.must("download the app", rest.Apps.Download(ctx, s.api, func(_ string, content io.Reader) error {
		_, err := got.ReadFrom(content)
		return err
	}, "shop", "till", "v1", "web"))
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

// Programs send, change and read all files of a document, and lose none that they do not mean to.
func TestPackageRestKeepsFilesApart(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	ctx := t.Context()
	s.fleet("a")
	s.onboard("web")
	g := s.group("autumn", appPlaces{"web": {"a"}})
	s.expect(201, "POST", g.path+"/generic-k8s-intents", named("extra"))
	s.expect(201, "POST", g.path+"/generic-k8s-intents/extra/resources",
		`{"metadata":{"name":"settings"},"spec":{"app":"web","newObject":"true","resourceGVK":{"apiVersion":"v1","kind":"ConfigMap","name":"settings"}}}`)
	at := []string{"shop", "till", "v1", "autumn", "extra", "settings"}
	path := append(slices.Clone(at), "two")
	doc := v2.Customization{Named: headed("two"), Spec: v2.CustomizationSpec{ClusterSpecific: "false"}}
	file := func(name, text string) client.File {
		return client.File{Part: client.FilesPart, Name: name, Data: []byte(text)}
	}
	want := func(when string, want map[string]string) {
		t.Helper()
		got := map[string]string{}
		s.must("download "+when, rest.Customizations.Download(ctx, s.api, func(name string, content io.Reader) error {
			text, err := io.ReadAll(content)
			got[name] = string(text)
			return err
		}, path...))
		if !maps.Equal(got, want) {
			t.Errorf("the files %s are %q, want %q", when, got, want)
		}
	}
	_, err := rest.Customizations.Upload(ctx, s.api, doc, []client.File{file("a.txt", "one\n"), file("b.txt", "two\n")}, at...)
	s.must("upload two files", err)
	want("after the upload", map[string]string{"a.txt": "one\n", "b.txt": "two\n"})

	_, err = rest.Customizations.Update(ctx, s.api, func(d *v2.Customization) error {
		d.Metadata.Description = "changed"
		_, err := rest.Customizations.Exchange(ctx, s.api, doc, []client.File{file("b.txt", "three\n")}, path...)
		return err
	}, []client.File{file("c.txt", "four\n")}, path...)
	if !errs.Is(err, errs.Conflict) {
		t.Errorf("an update while another exchanges the files: %v, want Conflict", err)
	}
	want("after the exchange", map[string]string{"b.txt": "three\n"})
	_, err = rest.Customizations.Update(ctx, s.api, func(d *v2.Customization) error { d.Metadata.Description = "changed"; return nil },
		[]client.File{file("b.txt", "three\n"), file("c.txt", "four\n")}, path...)
	s.must("update the document and its files", err)
	want("after the update", map[string]string{"b.txt": "three\n", "c.txt": "four\n"})

	stage := func(string, io.Reader) error { return errs.New(errs.Internal, "full") }
	if err := rest.Customizations.Download(ctx, s.api, stage, path...); !errs.Is(err, errs.Internal) {
		t.Errorf("a download that its reader ends: %v", err)
	}
	if err := rest.Customizations.Download(ctx, s.api, stage, append(slices.Clone(at), "nowhere")...); !errs.Is(err, errs.NotFound) {
		t.Errorf("the files of no document: %v, want NotFound", err)
	}
	if err := rest.Clusters.Download(ctx, s.api, stage, "edge", "a"); err != nil {
		t.Errorf("a document without files: %v", err)
	}
}

// The plan of an action by classes gives programs what the queries of its parts need.
func TestPackageRestReadsPlansByClasses(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	ctx := t.Context()
	s.fleet("a")
	s.onboard("web")
	s.group("autumn", appPlaces{"web": {"a"}})
	p, err := rest.InstantiateDeployment.Classes(ctx, s.api, client.None, nil, "shop", "till", "v1", "autumn")
	s.must("read the classes", err)
	if len(p.Apps) != 1 || len(p.Apps[0].Classes) != 1 {
		t.Fatalf("the classes are %+v", p)
	}
	class := []string{"shop", "till", "v1", "autumn", strings.TrimPrefix(p.Digest, "sha256:"), p.Apps[0].Classes[0].ID}
	clusters, err := rest.PlanClusters.Get(ctx, s.api, nil, class...)
	if err != nil || len(clusters.Items) != 1 || clusters.Items[0].Cluster != "edge+a" {
		t.Errorf("the clusters of the class are %+v, %v", clusters, err)
	}
	var diff bytes.Buffer
	if err := rest.PlanDiff.Copy(ctx, s.api, &diff, nil, class...); err != nil || !strings.Contains(diff.String(), "kind: ConfigMap") {
		t.Errorf("the diff of the class is %q, %v", &diff, err)
	}
	_, err = rest.InstantiateDeployment.Do(ctx, s.api, client.None, rest.ActionOptions{IfPlan: p.Digest}, "shop", "till", "v1", "autumn")
	s.must("carry out the plan", err)
}
