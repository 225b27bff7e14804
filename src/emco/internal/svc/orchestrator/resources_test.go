package orchestrator_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gorilla/mux"
	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/orchestrator"
	"github.com/emco-orchestrator/emco/src/emco/internal/tarball"
)

type step = resourcetest.Step

func serveDocs(t *testing.T, guards resource.Guards) *resourcetest.Server {
	return resourcetest.Serve(t, func(r *mux.Router, db *store.DB) {
		orchestrator.Resources{DB: db, Archives: tarball.Default(), Groups: guards}.Mount(r)
	})
}

func named(name string) string { return `{"metadata":{"name":"` + name + `"}}` }

// packed makes a gzip-compressed tar of files.
func packed(t *testing.T, files map[string]string) string {
	t.Helper()
	var buf bytes.Buffer
	zip := gzip.NewWriter(&buf)
	w := tar.NewWriter(zip)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		content := files[name]
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.String()
}

func chart(t *testing.T, app string) string {
	return packed(t, map[string]string{app + "/Chart.yaml": "apiVersion: v2\nname: " + app + "\nversion: 0.1.0\n"})
}

const (
	ca   = "/v2/projects/p/composite-apps/ca/v1"
	digs = ca + "/deployment-intent-groups"
)

// onboarded are the steps to a composite app with the apps a and b.
func onboarded(t *testing.T) []step {
	return []step{
		{Do: "POST /v2/projects", Body: named("p"), Status: 201},
		{Do: "POST /v2/projects/p/composite-apps", Body: `{"metadata":{"name":"ca"},"spec":{"compositeAppVersion":"v1"}}`, Status: 201},
		{Do: "POST " + ca + "/apps", Body: named("a"), File: chart(t, "a"), Status: 201},
		{Do: "POST " + ca + "/apps", Body: named("b"), File: chart(t, "b"), Status: 201},
	}
}

func TestProjectsAndCompositeApps(t *testing.T) {
	t.Parallel()
	const all = "/v2/projects/p/composite-apps"
	v1 := `{"metadata":{"name":"ca"},"spec":{"compositeAppVersion":"v1"}}`
	serveDocs(t, resource.Guards{}).Run(t,
		step{Do: "GET /v2/projects", Status: 200, Text: "=[]"},
		step{Do: "DELETE /v2/projects/p", Status: 404, Text: "=Project not found"},
		step{Do: "GET " + all, Status: 404, Text: "=Project not found"},
		step{Do: "POST " + all, Body: v1, Status: 409, Text: "=Cannot perform requested operation. Parent resource not found: projects/p"},
		step{Do: "POST /v2/projects", Body: named("p"), Status: 201},
		step{Do: "PUT /v2/projects/p", Body: named("p"), Status: 200},
		step{Do: "POST " + all, Body: named("ca"), Status: 400, Text: "spec.compositeAppVersion: missing"},
		step{Do: "POST " + all, Body: v1, Status: 201, Text: `"spec":{"compositeAppVersion":"v1"}`},
		step{Do: "POST " + all, Body: v1, Status: 409, Text: "=CompositeApp already exists"},
		step{Do: "POST " + all, Body: strings.Replace(v1, "v1", "v2", 1), Status: 201},
		step{Do: "GET " + all, Status: 200, Text: `"compositeAppVersion":"v2"}}]`},
		step{Do: "GET " + all + "?limit=1", Status: 200, Text: `"compositeAppVersion":"v1"}}]`},
		step{Do: "GET " + all + "/ca/v3", Status: 404, Text: "=CompositeApp not found"},
		step{Do: "PUT " + all + "/ca/v1", Body: strings.Replace(v1, "v1", "v2", 1), Status: 400, Text: "=Mismatched name in PUT request"},
		step{Do: "PUT " + all + "/ca/v1", Body: `{"metadata":{"description":"d"}}`, Status: 201, Text: `"spec":{"compositeAppVersion":"v1"}`},
		step{Do: "DELETE /v2/projects/p", Status: 409, Text: "Cannot delete parent without deleting child references first"},
		step{Do: "DELETE " + all + "/ca/v2", Status: 204},
	)
}

