package manifest

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

func parse(t *testing.T, source, text string) []Object {
	t.Helper()
	objects, err := Parse(source, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func TestCompleteSetsNamespaceAndLabels(t *testing.T) {
	t.Parallel()
	defaults := Defaults{Namespace: "shop", Labels: map[string]string{"l": "new"}, Scopes: Scopes{{"example.com", "Zone"}: true, {"example.com", "Lot"}: false}}
	for _, tt := range []struct{ name, in, want string }{
		{
			"an object without namespace", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`,
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"labels":{"l":"new"},"name":"a","namespace":"shop"}}`,
		},
		{
			"an object with namespace and labels keeps them", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"b","labels":{"l":"old","m":"x"}}}`,
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"labels":{"l":"new","m":"x"},"name":"a","namespace":"b"}}`,
		},
		{
			"null labels", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":null}}`,
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"labels":{"l":"new"},"name":"a","namespace":"shop"}}`,
		},
		{
			"a cluster-scoped kind", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a"}}`,
			`{"apiVersion":"v1","kind":"Namespace","metadata":{"labels":{"l":"new"},"name":"a"}}`,
		},
		{
			"a cluster-scoped kind that names a namespace", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"a","namespace":"b"}}`,
			`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"labels":{"l":"new"},"name":"a"}}`,
		},
		{
			"a custom kind of the cluster", `{"apiVersion":"example.com/v1","kind":"Zone","metadata":{"name":"a"}}`,
			`{"apiVersion":"example.com/v1","kind":"Zone","metadata":{"labels":{"l":"new"},"name":"a"}}`,
		},
		{
			"a custom kind of namespaces", `{"apiVersion":"example.com/v1","kind":"Lot","metadata":{"name":"a"}}`,
			`{"apiVersion":"example.com/v1","kind":"Lot","metadata":{"labels":{"l":"new"},"name":"a","namespace":"shop"}}`,
		},
		{
			"a kind that only shares its name with a cluster-scoped one", `{"apiVersion":"example.com/v1","kind":"Node","metadata":{"name":"a"}}`,
			`{"apiVersion":"example.com/v1","kind":"Node","metadata":{"labels":{"l":"new"},"name":"a","namespace":"shop"}}`,
		},
		{
			"a pod template without metadata", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"template":{"spec":{}}}}`,
			`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"labels":{"l":"new"},"name":"a","namespace":"shop"},"spec":{"template":{"metadata":{"labels":{"l":"new"}},"spec":{}}}}`,
		},
		{
			"a cron job's pod template", `{"apiVersion":"batch/v1","kind":"CronJob","metadata":{"name":"a"},"spec":{"jobTemplate":{"spec":{"template":{"metadata":{"labels":{"m":"x"}}}}}}}`,
			`{"apiVersion":"batch/v1","kind":"CronJob","metadata":{"labels":{"l":"new"},"name":"a","namespace":"shop"},"spec":{"jobTemplate":{"spec":{"template":{"metadata":{"labels":{"l":"new","m":"x"}}}}}}}`,
		},
		{
			"a template of a foreign kind is left alone", `{"apiVersion":"example.com/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"template":{"spec":{}}}}`,
			`{"apiVersion":"example.com/v1","kind":"Deployment","metadata":{"labels":{"l":"new"},"name":"a","namespace":"shop"},"spec":{"template":{"spec":{}}}}`,
		},
		{
			"numbers keep their digits", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"spec":{"n":123456789012345678901234567890.10}}`,
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"labels":{"l":"new"},"name":"a","namespace":"shop"},"spec":{"n":123456789012345678901234567890.10}}`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			in := parse(t, "s.yaml", tt.in)
			before := string(in[0].Content)
			got, err := Complete(in, defaults)
			if err != nil || len(got) != 1 || string(got[0].Content) != tt.want+"\n" {
				t.Fatalf("Complete(%s) = %s, %v, want %s", tt.in, contents(got), err, tt.want)
			}
			if got[0].Source != "s.yaml" || got[0].Digest != DigestOf(got[0].Content) || string(in[0].Content) != before {
				t.Errorf("source is %s, digest %s, the input now %s", got[0].Source, got[0].Digest, in[0].Content)
			}
			again, err := Complete(got, defaults)
			if err != nil || again[0].Digest != got[0].Digest {
				t.Errorf("a second time gives %s, %v", contents(again), err)
			}
		})
	}
}

