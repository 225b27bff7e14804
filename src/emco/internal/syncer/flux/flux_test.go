package flux_test

import (
	"flag"
	"strings"
	"testing"
	"time"

	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	"sigs.k8s.io/yaml"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/flux"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/syncertest"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncobjects"
)

var update = flag.Bool("update", false, "rewrite golden files")

func TestPlan(t *testing.T) {
	t.Parallel()
	b := open(t, flux.Options{Interval: syncobjects.Duration(30e9), SecretRef: "emco-git", ServiceAccount: "tenant"})
	syncertest.Golden(t, b, "testdata/plan.txtar", *update)
}

func TestPlanWithoutOptions(t *testing.T) {
	t.Parallel()
	syncertest.Golden(t, open(t, flux.Options{}), "testdata/defaults.txtar", *update)
}

// Flux puts the name of a Kustomization on all objects as the value of a label, and
// upstream's names are wider than Kubernetes' names.
func TestNamesOfPointersAreValidInKubernetes(t *testing.T) {
	t.Parallel()
	b := open(t, flux.Options{})
	apps := []string{"web", "Web", "we_b", "we-b", strings.Repeat("long", 30) + "1", strings.Repeat("long", 30) + "2"}
	var desired []syncer.App
	for _, name := range apps {
		o := syncertest.Object(manifest.ID{Version: "v1", Kind: "ConfigMap", Namespace: "n", Name: "c"}, nil)
		desired = append(desired, syncer.App{Name: name, Objects: []manifest.Object{o}})
	}
	text := pointerOf(t, b, desired, "kust")
	seen := map[string]bool{}
	for document := range strings.SplitSeq(text, "---\n") {
		var o struct{ Metadata struct{ Name string } }
		if err := yaml.Unmarshal([]byte(document), &o); err != nil {
			t.Fatal(err)
		}
		name := o.Metadata.Name
		if len(name) > 63 || strings.ToLower(name) != name || strings.ContainsAny(name, "_.") || seen[name] {
			t.Errorf("Kustomization is called %q: want a name of its own that is a DNS label", name)
		}
		seen[name] = true
	}
	if len(seen) != len(apps) {
		t.Errorf("there are %d Kustomizations, want %d", len(seen), len(apps))
	}
}

func TestAnAppWithoutObjectsHasNoKustomization(t *testing.T) {
	t.Parallel()
	o := syncertest.Object(manifest.ID{Version: "v1", Kind: "ConfigMap", Namespace: "n", Name: "c"}, nil)
	text := pointerOf(t, open(t, flux.Options{}), []syncer.App{{Name: "empty"}, {Name: "full", Objects: []manifest.Object{o}}}, "kust")
	if strings.Contains(text, "empty") || !strings.Contains(text, "app/full") {
		t.Errorf("Kustomizations are for the wrong apps:\n%s", text)
	}
}

// Flux reads a branch often at little cost; a comparison of the cluster with all objects can be rare.
func TestDriftHasAnIntervalOfItsOwn(t *testing.T) {
	t.Parallel()
	o := syncertest.Object(manifest.ID{Version: "v1", Kind: "ConfigMap", Namespace: "n", Name: "c"}, nil)
	app := []syncer.App{{Name: "a", Objects: []manifest.Object{o}}}
	for drift, want := range map[syncobjects.Duration]string{0: "interval: 5s\n", syncobjects.Duration(600e9): "interval: 10m0s\n"} {
		b := open(t, flux.Options{Interval: syncobjects.Duration(5e9), Drift: drift})
		if source := pointerOf(t, b, app, ""); !strings.Contains(source, "  interval: 5s\n") {
			t.Errorf("with driftInterval %v the source is not read every 5s:\n%s", time.Duration(drift), source)
		}
		if text := pointerOf(t, b, app, "kust"); !strings.Contains(text, "  "+want) {
			t.Errorf("with driftInterval %v the Kustomization lacks %q:\n%s", time.Duration(drift), want, text)
		}
	}
}

// The schema of a GitRepository takes no hours.
func TestALongTimeoutIsCutForTheSource(t *testing.T) {
	t.Parallel()
	b := open(t, flux.Options{Timeout: syncobjects.Duration(2 * 3600e9)})
	o := syncertest.Object(manifest.ID{Version: "v1", Kind: "ConfigMap", Namespace: "n", Name: "c"}, nil)
	var repo sourcev1.GitRepository
	if err := yaml.UnmarshalStrict([]byte(pointerOf(t, b, []syncer.App{{Name: "a", Objects: []manifest.Object{o}}}, "")), &repo); err != nil {
		t.Fatal(err)
	}
	if got := repo.Spec.Timeout.Duration.String(); strings.Contains(got, "h") {
		t.Errorf("timeout of the GitRepository is %s, want less than an hour", got)
	}
}

