package customize_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/patch"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
)

func keys(names ...v2.ClusterKey) []v2.ClusterKey { return names }

func patches(path string, clusters ...v2.ClusterKey) customize.Edit {
	return customize.Edit{App: "web", Clusters: clusters, Origin: path, Patch: &customize.Patch{
		Target: customize.Target{APIVersion: "v1", Kind: "ConfigMap", Name: "web"}, Type: patch.JSON,
		Text: fmt.Appendf(nil, `[{"op":"add","path":"/data/%s","value":"x"}]`, path),
	}}
}

// shown returns classes in short: "p+a p+b: one two".
func shown(classes []customize.Class) (out []string) {
	for _, c := range classes {
		var edits []string
		for _, e := range c.Edits {
			edits = append(edits, e.Origin)
		}
		out = append(out, strings.Trim(fmt.Sprint(c.Clusters), "[]")+": "+strings.Join(edits, " "))
	}
	return out
}

func TestClustersWithEqualEditsAreOneClass(t *testing.T) {
	t.Parallel()
	all := keys("p+a", "p+b", "p+c", "p+d")
	other := patches("other", "p+a")
	other.App = "db"
	same := patches("one", "p+d")
	same.Origin = "same"
	for name, tt := range map[string]struct {
		edits []customize.Edit
		want  []string
	}{
		"no edits":             {nil, []string{"p+a p+b p+c p+d: "}},
		"edits of other apps":  {[]customize.Edit{other}, []string{"p+a p+b p+c p+d: "}},
		"an edit for all":      {[]customize.Edit{patches("all")}, []string{"p+a p+b p+c p+d: all"}},
		"edits for some":       {[]customize.Edit{patches("all"), patches("one", "p+b", "p+d"), patches("two", "p+d")}, []string{"p+a p+c: all", "p+b: all one", "p+d: all one two"}},
		"equal edits":          {[]customize.Edit{patches("one", "p+a"), same}, []string{"p+a p+d: one", "p+b p+c: "}},
		"another order":        {[]customize.Edit{patches("one", "p+a"), patches("all"), same}, []string{"p+a: one all", "p+b p+c: all", "p+d: all same"}},
		"clusters of no app":   {[]customize.Edit{patches("one", "p+x")}, []string{"p+a p+b p+c p+d: "}},
		"an edit that has all": {[]customize.Edit{patches("one", all...)}, []string{"p+a p+b p+c p+d: one"}},
	} {
		classes := customize.Classes("web", all, tt.edits)
		if got := shown(classes); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
		if len(classes) == 1 && &classes[0].Clusters[0] != &all[0] {
			t.Errorf("%s: the one class has a copy of the clusters", name)
		}
	}
}

func TestEverythingThatAClassChangesIsInItsDigest(t *testing.T) {
	t.Parallel()
	value := customize.Edit{App: "web", Values: []render.Override{{Key: "a", Value: "b"}}}
	object := customize.Edit{App: "web", Object: []byte("x")}
	one, two := patches("one"), patches("two")
	target := patches("one")
	target.Patch.Target.Name = "db"
	form := patches("one")
	form.Patch.Type = patch.Merge
	digests := map[manifest.Digest]string{}
	for name, edits := range map[string][]customize.Edit{
		"nothing": nil, "an object": {object}, "one": {one}, "two": {two}, "both": {one, two}, "both, the other way": {two, one}, "a target": {target}, "a form": {form},
	} {
		d := customize.Class{Edits: edits}.Digest("r")
		if other, known := digests[d]; known {
			t.Errorf("%s has the digest of %s", name, other)
		}
		digests[d] = name
	}
	if d := (customize.Class{Edits: []customize.Edit{value}}).Digest("r"); d != "r" {
		t.Errorf("values change the digest a second time: they are part of the rendering")
	}
	if got := (customize.Class{Edits: []customize.Edit{value}}).Request(render.Request{Overrides: []render.Override{{Key: "a", Value: "a"}}}).Overrides; len(got) != 2 || got[1].Value != "b" {
		t.Errorf("the rendering gets %v, want the values of the edit last", got)
	}
}

// rendered is a rendering as renderers make it.
func rendered(t *testing.T, req render.Request, texts ...string) (r render.Result) {
	t.Helper()
	for i, text := range texts {
		objects, err := manifest.Parse(fmt.Sprintf("%d.yaml", i), []byte(text))
		if err == nil {
			objects, err = manifest.Complete(objects, manifest.Defaults{Namespace: req.Namespace, Labels: map[string]string{"l": "v"}, Stamp: true})
		}
		if err != nil {
			t.Fatal(err)
		}
		r.Objects = append(r.Objects, objects...)
	}
	return r
}

const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {a: b}\n"

func request() render.Request {
	return render.Request{App: "web", Namespace: "shop", Labels: []render.Label{{Key: "l", Value: "v"}}}
}

