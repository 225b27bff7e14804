package anthos_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/anthos"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/syncertest"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncobjects"
)

var update = flag.Bool("update", false, "rewrite golden files")

func TestPlan(t *testing.T) {
	t.Parallel()
	syncertest.Golden(t, open(t, anthos.Options{}), "testdata/plan.txtar", *update)
}

func TestPlanWithOptions(t *testing.T) {
	t.Parallel()
	b := open(t, anthos.Options{Interval: syncobjects.Duration(15e9), Timeout: syncobjects.Duration(300e9), SecretRef: "emco-git", CASecretRef: "emco-ca"})
	syncertest.Golden(t, b, "testdata/options.txtar", *update)
}

func TestAuthDefaultsByTheURL(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		url  string
		o    anthos.Options
		want string
	}{
		{"https://h/r", anthos.Options{}, "none"},
		{"https://h/r", anthos.Options{SecretRef: "s"}, "token"},
		{"ssh://git@h/r", anthos.Options{SecretRef: "s"}, "ssh"},
		{"https://h/r", anthos.Options{SecretRef: "s", Auth: "ssh"}, "ssh"},
		{"ssh://git@h/r", anthos.Options{Auth: "none"}, "none"},
	} {
		at := syncertest.Target("p+c")
		at.Repo.URL = c.url
		if text := pointerOf(t, open(t, c.o), at); !strings.Contains(text, "    auth: "+c.want+"\n") {
			t.Errorf("%s with %+v: %s\nwant auth %s", c.url, c.o, text, c.want)
		}
	}
}

func confined() syncer.Target {
	at := syncertest.Target("p+c")
	at.Cloud.Confined = true
	return at
}

// A logical cloud with bounds has a RepoSync in its namespace, with rights there alone.
func TestAConfinedLogicalCloudHasARepoSync(t *testing.T) {
	t.Parallel()
	text := pointerOf(t, open(t, anthos.Options{}), confined())
	for _, want := range []string{
		"kind: RepoSync\n", "  name: emco-2175235486952720473\n  namespace: tenant\n", "kind: RoleBinding\n",
		"    name: ns-reconciler-tenant-emco-2175235486952720473-24\n    namespace: config-management-system\n", "  name: admin\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s\nlacks %q", text, want)
		}
	}
}

// Config Sync makes names of names, and takes at most 63 bytes.
func TestNamesOfReconcilersAreValidInKubernetes(t *testing.T) {
	t.Parallel()
	for _, length := range []int{1, 20, 30} {
		at := confined()
		at.Namespace = strings.Repeat("n", length)
		o := syncertest.Object(manifest.ID{Version: "v1", Kind: "ConfigMap", Namespace: at.Namespace, Name: "c"}, nil)
		c, err := open(t, anthos.Options{}).Plan(at, []syncer.App{{Name: "a", Objects: []manifest.Object{o}}})
		if err != nil {
			t.Fatalf("namespace of %d bytes: %v", length, err)
		}
		_, after, _ := strings.Cut(string(c.Edits[0].File)+string(c.Edits[1].File), "name: ns-reconciler-")
		name, _, _ := strings.Cut(after, "\n")
		if len("ns-reconciler-"+name) > 63 {
			t.Errorf("namespace of %d bytes leads to reconciler ns-reconciler-%s", length, name)
		}
	}
	at := confined()
	at.Namespace = strings.Repeat("n", 60)
	o := syncertest.Object(manifest.ID{Version: "v1", Kind: "ConfigMap", Namespace: at.Namespace, Name: "c"}, nil)
	if _, err := open(t, anthos.Options{}).Plan(at, []syncer.App{{Name: "a", Objects: []manifest.Object{o}}}); !errs.Is(err, errs.Invalid) {
		t.Errorf("namespace of 60 bytes: %v, want Invalid", err)
	}
}

// Config Sync would stop all apps of the deployment for one such object.
func TestWhatConfigSyncWouldRefuseIsRefused(t *testing.T) {
	t.Parallel()
	b := open(t, anthos.Options{})
	for _, id := range []manifest.ID{
		{Version: "v1", Kind: "ConfigMap", Namespace: "kube-system", Name: "c"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole", Name: "c"},
	} {
		app := syncer.App{Name: "shop", Objects: []manifest.Object{syncertest.Object(id, nil)}}
		if _, err := b.Plan(confined(), []syncer.App{app}); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "app shop: ") || !strings.Contains(err.Error(), id.Kind) {
			t.Errorf("%s: %v, want Invalid that names app and object", id, err)
		}
		if _, err := b.Plan(syncertest.Target("p+c"), []syncer.App{app}); err != nil {
			t.Errorf("%s in a cloud without bounds: %v", id, err)
		}
	}
	var many []manifest.Object
	for i := range 5001 {
		many = append(many, syncertest.Object(manifest.ID{Version: "v1", Kind: "ConfigMap", Namespace: "n", Name: fmt.Sprint("c", i)}, nil))
	}
	if _, err := b.Plan(syncertest.Target("p+c"), []syncer.App{{Name: "big", Objects: many}}); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "app big") {
		t.Errorf("5,001 objects: %v, want Invalid", err)
	}
}

func TestInvalidOptionsAreRefused(t *testing.T) {
	t.Parallel()
	for _, o := range []anthos.Options{
		{Auth: "cookie"}, {Auth: "token"}, {Auth: "none", SecretRef: "s"}, {SecretRef: "A B"}, {Role: "a/b"}, {CASecretRef: "a/b"},
	} {
		if _, err := anthos.New(o); !errs.Is(err, errs.Invalid) {
			t.Errorf("New(%+v) = %v, want Invalid", o, err)
		}
	}
}

func open(t *testing.T, o anthos.Options) syncer.Backend {
	t.Helper()
	b, err := anthos.New(o)
	if err != nil {
		t.Fatalf("New(%+v): %v", o, err)
	}
	return syncer.Owned(b)
}

// pointerOf returns the pointer file in the plan for one app.
func pointerOf(t *testing.T, b syncer.Backend, at syncer.Target) string {
	t.Helper()
	o := syncertest.Object(manifest.ID{Version: "v1", Kind: "ConfigMap", Namespace: "tenant", Name: "c"}, nil)
	c, err := b.Plan(at, []syncer.App{{Name: "a", Objects: []manifest.Object{o}}})
	if err != nil {
		t.Fatalf("Plan: %v", err)
	}
	for _, e := range c.Edits {
		if e.Path == at.PointerIn("configsync", "") {
			return string(e.File)
		}
	}
	t.Fatal("no pointer file")
	return ""
}
