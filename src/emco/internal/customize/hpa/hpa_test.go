package hpa_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/status"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize/customizetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize/hpa"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/placement"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

const (
	group    = "projects/shop/composite-apps/till/v1/deployment-intent-groups/autumn"
	intent   = group + "/hpa-intents/web"
	consumer = intent + "/hpa-resource-consumers/web"
)

func put(t *testing.T, db *store.DB, key, spec string) {
	t.Helper()
	name := key[strings.LastIndexByte(key, '/')+1:]
	resourcetest.Put(t, db, store.Key(key), json.RawMessage(`{"metadata":{"name":"`+name+`"},"spec":`+spec+`}`), "")
}

// newStore returns a store with an intent for app web and a consumer of two pods.
func newStore(t *testing.T) *store.DB {
	t.Helper()
	db := resourcetest.DB(t)
	if _, err := db.Create(t.Context(), store.Write{Key: group}); err != nil {
		t.Fatal(err)
	}
	put(t, db, intent, `{"app":"web"}`)
	put(t, db, consumer, `{"apiVersion":"apps/v1","kind":"Deployment","name":"r1-web","replicas":2,"container":"nginx"}`)
	return db
}

func need(t *testing.T, db *store.DB, name, spec string) {
	t.Helper()
	put(t, db, consumer+"/resource-requirements/"+name, spec)
}

var facts = map[v2.ClusterKey]map[string]string{
	"p+large": {"allocatable.cpu": "8", "allocatable.memory": "4Gi", "accelerator": "a100, h100"},
	"p+small": {"allocatable.cpu": "1500m", "allocatable.memory": "1Gi"},
	"p+blind": {},
}

func factsOf(_ context.Context, c v2.ClusterKey) (map[string]string, error) { return facts[c], nil }

type fleet []placement.Cluster

func (f fleet) Cluster(key v2.ClusterKey) (placement.Cluster, bool) {
	for _, c := range f {
		if c.Key() == key {
			return c, true
		}
	}
	return placement.Cluster{}, false
}

func (f fleet) Labelled(provider, label string) (out []v2.ClusterKey) {
	for _, c := range f {
		out = append(out, c.Key())
	}
	return out
}

var three = fleet{{Provider: "p", Name: "blind"}, {Provider: "p", Name: "large"}, {Provider: "p", Name: "small", Labels: []string{"sriov"}}}

// nothingFree answers for clusters without a report.
func nothingFree(_ context.Context, clusters []v2.ClusterKey) (map[v2.ClusterKey]status.Capacity, error) {
	out := map[v2.ClusterKey]status.Capacity{}
	for _, c := range clusters {
		out[c] = status.Capacity{Problem: "no monitor has reported"}
	}
	return out, nil
}

// deploymentOf returns a deployment whose app web may run on all clusters of a fleet, and runs on some.
func deploymentOf(f fleet, running ...v2.ClusterKey) placement.Deployment {
	return placement.Deployment{
		Group: group, Intent: "web", Inventory: f, Facts: factsOf,
		Candidates: func(context.Context) ([]placement.Candidates, error) {
			return []placement.Candidates{{App: "web", AnyOf: [][]v2.ClusterKey{f.Labelled("p", "all")}, Count: 1}}, nil
		},
		Running: func(context.Context) (map[string][]v2.ClusterKey, error) {
			return map[string][]v2.ClusterKey{"web": running}, nil
		},
	}
}