func TestAppsAndProfiles(t *testing.T) {
	t.Parallel()
	s := serveDocs(t, resource.Guards{})
	const profiles = ca + "/composite-profiles/cp/profiles"
	profile := packed(t, map[string]string{"manifest.yaml": "version: v1\ntype:\n  values: v.yaml\n", "v.yaml": "a: 1\n"})
	ofA := `{"metadata":{"name":"pa"},"spec":{"app-name":"a"}}`
	package1 := chart(t, "a")
	s.Run(t, onboarded(t)...)
	s.Run(t,
		step{Do: "POST " + ca + "/apps", Body: named("x"), Status: 422, Text: `request Content-Type isn't multipart/form-data: send multipart/form-data with the document as part "metadata" and its file as part "file"`},
		step{Do: "POST " + ca + "/apps", Body: named("x"), File: "no archive", Status: 422, Text: "Error in file format"},
		step{Do: "POST " + ca + "/apps", Body: named("x"), File: chart(t, "y"), Status: 400, Text: "x/Chart.yaml"},
		step{Do: "POST " + ca + "/apps", Body: named("x"), File: packed(t, map[string]string{"../x": ""}), Status: 422, Text: "Error in file format"},
		step{Do: "POST " + ca + "/apps", Body: named("A"), File: chart(t, "A"), Status: 409, Text: ": a"},
		step{Do: "PUT " + ca + "/apps/a", Body: named("a"), File: package1, Status: 201},
		step{Do: "GET " + ca + "/apps/a", Header: "Accept: application/octet-stream", Status: 200, Text: "=" + package1},
		step{Do: "GET " + ca + "/apps/a", Header: "Accept: multipart/form-data", Status: 200, Text: `filename="fileContent"`},
		step{Do: "GET " + ca + "/apps/a", Header: "Accept: multipart/form-data;q=0.1, application/json", Status: 200, Text: `{"metadata":`},
		step{Do: "GET " + ca + "/apps/a", Header: "Accept: image/png", Status: 406},
		step{Do: "POST " + profiles, Body: ofA, File: profile, Status: 409, Text: "Parent resource not found"},
		step{Do: "POST " + ca + "/composite-profiles", Body: named("cp"), Status: 201},
		step{Do: "GET " + profiles + "?app=a", Status: 404, Text: "=AppProfile not found"},
		step{Do: "POST " + profiles, Body: ofA, File: chart(t, "a"), Status: 400, Text: "manifest.yaml"},
		step{Do: "POST " + profiles, Body: ofA, File: profile, Status: 201, Text: `"spec":{"app":"a"}`},
		step{Do: "POST " + profiles, Body: ofA, File: profile, Status: 409, Text: "=AppProfile already exists"},
		step{Do: "POST " + profiles, Body: strings.Replace(ofA, "pa", "pb", 1), File: profile, Status: 409, Text: "=App already has an AppProfile: pa"},
		step{Do: "GET " + profiles + "?app=a", Status: 200, Text: `"name":"pa"`},
		step{Do: "GET " + profiles + "?app=a", Header: "Accept: application/octet-stream", Status: 200, Text: "=" + profile},
		step{Do: "DELETE " + ca + "/apps/a", Status: 409, Text: "Cannot delete without deleting or updating referencing resources first: projects/p/composite-apps/ca/v1/composite-profiles/cp/profiles/pa"},
		step{Do: "DELETE " + profiles + "/pa", Status: 204},
		step{Do: "DELETE " + ca + "/apps/a", Status: 204},
	)
}

func TestPackagesAboveTheLimit(t *testing.T) {
	t.Parallel()
	limits := tarball.Default()
	limits.Compressed = 1000
	s := resourcetest.Serve(t, func(r *mux.Router, db *store.DB) {
		orchestrator.Resources{DB: db, Archives: limits}.Mount(r)
	})
	s.Run(t,
		step{Do: "POST /v2/projects", Body: named("p"), Status: 201},
		step{Do: "POST /v2/projects/p/composite-apps", Body: `{"metadata":{"name":"ca"},"spec":{"compositeAppVersion":"v1"}}`, Status: 201},
		step{Do: "POST " + ca + "/apps", Body: named("a"), File: strings.Repeat("x", 1001), Status: 413, Text: "=file is larger than 1000 bytes"},
		step{Do: "POST " + ca + "/apps", Body: named("a"), File: strings.Repeat("x", 8<<20), Status: 413},
		step{Do: "GET " + ca + "/apps", Status: 200, Text: "=[]"},
	)
}