func TestObjectsOfEditsAreAsComplete(t *testing.T) {
	t.Parallel()
	req := request()
	r := rendered(t, req, configMap)
	before := string(r.Objects[0].Content)
	c := customize.Class{Edits: []customize.Edit{
		{App: "web", Origin: "new", Object: []byte("apiVersion: v1\nkind: Secret\nmetadata: {name: key}\n")},
		patches("one"),
		{App: "web", Origin: "later", Patch: &customize.Patch{
			Target: customize.Target{Kind: "Secret", Name: "key"}, Type: patch.Strategic, Text: []byte(`{"metadata":{"labels":{"l":"mine","m":"n"}}}`),
		}},
	}}
	got, err := c.Apply(r, req)
	if err != nil || len(got.Objects) != 2 || len(got.Findings) != 0 {
		t.Fatalf("Apply = %v, %v", got, err)
	}
	secret, web := got.Objects[0], got.Objects[1]
	if secret.ID.Namespace != "shop" || secret.Stamp() == "" || !strings.Contains(string(secret.Content), `"labels":{"l":"v","m":"n"}`) {
		t.Errorf("the new object is %s", secret.Content)
	}
	if !strings.Contains(string(web.Content), `"data":{"a":"b","one":"x"}`) || web.Stamp() == r.Objects[0].Stamp() || web.Source != "0.yaml" {
		t.Errorf("the patched object is %s", web.Content)
	}
	if string(r.Objects[0].Content) != before || len(r.Objects) != 1 {
		t.Error("the rendering has changed, which other classes share")
	}
}

func TestEditsThatDoNotFitAreFaults(t *testing.T) {
	t.Parallel()
	req := request()
	edit := func(text string) customize.Edit {
		e := patches("x")
		e.Patch.Text = []byte(text)
		return e
	}
	for name, tt := range map[string]struct {
		edit customize.Edit
		want string
	}{
		"an object that exists":      {customize.Edit{App: "web", Origin: "x", Object: []byte(configMap)}, "the app has v1 ConfigMap shop/web already"},
		"two objects":                {customize.Edit{App: "web", Origin: "x", Object: []byte(configMap + "---\n" + configMap)}, "2 objects"},
		"no object":                  {customize.Edit{App: "web", Origin: "x", Object: []byte("kind: A")}, "apiVersion is missing"},
		"a path that is missing":     {edit(`[{"op":"remove","path":"/data/z"}]`), "v1 ConfigMap shop/web: json patch: "},
		"another name":               {edit(`[{"op":"replace","path":"/metadata/name","value":"z"}]`), "must not change"},
		"another namespace":          {edit(`[{"op":"replace","path":"/metadata/namespace","value":"kube-system"}]`), "must not change"},
		"another kind":               {edit(`[{"op":"replace","path":"/kind","value":"ServiceAccount"}]`), "must not change"},
		"no object after the patch":  {edit(`[{"op":"replace","path":"","value":[]}]`), "v1 ConfigMap shop/web: "},
		"labels that are no strings": {edit(`[{"op":"add","path":"/metadata/labels/a","value":1}]`), "must be a string"},
	} {
		_, err := customize.Class{Edits: []customize.Edit{tt.edit}}.Apply(rendered(t, req, configMap), req)
		if !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "app web: x: ") {
			t.Errorf("%s: Apply = %v, want Invalid of edit x with %q", name, err, tt.want)
		}
	}
}

func TestAPatchWithoutAnObjectIsAFinding(t *testing.T) {
	t.Parallel()
	req := request()
	e := patches("one")
	e.Patch.Target.Name = "absent"
	got, err := customize.Class{Edits: []customize.Edit{e}}.Apply(rendered(t, req, configMap), req)
	if err != nil || !slices.Equal(got.Findings, []string{"one: changes nothing, because the app has no ConfigMap absent"}) {
		t.Errorf("Apply = %v, %v", got.Findings, err)
	}
}

// Objects with equal kinds and names are distinguished by their API versions.
func TestTheAPIVersionDecidesBetweenEqualNames(t *testing.T) {
	t.Parallel()
	req := request()
	const ours = "apiVersion: a.org/v1\nkind: Gateway\nmetadata: {name: web}\ndata: {}\n"
	const theirs = "apiVersion: b.org/v1\nkind: Gateway\nmetadata: {name: web}\ndata: {}\n"
	e := patches("one")
	e.Patch.Target = customize.Target{APIVersion: "b.org/v1", Kind: "Gateway", Name: "web"}
	got, err := customize.Class{Edits: []customize.Edit{e}}.Apply(rendered(t, req, ours, theirs), req)
	if err != nil || strings.Contains(string(got.Objects[0].Content), "one") || !strings.Contains(string(got.Objects[1].Content), "one") {
		t.Errorf("Apply = %s, %s, %v", got.Objects[0].Content, got.Objects[1].Content, err)
	}
}

