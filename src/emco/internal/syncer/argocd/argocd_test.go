package argocd_test

import (
	"flag"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/argocd"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/syncertest"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncobjects"
)

var update = flag.Bool("update", false, "rewrite golden files")

func TestPlan(t *testing.T) {
	t.Parallel()
	syncertest.Golden(t, open(t, argocd.Options{}), "testdata/plan.txtar", *update)
}

func TestPlanWithOptions(t *testing.T) {
	t.Parallel()
	off := syncobjects.Flag(false)
	b := open(t, argocd.Options{
		Retry: syncobjects.Duration(15e9), Namespace: "gitops", Name: "edge-1", Project: "shop", CreateNamespace: true, ServerSideApply: &off,
	})
	syncertest.Golden(t, b, "testdata/options.txtar", *update)
}

// object is what the tests look at.
type object struct {
	Kind     string
	Metadata struct {
		Name        string
		Annotations map[string]string
	}
	Spec struct {
		Project      string
		Destination  map[string]string
		Destinations []map[string]string
		Cluster      []map[string]string `json:"clusterResourceWhitelist"`
		Forbidden    []map[string]string `json:"namespaceResourceBlacklist"`
	}
}

// objects returns the objects of the pointer file in the plan for apps.
func objects(t *testing.T, b syncer.Backend, at syncer.Target, apps []syncer.App) []object {
	t.Helper()
	c, err := b.Plan(at, apps)
	if err != nil {
		t.Fatalf("Plan: %v", err)
	}
	var out []object
	for document := range strings.SplitSeq(string(c.Edits[0].File), "---\n") {
		var o object
		if err := yaml.Unmarshal([]byte(document), &o); err != nil {
			t.Fatal(err)
		}
		out = append(out, o)
	}
	return out
}

func configured(names ...string) []syncer.App {
	var out []syncer.App
	for _, name := range names {
		o := syncertest.Object(manifest.ID{Version: "v1", Kind: "ConfigMap", Namespace: "n", Name: "c"}, nil)
		out = append(out, syncer.App{Name: name, Objects: []manifest.Object{o}})
	}
	return out
}

// An admin's cloud may do everything on the cluster, a tenant's only in its namespace.
func TestProjectsHoldTheBoundsOfTheLogicalCloud(t *testing.T) {
	t.Parallel()
	at := syncertest.Target("p+c")
	admin := objects(t, open(t, argocd.Options{}), at, configured("a"))
	at.Cloud.Confined = true
	tenant := objects(t, open(t, argocd.Options{}), at, configured("a"))
	if p := admin[0]; p.Kind != "AppProject" || p.Spec.Destinations[0]["namespace"] != "*" || len(p.Spec.Cluster) != 1 || len(p.Spec.Forbidden) != 0 {
		t.Errorf("project of an admin's cloud is %+v", p)
	}
	if p := tenant[0]; p.Spec.Destinations[0]["namespace"] != "tenant" || len(p.Spec.Cluster) != 0 || len(p.Spec.Forbidden) != 2 {
		t.Errorf("project of a tenant's cloud is %+v", p)
	}
	if tenant[1].Spec.Project != tenant[0].Metadata.Name || admin[0].Metadata.Name == tenant[0].Metadata.Name {
		t.Errorf("the Application is in %s, its project is %s; that of other bounds %s", tenant[1].Spec.Project, tenant[0].Metadata.Name, admin[0].Metadata.Name)
	}
}

func TestDeploymentsOfALogicalCloudShareItsProject(t *testing.T) {
	t.Parallel()
	one, two, other := syncertest.Target("p+c"), syncertest.Target("p+c"), syncertest.Target("p+c")
	two.Deployment, other.Cloud.Name = "8", "shop+west"
	b := open(t, argocd.Options{})
	name := func(at syncer.Target) string { return objects(t, b, at, configured("a"))[0].Metadata.Name }
	if name(one) != name(two) || name(one) == name(other) || !strings.HasPrefix(name(one), "emco-shop-east-") {
		t.Errorf("projects are %s, %s and %s; want the first two equal", name(one), name(two), name(other))
	}
}

// One Argo CD may serve many clusters: names must not meet in its namespace.
func TestNamesOfRemoteClustersStayApart(t *testing.T) {
	t.Parallel()
	one := objects(t, open(t, argocd.Options{Name: "edge-1"}), syncertest.Target("p+c1"), configured("a"))
	two := objects(t, open(t, argocd.Options{Name: "edge-2"}), syncertest.Target("p+c2"), configured("a"))
	for i := range one {
		if one[i].Metadata.Name == two[i].Metadata.Name {
			t.Errorf("%s %s is for two clusters", one[i].Kind, one[i].Metadata.Name)
		}
	}
	if got := one[1].Spec.Destination["name"]; got != "edge-1" {
		t.Errorf("destination is %q", got)
	}
}

func TestWavesFollowDependenciesOnRequest(t *testing.T) {
	t.Parallel()
	apps := configured("cache", "db", "web")
	apps[2].DependsOn = []syncer.Dependency{{App: "db"}, {App: "elsewhere"}}
	apps[1].DependsOn = []syncer.Dependency{{App: "cache", Ready: true}}
	waves := func(o argocd.Options) (out []string) {
		for _, o := range objects(t, open(t, o), syncertest.Target("p+c"), apps)[1:] {
			out = append(out, o.Metadata.Annotations["argocd.argoproj.io/sync-wave"])
		}
		return out
	}
	if got := strings.Join(waves(argocd.Options{}), ","); got != ",," {
		t.Errorf("without the key the waves are %q, want none", got)
	}
	if got := strings.Join(waves(argocd.Options{DependsOn: "native"}), ","); got != ",1,2" {
		t.Errorf("the waves are %q, want none, 1 and 2", got)
	}
	apps[0].DependsOn = []syncer.Dependency{{App: "web"}} // refused long before
	if got := waves(argocd.Options{DependsOn: "native"}); len(got) != 3 {
		t.Errorf("in a circle the waves are %q", got)
	}
}

func TestAnAppWithoutObjectsHasNoApplication(t *testing.T) {
	t.Parallel()
	got := objects(t, open(t, argocd.Options{}), syncertest.Target("p+c"), append(configured("full"), syncer.App{Name: "empty"}))
	if len(got) != 2 {
		t.Errorf("there are %d objects, want the project and one Application", len(got))
	}
}

func TestOptionsThatTheEdgeWouldRefuseAreRefused(t *testing.T) {
	t.Parallel()
	for _, o := range []argocd.Options{
		{Namespace: "A B"}, {Project: "a/b"}, {Name: "a", Server: "https://a"}, {DependsOn: "always"},
	} {
		if _, err := argocd.New(o); !errs.Is(err, errs.Invalid) {
			t.Errorf("New(%+v) = %v, want Invalid", o, err)
		}
	}
}

func open(t *testing.T, o argocd.Options) syncer.Backend {
	t.Helper()
	b, err := argocd.New(o)
	if err != nil {
		t.Fatalf("New(%+v): %v", o, err)
	}
	return syncer.Owned(b)
}