func TestDependencies(t *testing.T) {
	t.Parallel()
	s := serveDocs(t, resource.Guards{})
	s.Run(t, onboarded(t)...)
	on := func(app string) string {
		return `{"metadata":{"name":"d"},"spec":{"app":"` + app + `","opStatus":"ready","wait":2}}`
	}
	ofA, ofB := ca+"/apps/a/dependency", ca+"/apps/b/dependency"
	s.Run(t,
		step{Do: "GET " + ofA, Status: 200, Text: "=[]"},
		step{Do: "POST " + ofA, Body: on("a"), Status: 409, Text: "=Cyclic Dependency between apps found in composite app:ca: a -> a"},
		step{Do: "POST " + ofA, Body: on("b"), Status: 201},
		step{Do: "POST " + ofA, Body: on("b"), Status: 409, Text: "=AppDependency already exists"},
		step{Do: "POST " + ofB, Body: on("a"), Status: 409, Text: "=Cyclic Dependency between apps found in composite app:ca: b -> a -> b"},
		step{Do: "POST " + ofB, Body: on("later"), Status: 409, Text: "Referenced resource not found: projects/p/composite-apps/ca/v1/apps/later"},
		step{Do: "POST " + ca + "/apps", Body: named("later"), File: chart(t, "later"), Status: 201},
		step{Do: "POST " + ofB, Body: on("later"), Status: 201},
		step{Do: "PUT " + ofB + "/d", Body: on("a"), Status: 409, Text: "b -> a -> b"},
		step{Do: "PUT " + ofA + "/d", Body: `{"spec":{"app":"b","opStatus":"Gone","wait":5000}}`, Status: 400, Text: "- spec.wait: 5000"},
		step{Do: "DELETE " + ca + "/apps/b", Status: 409, Text: "Cannot delete parent"},
		step{Do: "DELETE " + ofB + "/d", Status: 204},
		step{Do: "DELETE " + ca + "/apps/b", Status: 409, Text: "projects/p/composite-apps/ca/v1/apps/a/dependency/d"},
	)
}

// Two dependencies that close a cycle only together never both stay.
func TestDependenciesThatRace(t *testing.T) {
	t.Parallel()
	s := serveDocs(t, resource.Guards{})
	s.Run(t, onboarded(t)...)
	for range 20 {
		var group errgroup.Group
		var stored atomic.Int32
		for app, on := range map[string]string{"a": "b", "b": "a"} {
			group.Go(func() error {
				a := s.Do(t, step{Do: "POST " + ca + "/apps/" + app + "/dependency", Body: `{"metadata":{"name":"d"},"spec":{"app":"` + on + `","opStatus":"Ready"}}`})
				if a.Status == 201 {
					stored.Add(1)
				}
				return nil
			})
		}
		_ = group.Wait()
		if stored.Load() > 1 {
			t.Fatal("both dependencies of a cycle were stored")
		}
		for _, app := range []string{"a", "b"} {
			s.Do(t, step{Do: "DELETE " + ca + "/apps/" + app + "/dependency/d"})
		}
	}
}