// fleet is an inventory of clusters by label.
type fleet map[string][]v2.ClusterKey

func (f fleet) Cluster(v2.ClusterKey) (placement.Cluster, bool) { return placement.Cluster{}, false }

func (f fleet) Labelled(provider, label string) []v2.ClusterKey { return f[provider+" "+label] }

func TestTheMoreSpecificValueWins(t *testing.T) {
	t.Parallel()
	pairs := map[v2.ClusterKey]map[string]string{"p+a": {"zone": "north"}, "p+b": {"zone": "so,uth"}, "p+c": {"zone": "north"}, "p+d": {"zone": "north"}}
	value := func(text string, clusters ...v2.Selector) v2.OverrideValue {
		return v2.OverrideValue{App: "web", Clusters: clusters, Values: map[string]string{"size": text}}
	}
	g := v2.DeploymentIntentGroup{Spec: v2.DeploymentIntentGroupSpec{Overrides: []v2.OverrideValue{
		value("mine", v2.Selector{Provider: "p", Cluster: "c"}, v2.Selector{Provider: "p", Cluster: "elsewhere"}),
		value("labelled", v2.Selector{Provider: "p", Label: "large"}),
		value("both", v2.Selector{Provider: "p", Labels: []string{"large", "coastal"}}),
		value("all"),
		{App: "web", Values: map[string]string{"zone": "z-{{ .cluster.kv.zone }}/{{.cluster.name}}", "fixed": "1"}},
		{App: "db", Values: map[string]string{"size": "other"}},
	}}}
	if got := fmt.Sprint(customize.Overrides(g, "web")); got != "[{size all} {fixed 1}]" {
		t.Errorf("the values for all clusters are %s", got)
	}
	app := customize.App{Name: "web", Clusters: keys("p+a", "p+b", "p+c", "p+d")}
	edits, err := customize.ClusterOverrides(g, app, fleet{"p large": keys("p+b", "p+c", "p+d", "p+e"), "p coastal": keys("p+a", "p+d", "p+e")}, func(c v2.ClusterKey) (map[string]string, error) {
		return pairs[c], nil
	})
	if err != nil {
		t.Fatal(err)
	}
	got := map[v2.ClusterKey]string{}
	for _, c := range customize.Classes("web", app.Clusters, edits) {
		for _, cluster := range c.Clusters {
			got[cluster] = fmt.Sprint(c.Request(render.Request{}).Overrides)
		}
	}
	for cluster, want := range map[v2.ClusterKey]string{
		"p+a": "[{zone z-north/a}]",
		"p+b": `[{zone z-so\,uth/b} {size labelled}]`,
		"p+c": "[{zone z-north/c} {size labelled} {size mine}]",
		"p+d": "[{zone z-north/d} {size labelled} {size both}]",
	} {
		if got[cluster] != want {
			t.Errorf("%s gets %s, want %s", cluster, got[cluster], want)
		}
	}
}

func TestClustersWithEqualFactsShareAnEdit(t *testing.T) {
	t.Parallel()
	g := v2.DeploymentIntentGroup{Spec: v2.DeploymentIntentGroupSpec{Overrides: []v2.OverrideValue{
		{App: "web", Values: map[string]string{"zone": "{{ .cluster.kv.zone }}"}},
	}}}
	app := customize.App{Name: "web", Clusters: keys("p+a", "p+b", "p+c", "p+d")}
	zone := func(c v2.ClusterKey) (map[string]string, error) {
		if c == "p+b" {
			return map[string]string{"zone": "south"}, nil
		}
		return map[string]string{"zone": "north"}, nil
	}
	edits, err := customize.ClusterOverrides(g, app, fleet{}, zone)
	if err != nil || len(edits) != 2 || !slices.Equal(edits[0].Clusters, keys("p+a", "p+c", "p+d")) {
		t.Errorf("ClusterOverrides = %v, %v", edits, err)
	}
	_, err = customize.ClusterOverrides(g, app, fleet{}, func(v2.ClusterKey) (map[string]string, error) { return nil, nil })
	if !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), `cluster p+a has no key-value pair "zone"; add one below cluster-providers/p/clusters/a/kv-pairs`) {
		t.Errorf("without pairs: %v", err)
	}
}

// Revisions are compared with those of earlier versions by digests. If that of an encryption changed, all Secrets would be encrypted
// again.
func TestTheDigestOfAnEncryptionStaysTheSame(t *testing.T) {
	t.Parallel()
	e := customize.Edit{Encryption: &customize.Encryption{Recipients: []string{"age1a", "age1b"}}}
	if d := e.Digest(); d != "d9f631af47abf10d2066a599962c0e978aa54fbd5a8569d2027e4a39620d9d3f" {
		t.Errorf("the digest is %s", d)
	}
}