func TestPlanWithEverything(t *testing.T) {
	t.Parallel()
	b := open(t, flux.Options{DecryptionProvider: "sops", DecryptionSecretRef: "sops-age", Suspend: true, DependsOn: "native"})
	syncertest.Golden(t, b, "testdata/everything.txtar", *update)
}

// Flux may try an app before the one that defines its kinds: it must try again within seconds.
func TestF03AKindThatAnotherAppDefinesIsTriedAgainSoon(t *testing.T) {
	t.Parallel()
	object := func(id manifest.ID) []manifest.Object { return []manifest.Object{syncertest.Object(id, nil)} }
	apps := []syncer.App{
		{Name: "defines", CRDs: object(manifest.ID{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition", Name: "widgets.example.org"})},
		{Name: "has", Objects: object(manifest.ID{Group: "example.org", Version: "v1", Kind: "Widget", Namespace: "n", Name: "w"})},
		{Name: "other", Objects: object(manifest.ID{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "n", Name: "d"})},
	}
	for retry, want := range map[syncobjects.Duration]string{0: "1m0s 5s 1m0s", syncobjects.Duration(2e9): "2s 2s 2s"} {
		var got []string
		for line := range strings.Lines(pointerOf(t, open(t, flux.Options{Retry: retry}), apps, "kust")) {
			if value, ok := strings.CutPrefix(strings.TrimSpace(line), "retryInterval: "); ok {
				got = append(got, value)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("with retryInterval %v: the apps have %v, want %s", time.Duration(retry), got, want)
		}
	}
}

// configured returns apps with one object each, by name.
func configured(names ...string) []syncer.App {
	var out []syncer.App
	for _, name := range names {
		o := syncertest.Object(manifest.ID{Version: "v1", Kind: "ConfigMap", Namespace: "n", Name: "c"}, nil)
		out = append(out, syncer.App{Name: name, Objects: []manifest.Object{o}})
	}
	return out
}

func TestTheAccountOfTheLogicalCloudIsUsed(t *testing.T) {
	t.Parallel()
	target := syncertest.Target("p+c")
	target.Cloud.Account = "east"
	for key, want := range map[string]string{"": "east", "own": "own"} {
		c, err := open(t, flux.Options{ServiceAccount: key}).Plan(target, configured("a"))
		if err != nil {
			t.Fatal(err)
		}
		if text := string(c.Edits[2].File); !strings.Contains(text, "serviceAccountName: "+want+"\n") {
			t.Errorf("with key %q: %s\nwant account %s", key, text, want)
		}
	}
}

func TestDependenciesAreRepeatedOnlyOnRequest(t *testing.T) {
	t.Parallel()
	apps := configured("web", "db", "cache")
	apps[0].DependsOn = []syncer.Dependency{{App: "db", Ready: true}, {App: "cache"}, {App: "elsewhere"}}
	if text := pointerOf(t, open(t, flux.Options{}), apps, "kust"); strings.Contains(text, "dependsOn") || strings.Contains(text, "wait:") {
		t.Errorf("without the key:\n%s", text)
	}
	text := pointerOf(t, open(t, flux.Options{DependsOn: "native"}), apps, "kust")
	want := "  dependsOn:\n    - name: emco-2175235486952720473-cache\n    - name: emco-2175235486952720473-db\n"
	if !strings.Contains(text, want) || strings.Contains(text, "elsewhere") || strings.Count(text, "wait: true") != 1 {
		t.Errorf("got %s\nwant %s, and that db alone is waited for", text, want)
	}
}

func TestOptionsThatTheEdgeWouldRefuseAreRefused(t *testing.T) {
	t.Parallel()
	for _, o := range []flux.Options{
		{SecretRef: "no such name"},
		{ServiceAccount: "A/B"},
		{DependsOn: "always"},
		{DecryptionProvider: "rot13"},
		{DecryptionSecretRef: "s"},
		{DecryptionProvider: "sops", DecryptionSecretRef: "A B"},
	} {
		if _, err := flux.New(o); !errs.Is(err, errs.Invalid) {
			t.Errorf("New(%+v) = %v, want Invalid", o, err)
		}
	}
}

func open(t *testing.T, o flux.Options) syncer.Backend {
	t.Helper()
	b, err := flux.New(o)
	if err != nil {
		t.Fatalf("New(%+v): %v", o, err)
	}
	return syncer.Owned(b)
}

// pointerOf returns the content of a pointer file in the plan for desired.
func pointerOf(t *testing.T, b syncer.Backend, desired []syncer.App, prefix string) string {
	t.Helper()
	target := syncertest.Target("p+c")
	c, err := b.Plan(target, desired)
	if err != nil {
		t.Fatalf("Plan: %v", err)
	}
	for _, e := range c.Edits {
		if e.Path == target.Pointer(prefix) {
			return string(e.File)
		}
	}
	t.Fatalf("no edit of %s", target.Pointer(prefix))
	return ""
}