// Whatever is created, changed and deleted in any order: a dependency is refused when it closes a cycle, with a cycle of stored
// dependencies in the refusal, or when its app does not exist, and else accepted.
func TestH30DependenciesStayAcyclic(t *testing.T) {
	t.Parallel()
	s := serveDocs(t, resource.Guards{})
	s.Run(t, onboarded(t)[:2]...)
	apps := []string{"a", "b", "c", "d"}
	for _, app := range apps {
		s.Run(t, step{Do: "POST " + ca + "/apps", Body: named(app), File: chart(t, app), Status: 201})
	}
	type dependency struct{ app, name string }
	known := map[dependency]string{} // what is stored: the app that is waited for
	rapid.Check(t, func(rt *rapid.T) {
		for d := range known {
			s.Run(t, step{Do: "DELETE " + ca + "/apps/" + d.app + "/dependency/" + d.name, Status: 204})
		}
		clear(known)
		waits := func(app, on string, except dependency) bool {
			for d, to := range known {
				if d != except && d.app == app && to == on {
					return true
				}
			}
			return false
		}
		var reaches func(from, to string, except dependency) bool
		reaches = func(from, to string, except dependency) bool {
			return from == to || slices.ContainsFunc(apps, func(next string) bool { return waits(from, next, except) && reaches(next, to, except) })
		}
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			d := dependency{rapid.SampledFrom(apps).Draw(rt, "app"), rapid.SampledFrom([]string{"x", "y"}).Draw(rt, "name")}
			path := ca + "/apps/" + d.app + "/dependency"
			if rapid.IntRange(0, 4).Draw(rt, "action") == 0 {
				want := 404
				if known[d] != "" {
					want = 204
				}
				s.Run(t, step{Do: "DELETE " + path + "/" + d.name, Status: want})
				delete(known, d)
				continue
			}
			on := rapid.SampledFrom(append(apps, "nowhere")).Draw(rt, "on")
			a := s.Do(t, step{Do: "PUT " + path + "/" + d.name, Body: `{"metadata":{"name":"` + d.name + `"},"spec":{"app":"` + on + `","opStatus":"Ready"}}`})
			switch {
			case on == "nowhere":
				if a.Status != 409 || !strings.Contains(a.Body, "apps/nowhere") {
					rt.Fatalf("%s on an app that does not exist: %d %s", d.app, a.Status, a.Body)
				}
			case reaches(on, d.app, d):
				_, cycle, _ := strings.Cut(strings.TrimSpace(a.Body), "composite app:ca: ")
				round := strings.Split(cycle, " -> ")
				if a.Status != 409 || round[0] != d.app || round[len(round)-1] != d.app || len(round) < 2 || round[1] != on {
					rt.Fatalf("%s on %s closes a cycle of %v: %d %s", d.app, on, known, a.Status, a.Body)
				}
				for i := 1; i < len(round)-1; i++ {
					if !waits(round[i], round[i+1], d) {
						rt.Fatalf("the cycle %s is none of %v", cycle, known)
					}
				}
			default:
				if a.Status != 200 && a.Status != 201 {
					rt.Fatalf("%s on %s beside %v: %d %s", d.app, on, known, a.Status, a.Body)
				}
				known[d] = on
			}
		}
	})
}

