package ovnaction_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize/customizetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize/ovnaction"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

const group = "projects/p/composite-apps/c/v1/deployment-intent-groups/g"

// fixture has the intent "nets", with documents from JSON by their paths below it.
type fixture struct {
	*testing.T
	db *store.DB
}

func newFixture(t *testing.T, documents map[string]string) fixture {
	f := fixture{t, resourcetest.DB(t)}
	if _, err := f.db.Create(t.Context(), store.Write{Key: group}); err != nil {
		t.Fatal(err)
	}
	resourcetest.Put(t, f.db, group+"/network-controller-intent/nets", v2.NetControllerIntent{}, "")
	for _, path := range slices.Sorted(maps.Keys(documents)) { // parents first
		spec, name := documents[path], path[strings.LastIndex(path, "/")+1:]
		text := json.RawMessage(`{"metadata":{"name":"` + name + `"},"spec":` + spec + `}`)
		resourcetest.Put(t, f.db, store.Key(group+"/network-controller-intent/nets/"+path), text, "")
	}
	return f
}

func deployment() customize.Deployment {
	return customize.Deployment{
		Group: group, Intent: "nets", Namespace: "shop",
		Apps: []customize.App{{Name: "cache", Clusters: []v2.ClusterKey{"edge+a"}}, {Name: "web", Clusters: []v2.ClusterKey{"edge+a", "edge+b"}}},
	}
}

func TestWorkloadsGetInterfaces(t *testing.T) {
	t.Parallel()
	f := newFixture(t, map[string]string{
		"workload-intents/web":               `{"app":"web","workloadResource":"r1-web","type":"Deployment"}`,
		"workload-intents/web/interfaces/a":  `{"interface":"net0","name":"tills","ipAddress":"10.20.0.7"}`,
		"workload-intents/web/interfaces/b":  `{"interface":"net1","name":"branch","defaultGateway":"true","macAddress":"02:00:00:00:00:01"}`,
		"workload-intents/more":              `{"app":"web","workloadResource":"r1-web","type":"Deployment"}`,
		"workload-intents/more/interfaces/c": `{"interface":"net2","name":"tills"}`,
		"workload-intents/none":              `{"app":"cache","workloadResource":"r1-cache","type":"StatefulSet"}`,
		"workload-intents/away":              `{"app":"away","workloadResource":"r1-away","type":"Deployment"}`,
		"workload-intents/away/interfaces/a": `{"interface":"net0","name":"tills"}`,
		"workload-intents/odd":               `{"app":"cache","workloadResource":"r1-odd","type":"Widget"}`,
		"workload-intents/odd/interfaces/a":  `{"interface":"net0","name":"tills"}`,
	})
	c := ovnaction.New(f.db)
	customizetest.Check(t, c, deployment())
	edits, err := c.Customize(t.Context(), deployment())
	if err != nil || len(edits.Edits) != 1 || len(edits.Findings) != 1 {
		t.Fatalf("got %+v %v, want one edit and one finding", edits, err)
	}
	if got := edits.Findings[0]; got.App != "cache" || !strings.Contains(got.Text, "workload-intents/odd: changes no workload") {
		t.Errorf("the finding is %+v", got)
	}
	objects, err := manifest.Parse("web", []byte(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"r1-web","namespace":"shop"},"spec":{"template":{"spec":{}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	out, err := customize.Class{Edits: edits.Edits}.Apply(render.Result{Objects: objects}, render.Request{App: "web", Namespace: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Spec struct {
			Template struct {
				Metadata struct {
					Annotations map[string]string `json:"annotations"`
				} `json:"metadata"`
			} `json:"template"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(out.Objects[0].Content, &got); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"k8s.v1.cni.cncf.io/networks":      `[{"name":"ovn-networkobj","namespace":"default"}]`,
		"k8s.plugin.opnfv.org/nfn-network": `{"type":"ovn4nfv","interface":[{"interface":"net2","name":"tills","defaultGateway":"false"},{"interface":"net0","name":"tills","defaultGateway":"false","ipAddress":"10.20.0.7"},{"interface":"net1","name":"branch","defaultGateway":"true","macAddress":"02:00:00:00:00:01"}]}`,
	} {
		if have := got.Spec.Template.Metadata.Annotations[key]; have != want {
			t.Errorf("annotation %s is\n%s\nwant\n%s", key, have, want)
		}
	}
}

func TestIntentsThatCannotBeCarriedOut(t *testing.T) {
	t.Parallel()
	many := map[string]string{}
	for i := range 501 {
		many[fmt.Sprint("workload-intents/w", i)] = `{"app":"web","workloadResource":"r1-web","type":"Deployment"}`
	}
	for name, tt := range map[string]struct {
		documents map[string]string
		intent    string
		want      string
	}{
		"no such intent": {nil, "other", "NetControllerIntent not found: other; add it below " + group + "/network-controller-intent"},
		"one interface twice": {map[string]string{
			"workload-intents/a":              `{"app":"web","workloadResource":"r1-web","type":"Deployment"}`,
			"workload-intents/a/interfaces/i": `{"interface":"net0","name":"tills"}`,
			"workload-intents/b":              `{"app":"web","workloadResource":"r1-web","type":"Deployment"}`,
			"workload-intents/b/interfaces/i": `{"interface":"net0","name":"branch"}`,
		}, "nets", "a/interfaces/i and network-controller-intent/nets/workload-intents/b/interfaces/i both give Deployment r1-web of app web the interface net0"},
		"too many": {many, "nets", "more than 500 workloads"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := deployment()
			d.Intent = tt.intent
			_, err := ovnaction.New(newFixture(t, tt.documents).db).Customize(t.Context(), d)
			if !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want a refusal with %q", err, tt.want)
			}
		})
	}
}