func TestMandatoryNeedsLeaveClustersOut(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		needs []string
		want  string // verdicts on large, small and blind
	}{
		"memory of both pods": {[]string{`{"allocatable":true,"mandatory":true,"resource":{"name":"memory","requests":600}}`}, "in; has 1073741824 of memory free, and 1200000000 are needed (hpa); it is not known what is free: no monitor has reported (hpa)"},
		"units":               {[]string{`{"allocatable":true,"mandatory":true,"resource":{"name":"cpu","requests":700,"units":"m"}}`}, "in; in; it is not known what is free: no monitor has reported (hpa)"},
		"needs of one resource add up": {[]string{
			`{"allocatable":true,"mandatory":true,"resource":{"name":"cpu","requests":500,"units":"m"}}`, `{"allocatable":true,"mandatory":true,"resource":{"name":"cpu","requests":300,"units":"m"}}`,
		}, "in; has 1.5 of cpu free, and 1.6 are needed (hpa); it is not known what is free: no monitor has reported (hpa)"},
		"a capability by fact":  {[]string{`{"allocatable":false,"mandatory":true,"resource":{"key":"accelerator","value":"h100"}}`}, "in; has no capability accelerator=h100 (hpa); has no capability accelerator=h100 (hpa)"},
		"a capability by label": {[]string{`{"allocatable":false,"mandatory":true,"resource":{"key":"sriov","value":"true"}}`}, "has no capability sriov=true (hpa); in; has no capability sriov=true (hpa)"},
	} {
		db := newStore(t)
		for i, spec := range tt.needs {
			need(t, db, fmt.Sprintf("n%d", i), spec)
		}
		demands, err := hpa.New(db, nothingFree).Demands(t.Context(), deploymentOf(three))
		if err != nil || len(demands["web"].Filters) != 1 || len(demands) != 1 {
			t.Fatalf("%s: %+v, %v", name, demands, err)
		}
		var got []string
		for _, c := range []string{"large", "small", "blind"} {
			at, _ := three.Cluster(v2.NewClusterKey("p", c))
			v, err := demands["web"].Filters[0].Admit(t.Context(), placement.Request{Facts: factsOf}, at)
			if err != nil || v.Reason == "" || v.Cluster != at.Key() {
				t.Fatalf("%s: %+v, %v", name, v, err)
			}
			if v.Admitted {
				v.Reason = "in"
			}
			got = append(got, v.Reason)
		}
		if strings.Join(got, "; ") != tt.want {
			t.Errorf("%s: %s, want %s", name, strings.Join(got, "; "), tt.want)
		}
	}
}