func TestGroupsAndIntents(t *testing.T) {
	t.Parallel()
	var locked atomic.Bool
	guard := func(context.Context, store.Doc) error {
		if locked.Load() {
			return errs.New(errs.Conflict, "The specified DeploymentIntentGroup is not in Created status")
		}
		return nil
	}
	s := serveDocs(t, resource.Guards{Replace: guard, Delete: guard})
	s.Run(t, onboarded(t)...)
	dig := `{"metadata":{"name":"g"},"spec":{"profile":"cp","version":"r1","logical-cloud":"lc"}}`
	intents := digs + "/g/intents"
	s.Run(t,
		step{Do: "GET " + digs + "/g", Status: 404, Text: "=DeploymentIntentGroup not found"},
		step{Do: "POST " + digs, Body: strings.Replace(dig, "r1", "R_1", 1), Status: 400, Text: `"R_1" cannot be a Helm release name`},
		step{Do: "POST " + digs, Body: strings.Replace(dig, `"lc"`, `"lc","overrideValues":[{"app":"a","values":{"n":1}}]`, 1), Status: 422},
		step{Do: "POST " + digs, Body: dig, Status: 201, Text: `"spec":{"compositeProfile":"cp","version":"r1","logicalCloud":"lc","overrideValues":[]}`},
		step{Do: "POST " + digs, Body: dig, Status: 409, Text: "=DeploymentIntent already exists"},
		step{Do: "PUT " + digs + "/g2", Body: strings.Replace(dig, `"g"`, `"g2"`, 1), Status: 201},
		step{Do: "PUT " + digs + "/g2", Body: strings.Replace(dig, `"g"`, `"g2"`, 1), Status: 200},
		step{Do: "DELETE " + digs + "/g2", Status: 204},
		step{Do: "GET " + intents, Status: 200, Text: `={"intent":[]}`},
		step{Do: "POST " + intents, Body: `{"metadata":{"name":"i"},"spec":{"intent":{"genericPlacementIntent":"gpi","hpa":"h"}}}`, Status: 201},
		step{Do: "POST " + intents, Body: `{"metadata":{"name":"i"},"spec":{"intent":{"hpa":"h"}}}`, Status: 409, Text: "=Intent already exists"},
		step{Do: "GET " + intents, Status: 200, Text: `={"intent":[{"genericPlacementIntent":"gpi","hpa":"h"}]}`},
		step{Do: "GET " + intents + "/?intent=i", Status: 200, Text: `={"intent":{"genericPlacementIntent":"gpi","hpa":"h"}}`},
		step{Do: "GET " + intents + "?intent=i", Status: 200, Text: `={"intent":{"genericPlacementIntent":"gpi","hpa":"h"}}`},
		step{Do: "GET " + intents + "?intent=x", Status: 404, Text: "=Intent not found"},
		step{Do: "GET " + intents + "/", Status: 404},
		step{Do: "POST /v2/controllers", Body: `{"metadata":{"name":"hpa"},"spec":{"host":"h","port":9,"type":"placement","priority":1}}`, Status: 201},
		step{Do: "DELETE /v2/controllers/hpa", Status: 409, Text: "referencing resources first: projects/p/composite-apps/ca/v1/deployment-intent-groups/g/intents/i"},
		step{Do: "POST /v2/controllers", Body: `{"metadata":{"name":"rsync"},"spec":{"host":"h","port":9}}`, Status: 201, Text: `"type":""`},
		step{Do: "POST /v2/dtc-controllers", Body: `{"metadata":{"name":"hpa"},"spec":{"host":"h","port":9,"type":"placement","priority":1}}`, Status: 400, Text: "spec.type"},
		step{Do: "POST /v2/dtc-controllers", Body: `{"metadata":{"name":"hpa"},"spec":{"host":"h","port":9,"type":"action","priority":1}}`, Status: 201},
	)
	secret := strings.Replace(dig, `"lc"`, `"lc","overrideValues":[{"app":"a","values":{"auth.rootPassword":"hunter2","size":"1"}}]`, 1)
	masked := strings.Replace(secret, "hunter2", "***", 1)
	s.Run(t,
		step{Do: "PUT " + digs + "/g", Body: masked, Status: 400, Text: "there is none"},
		step{Do: "PUT " + digs + "/g", Body: secret, Status: 200, Text: `"auth.rootPassword":"***","size":"1"`},
		step{Do: "PUT " + digs + "/g", Body: strings.Replace(masked, `"1"`, `"2"`, 1), Status: 200, Text: `"auth.rootPassword":"***","size":"2"`},
		step{Do: "GET " + digs, Status: 200, Text: `"auth.rootPassword":"***"`},
		step{Do: "GET " + digs + "/g", Status: 200, Text: `"auth.rootPassword":"***"`},
	)
	doc, err := s.DB.Get(t.Context(), store.Key(strings.TrimPrefix(digs, "/v2/")+"/g"))
	if err != nil || !strings.Contains(string(doc.Body), "hunter2") {
		t.Errorf("PUT of *** lost the stored value: %s, %v", doc.Body, err)
	}
	s.Run(t, step{Do: "PUT " + digs + "/g", Body: dig, Status: 200})
	locked.Store(true)
	s.Run(t,
		step{Do: "PUT " + digs + "/g", Body: dig, Status: 200},
		step{Do: "PUT " + digs + "/g", Body: strings.Replace(dig, "r1", "r2", 1), Status: 409, Text: "=The specified DeploymentIntentGroup is not in Created status"},
		step{Do: "DELETE " + digs + "/g?dryRun=true", Status: 409, Text: "=The specified DeploymentIntentGroup is not in Created status"},
		step{Do: "DELETE " + intents + "/i", Status: 204},
		step{Do: "DELETE " + digs + "/g", Status: 409, Text: "=The specified DeploymentIntentGroup is not in Created status"},
		step{Do: "GET " + digs + "/g", Status: 200, Text: `"version":"r1"`},
	)
}