func TestCompleteReportsAllThatCannotTakeLabels(t *testing.T) {
	t.Parallel()
	text := `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"%"},"spec":{"template":{"metadata":{"labels":"text"}}}}`
	in := append(parse(t, "a.yaml", strings.ReplaceAll(text, "%", "x")), parse(t, "b.yaml", strings.ReplaceAll(text, "%", "y"))...)
	_, err := Complete(in, Defaults{Labels: map[string]string{"l": "v"}})
	want := "a.yaml: apps/v1 Deployment x: labels must be a mapping\nb.yaml: apps/v1 Deployment y: labels must be a mapping"
	if !errs.Is(err, errs.Invalid) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestScopesOfReadsCRDs(t *testing.T) {
	t.Parallel()
	crd := func(kind, scope string) string {
		return `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"` + strings.ToLower(kind) +
			`s.example.com"},"spec":{"group":"example.com","scope":"` + scope + `","names":{"kind":"` + kind + `"}}}` + "\n---\n"
	}
	odd := `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"odd"},"spec":[]}`
	got := ScopesOf(parse(t, "c.yaml", crd("Zone", "Cluster")+crd("Lot", "Namespaced")+odd))
	if zone, lot := got[GroupKind{"example.com", "Zone"}], got[GroupKind{"example.com", "Lot"}]; !zone || lot {
		t.Errorf("Zone is of the cluster: %v, Lot: %v", zone, lot)
	}
}

func TestSortAppliesWhatOthersNeedFirst(t *testing.T) {
	t.Parallel()
	want := []string{
		"Namespace/n", "PriorityClass/p", "ServiceAccount/a", "Secret/s", "ConfigMap/a", "ConfigMap/b", "PersistentVolumeClaim/d",
		"CustomResourceDefinition/c", "ClusterRole/c", "RoleBinding/r", "Service/s", "DaemonSet/d", "Deployment/d", "StatefulSet/s",
		"Job/j", "Ingress/i", "APIService/a", "Another/x", "Zone/z",
	}
	objects := make([]Object, len(want))
	for i, w := range want {
		kind, name, _ := strings.Cut(w, "/")
		objects[i].ID = ID{Version: "v1", Kind: kind, Name: name}
	}
	for seed := range uint64(20) {
		rand.New(rand.NewPCG(seed, 1)).Shuffle(len(objects), func(i, j int) { objects[i], objects[j] = objects[j], objects[i] })
		Sort(objects)
		got := make([]string, len(objects))
		for i, o := range objects {
			got[i] = o.ID.Kind + "/" + o.ID.Name
		}
		if !slices.Equal(got, want) {
			t.Fatalf("Sort gives %v, want %v", got, want)
		}
	}
}

func TestUniqueNamesBothSources(t *testing.T) {
	t.Parallel()
	a := parse(t, "a.yaml", `{"apiVersion":"policy/v1beta1","kind":"PodDisruptionBudget","metadata":{"name":"x","namespace":"n"}}`)
	b := parse(t, "b.yaml", `{"apiVersion":"policy/v1","kind":"PodDisruptionBudget","metadata":{"name":"x","namespace":"n"}}`)
	other := parse(t, "c.yaml", `{"apiVersion":"policy/v1","kind":"PodDisruptionBudget","metadata":{"name":"x","namespace":"m"}}`)
	if err := Unique(slices.Concat(a, other)); err != nil {
		t.Errorf("objects of two namespaces: %v", err)
	}
	err := Unique(slices.Concat(a, other, b))
	if want := "b.yaml: policy/v1 PodDisruptionBudget n/x stands in a.yaml already"; !errs.Is(err, errs.Invalid) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestDeploymentLabelsAreLegalAndDistinct(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 80)
	seen := map[string]string{}
	for _, tt := range []struct {
		deployment v2.DeploymentID
		app, want  string
	}{
		{"5341907163458761", "web", "5341907163458761-web"},
		{"17", strings.Repeat("b", 60), "17-" + strings.Repeat("b", 60)},
		{"17", long, ""},
		{"17", long + "x", ""},
		{"17", "a/b", ""},
		{"17", "a-b", "17-a-b"},
		{"17", "ende_", ""},
		{"---", "\u00fc", ""},
	} {
		key, value := DeploymentLabel(tt.deployment, tt.app)
		if key != "emco/deployment-id" || len(value) > 63 || !labelValue.MatchString(value) {
			t.Errorf("DeploymentLabel(%q, %q) = %q, %q, which is no legal label", tt.deployment, tt.app, key, value)
		}
		if tt.want != "" && value != tt.want {
			t.Errorf("DeploymentLabel(%q, %q) = %q, want %q", tt.deployment, tt.app, value, tt.want)
		}
		if other, ok := seen[value]; ok {
			t.Errorf("%s and %s share the value %s", other, tt.app, value)
		}
		seen[value] = tt.app
	}
}

func TestAnnotations(t *testing.T) {
	t.Parallel()
	o := parse(t, "a", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","annotations":{"k":"v"}}}`)[0]
	if got := o.Annotations(); len(got) != 1 || got["k"] != "v" {
		t.Errorf("got %v", got)
	}
	if got := (Object{Content: json.RawMessage(`{}`)}).Annotations(); got == nil || len(got) != 0 {
		t.Errorf("an object without any gives %v", got)
	}
}