// Kubernetes' reader of amounts would work for hours on this one, and with it every placement that looks at the cluster.
func TestAHostileFactIsNoAmount(t *testing.T) {
	t.Parallel()
	db := newStore(t)
	need(t, db, "memory", `{"allocatable":true,"mandatory":true,"resource":{"name":"memory","requests":600}}`)
	demands, err := hpa.New(db, nothingFree).Demands(t.Context(), deploymentOf(three))
	if err != nil {
		t.Fatal(err)
	}
	at, _ := three.Cluster(v2.NewClusterKey("p", "large"))
	hostile := func(context.Context, v2.ClusterKey) (map[string]string, error) {
		return map[string]string{"allocatable.memory": "1e-2147483647"}, nil
	}
	v, err := demands["web"].Filters[0].Admit(t.Context(), placement.Request{Facts: hostile}, at)
	if err != nil || v.Admitted || !strings.Contains(v.Reason, "it is not known what is free") {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestOtherNeedsArePreferences(t *testing.T) {
	t.Parallel()
	db := newStore(t)
	need(t, db, "gpu", `{"allocatable":false,"weight":2,"resource":{"key":"accelerator","value":"h100"}}`)
	need(t, db, "memory", `{"allocatable":true,"resource":{"name":"memory","requests":100}}`)
	demands, err := hpa.New(db, nothingFree).Demands(t.Context(), deploymentOf(three))
	if err != nil {
		t.Fatal(err)
	}
	d, err := placement.Decide(t.Context(), placement.Request{
		App: "web", Inventory: three, Facts: factsOf, Preference: placement.Preference{Scorers: demands["web"].Scorers},
		Intent: placement.Intent{AnyOf: []placement.Selector{{Provider: "p", Labels: []string{"all"}}}},
	}, demands["web"].Filters)
	if err != nil || len(d.Clusters) != 1 || d.Clusters[0] != "p+large" || !strings.Contains(d.Why["p+large"], "number 1 of 3 (score 1.000: accelerator=h100 1, room for memory 1)") {
		t.Errorf("%+v, %v", d, err)
	}
}

func deployment() customize.Deployment {
	return customize.Deployment{Group: group, Intent: "web", Apps: []customize.App{{Name: "web", Clusters: []v2.ClusterKey{"p+large"}}}}
}

func TestContract(t *testing.T) {
	t.Parallel()
	db := newStore(t)
	need(t, db, "cpu", `{"allocatable":true,"resource":{"name":"cpu","requests":2}}`)
	customizetest.Check(t, hpa.New(db, nil), deployment())
}

func TestWorkloadsGetRequestsAndSelectors(t *testing.T) {
	t.Parallel()
	db := newStore(t)
	need(t, db, "cpu", `{"allocatable":true,"resource":{"name":"cpu","requests":500,"limits":1000,"units":"m"}}`)
	need(t, db, "memory", `{"allocatable":true,"mandatory":true,"resource":{"name":"memory","requests":64}}`)
	need(t, db, "gpu", `{"allocatable":false,"mandatory":true,"resource":{"key":"accelerator","value":"h100"}}`)
	need(t, db, "wish", `{"allocatable":false,"resource":{"key":"fast","value":"yes"}}`)
	put(t, db, intent+"/hpa-resource-consumers/odd", `{"kind":"Rollout","name":"r1-web"}`)
	put(t, db, intent+"/hpa-resource-consumers/odd/resource-requirements/gpu", `{"allocatable":false,"mandatory":true,"resource":{"key":"a"}}`)
	edits, err := hpa.New(db, nil).Customize(t.Context(), deployment())
	if err != nil {
		t.Fatal(err)
	}
	if len(edits.Findings) != 1 || !strings.Contains(edits.Findings[0].Text, "EMCO does not know where a Rollout has its pods") {
		t.Errorf("findings: %+v", edits.Findings)
	}
	objects, err := manifest.Parse("r", []byte(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"r1-web","namespace":"shop"},"spec":{"template":{"spec":{"containers":[{"name":"nginx","image":"a","resources":{"requests":{"cpu":"1"}}},{"name":"side","image":"b"}]}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	r, err := customize.Class{Edits: edits.Edits}.Apply(render.Result{Objects: objects}, render.Request{App: "web", Namespace: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	want := `"spec":{"containers":[{"image":"a","name":"nginx","resources":{"limits":{"cpu":"1"},"requests":{"cpu":"500m","memory":"64M"}}},{"image":"b","name":"side"}],"nodeSelector":{"accelerator":"h100"}}`
	if got := string(r.Objects[0].Content); !strings.Contains(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestAMissingIntentIsInvalid(t *testing.T) {
	t.Parallel()
	h := hpa.New(newStore(t), nothingFree)
	_, err := h.Demands(t.Context(), placement.Deployment{Group: group, Intent: "none"})
	d := deployment()
	d.Intent = "none"
	_, also := h.Customize(t.Context(), d)
	for _, err := range []error{err, also} {
		if !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "HpaIntent not found: none; add it below "+group) {
			t.Errorf("got %v", err)
		}
	}
}

// Consumers without requirements count, too: all are read for each plan.
func TestTheDocumentsOfAGroupAreLimited(t *testing.T) {
	t.Parallel()
	db := newStore(t) // with an intent and a consumer
	for i := range 2998 {
		put(t, db, fmt.Sprintf("%s/hpa-resource-consumers/c%d", intent, i), `{"name":"r1-web"}`)
	}
	d := deploymentOf(three)
	if _, err := hpa.New(db, nothingFree).Demands(t.Context(), d); err != nil {
		t.Errorf("3000 documents: %v", err)
	}
	put(t, db, intent+"/hpa-resource-consumers/last", `{"name":"r1-web"}`)
	if _, err := hpa.New(db, nothingFree).Demands(t.Context(), d); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "more than 3000 intents, consumers and requirements") {
		t.Errorf("3001 documents: %v", err)
	}
}
