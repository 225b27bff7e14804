package gac_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize/customizetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize/gac"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

const (
	group  = "projects/shop/composite-apps/till/v1/deployment-intent-groups/autumn"
	intent = group + "/generic-k8s-intents/i"
)

// fleet is an inventory of clusters by label.
type fleet map[string][]v2.ClusterKey

func (f fleet) Cluster(v2.ClusterKey) (placement.Cluster, bool) { return placement.Cluster{}, false }

func (f fleet) Labelled(provider, label string) []v2.ClusterKey { return f[provider+" "+label] }

// stage is a store with an intent, and the deployment of an app on three clusters.
type stage struct {
	*testing.T
	db     *store.DB
	gac    customize.Controller
	at     customize.Deployment
	admits string // what URLs must begin with
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{T: t, db: resourcetest.DB(t), admits: "http://clm/"}
	s.gac = gac.New(s.db, func(url string) error {
		if !strings.HasPrefix(url, s.admits) {
			return errs.New(errs.Forbidden, url+" is not allowed")
		}
		return nil
	})
	zones := map[v2.ClusterKey]map[string]string{"p+a": {"zone": "north"}, "p+b": {"zone": `so"uth"`}, "p+c": {"zone": "north"}}
	s.at = customize.Deployment{
		Group: group, Intent: "i", Inventory: fleet{"p large": {"p+b", "p+c", "p+z"}},
		Apps:      []customize.App{{Name: "web", Clusters: []v2.ClusterKey{"p+a", "p+b", "p+c"}}},
		KeyValues: func(c v2.ClusterKey) (map[string]string, error) { return zones[c], nil },
	}
	for _, key := range []store.Key{group, intent} {
		if _, err := s.db.Create(t.Context(), store.Write{Key: key}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// resource adds a resource with a template.
func (s *stage) resource(name, spec, template string) {
	s.Helper()
	resourcetest.Put(s.T, s.db, store.Key(intent+"/resources/"+name), document(name, spec), template)
}

// customize adds a customization of a resource with files, each "name=content".
func (s *stage) customize(of, name, spec string, files ...string) {
	s.Helper()
	var named []resource.NamedFile
	for _, f := range files {
		name, content, _ := strings.Cut(f, "=")
		named = append(named, resource.NamedFile{Name: name, Content: []byte(content)})
	}
	packed := ""
	if len(named) > 0 {
		text, err := resource.PackFiles(named)
		if err != nil {
			s.Fatal(err)
		}
		packed = string(text)
	}
	resourcetest.Put(s.T, s.db, store.Key(intent+"/resources/"+of+"/customizations/"+name), document(name, spec), packed)
}

func document(name, spec string) json.RawMessage {
	return json.RawMessage(`{"metadata":{"name":"` + name + `"},"spec":` + spec + `}`)
}

const (
	deployment = `{"app":"web","newObject":"false","resourceGVK":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"}}`
	everywhere = `{"clusterSpecific":"false"`
	onLarge    = `{"clusterSpecific":"true","clusterInfo":{"scope":"label","clusterProvider":"p","clusterLabel":"large","mode":"allow"}`
	notOnLarge = `{"clusterSpecific":"true","clusterInfo":{"scope":"label","clusterProvider":"p","clusterLabel":"large","mode":"deny"}`
	onA        = `{"clusterSpecific":"true","clusterInfo":{"scope":"name","clusterProvider":"p","cluster":"a","mode":"allow"}`
	replicas   = `,"patchType":"json","patchJson":[{"op":"replace","path":"/spec/replicas","value":%s}]}`
)

const rendered = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop"},"spec":{"replicas":1,"template":{"spec":{"containers":[{"name":"web","image":"a"}]}}}}`

// contents returns what the clusters get, by cluster, and the findings.
func (s *stage) contents() (map[v2.ClusterKey]string, []customize.Finding) {
	s.Helper()
	edits, err := s.gac.Customize(s.Context(), s.at)
	if err != nil {
		s.Fatal(err)
	}
	out := map[v2.ClusterKey]string{}
	for _, class := range customize.Classes("web", s.at.Apps[0].Clusters, edits.Edits) {
		objects, err := manifest.Parse("r", []byte(rendered))
		if err != nil {
			s.Fatal(err)
		}
		r, err := class.Apply(render.Result{Objects: objects}, render.Request{App: "web", Namespace: "shop"})
		if err != nil {
			s.Fatal(err)
		}
		var text strings.Builder
		for _, o := range r.Objects {
			text.Write(o.Content)
		}
		for _, c := range class.Clusters {
			out[c] = text.String()
		}
	}
	return out, edits.Findings
}

// wantPart fails the test unless exactly the given clusters get a text.
func wantPart(t *testing.T, contents map[v2.ClusterKey]string, part string, clusters ...v2.ClusterKey) {
	t.Helper()
	for c, text := range contents {
		if strings.Contains(text, part) != slices.Contains(clusters, c) {
			t.Errorf("%s gets %s; %s should be on %v", c, text, part, clusters)
		}
	}
}

func TestTheController(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.resource("deployment", deployment, "")
	s.customize("deployment", "all", everywhere+fmt.Sprintf(replicas, "2"))
	s.customize("deployment", "large", onLarge+fmt.Sprintf(replicas, `"{{ .cluster.kv.zone }}"`))
	s.resource("config", `{"app":"web","newObject":"true","resourceGVK":{"apiVersion":"v1","kind":"ConfigMap","name":"c"}}`, "")
	s.customize("config", "all", everywhere+"}", "f=x")
	customizetest.Check(t, s.gac, s.at)
}

// Patches for all clusters come first, then those for labels, then those for one cluster.
func TestTheMoreSpecificPatchWins(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.resource("deployment", deployment, "")
	s.customize("deployment", "c-all", everywhere+fmt.Sprintf(replicas, "2"))
	s.customize("deployment", "b-large", onLarge+fmt.Sprintf(replicas, "3"))
	s.customize("deployment", "a-one", onA+fmt.Sprintf(replicas, "4"))
	s.customize("deployment", "d-small", notOnLarge+`,"patchType":"json","patchJson":[{"op":"add","path":"/spec/paused","value":true},{"op":"remove","path":"/spec/template"}]}`)
	got, findings := s.contents()
	wantPart(t, got, `"replicas":3`, "p+b", "p+c")
	wantPart(t, got, `"replicas":4`, "p+a")
	wantPart(t, got, `"paused":true`, "p+a")
	wantPart(t, got, `"template"`, "p+b", "p+c")
	if len(findings) > 0 {
		t.Errorf("findings: %v", findings)
	}
}

func TestFilesAreMergePatches(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.resource("deployment", deployment, "")
	s.customize("deployment", "strategic", onA+`,"patchType":"merge"}`, "p.yaml=spec: {template: {spec: {containers: [{name: side, image: b}]}}}")
	s.customize("deployment", "plain", notOnLarge[:len(notOnLarge)-len(`"deny"}`)]+`"allow"},"patchType":"jsonmerge"}`, "p.yaml=spec: {template: {spec: {containers: [{name: side, image: b}]}}}")
	got, _ := s.contents()
	wantPart(t, got, `"name":"side"`, "p+a", "p+b", "p+c")
	wantPart(t, got, `{"image":"a","name":"web"}`, "p+a") // a strategic merge keeps the other container
}

func TestNewObjects(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	gvk := func(api, kind, name string) string {
		return `{"app":"web","newObject":"true","resourceGVK":{"apiVersion":"` + api + `","kind":"` + kind + `","name":"` + name + `"}}`
	}
	s.resource("config", gvk("v1", "ConfigMap", "settings"), "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, labels: {x: z}}\ndata: {base: kept}\n")
	s.customize("config", "all", everywhere+`,"configMapOptions":{"dataKeyOptions":[{"fileName":"app.conf","keyName":"conf"},{"fileName":"p.yaml","keyName":"p","mergePatch":"true"}]}}`,
		"app.conf=for all", "bin=\xff", "p.yaml=immutable: true")
	s.customize("config", "one", onA+`,"patchType":"json","patchJson":[{"op":"add","path":"/data/zone","value":"in {{ .cluster.kv.zone }}/{{ .cluster.name }}"}]}`)
	s.resource("secret", gvk("v1", "Secret", "key"), "")
	s.customize("secret", "large", onLarge+`}`, "token=hush")
	s.resource("policy", gvk("networking.k8s.io/v1", "NetworkPolicy", "deny"), "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: deny}\nspec: {podSelector: {}}\n")
	s.customize("policy", "all", everywhere+`}`)
	s.resource("idle", gvk("v1", "ConfigMap", "idle"), "")
	s.customize("policy", "absent", `{"clusterSpecific":"true","clusterInfo":{"scope":"name","clusterProvider":"p","cluster":"z","mode":"allow"}}`)
	got, findings := s.contents()
	wantPart(t, got, `{"base":"kept","conf":"for all"}`, "p+b", "p+c")
	wantPart(t, got, `"binaryData":{"bin":"/w=="}`, "p+b", "p+c")
	wantPart(t, got, `"immutable":true`, "p+b", "p+c")
	wantPart(t, got, `{"base":"kept","zone":"in north/a"}`, "p+a") // the most specific customization makes the object
	wantPart(t, got, `"x":"z"`, "p+a", "p+b", "p+c")
	wantPart(t, got, `{"token":"aHVzaA=="}`, "p+b", "p+c")
	wantPart(t, got, `"kind":"NetworkPolicy"`, "p+a", "p+b", "p+c")
	wantPart(t, got, `"name":"idle"`)
	texts := fmt.Sprint(findings)
	if len(findings) != 2 || !strings.Contains(texts, "resources/idle: changes nothing, because it has no customization") || !strings.Contains(texts, "customizations/absent: changes nothing, because it selects no cluster") {
		t.Errorf("findings: %v", findings)
	}
}

// values answers URLs.
type values map[string]string

func (v values) Value(_ context.Context, url string) (json.RawMessage, error) {
	text, ok := v[url]
	if !ok {
		return nil, errs.New(errs.Invalid, url+": the server answers 404, not 200")
	}
	return json.RawMessage(text), nil
}

func TestValuesFromURLs(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.resource("deployment", deployment, "")
	s.customize("deployment", "all", everywhere+fmt.Sprintf(replicas, `"$(http://clm/{clusterProvider}/{cluster}?key=n)$"`))
	s.customize("deployment", "one", onA+`,"patchType":"json","patchJson":[{"op":"add","path":"/spec/paused","value":"$(http://clm/fixed)$"}]}`)
	edits, err := s.gac.Customize(t.Context(), s.at)
	if err != nil || len(edits.Edits) != 4 {
		t.Fatalf("Customize = %v, %v, want an edit for each cluster", edits.Edits, err)
	}
	known := values{"http://clm/p/a?key=n": "5", "http://clm/p/b?key=n": "6", "http://clm/p/c?key=n": "6", "http://clm/fixed": "true"}
	resolved, err := customize.Resolve(t.Context(), "web", edits.Edits, known)
	if err != nil {
		t.Fatal(err)
	}
	classes := customize.Classes("web", s.at.Apps[0].Clusters, resolved)
	if len(classes) != 2 || fmt.Sprint(classes[1].Clusters) != "[p+b p+c]" {
		t.Errorf("equal values make %d classes: %v", len(classes), classes)
	}
	if got := string(classes[0].Edits[0].Patch.Text) + string(classes[0].Edits[1].Patch.Text); got != `[{"op":"replace","path":"/spec/replicas","value":5}][{"op":"add","path":"/spec/paused","value":true}]` {
		t.Errorf("the patches are %s", got)
	}
	delete(known, "http://clm/p/b?key=n")
	if _, err := customize.Resolve(t.Context(), "web", edits.Edits, known); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "app web: generic-k8s-intents/i/resources/deployment/customizations/all: http://clm/p/b?key=n: the server answers 404") {
		t.Errorf("a value that cannot be read: %v", err)
	}
	s.admits = "http://clm/p/"
	if _, err := s.gac.Customize(t.Context(), s.at); !errs.Is(err, errs.Forbidden) {
		t.Errorf("a URL that is not allowed: %v", err)
	}
}

func TestWhatCannotBeDoneNamesItsDocument(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		spec, template, customization, file, want string
	}{
		"a missing template":   {`{"app":"web","newObject":"true","resourceGVK":{"apiVersion":"v1","kind":"Service","name":"s"}}`, "", everywhere + "}", "", "upload one"},
		"a patch that is none": {deployment, "", everywhere + `,"patchType":"merge"}`, "p.yaml=- a", "p.yaml: is no mapping"},
		"a missing fact":       {deployment, "", everywhere + fmt.Sprintf(replicas, `"{{ .cluster.kv.none }}"`), "", `cluster p+a has no key-value pair "none"`},
		"data that is a list":  {`{"app":"web","newObject":"true","resourceGVK":{"apiVersion":"v1","kind":"ConfigMap","name":"s"}}`, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: s}\ndata: []\n", everywhere + "}", "f=x", "data of the uploaded object is no mapping"},
	} {
		s := newStage(t)
		s.resource("r", tt.spec, tt.template)
		var files []string
		if tt.file != "" {
			files = append(files, tt.file)
		}
		s.customize("r", "c", tt.customization, files...)
		_, err := s.gac.Customize(t.Context(), s.at)
		if !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "generic-k8s-intents/i/resources/r/customizations/c: ") {
			t.Errorf("%s: %v, want Invalid with %q", name, err, tt.want)
		}
	}
	s := newStage(t)
	s.at.Intent = "none"
	if _, err := s.gac.Customize(t.Context(), s.at); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "GenericK8sIntent not found: none") {
		t.Errorf("a missing intent: %v", err)
	}
}
