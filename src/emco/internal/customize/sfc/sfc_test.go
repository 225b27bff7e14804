package sfc_test

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize/customizetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize/sfc"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

const (
	group = "projects/shop/composite-apps/net/v1/deployment-intent-groups/functions"
	tills = "projects/shop/composite-apps/till/v1/deployment-intent-groups/autumn"
)

// stage is a store with a deployment of two functions, the filter on clusters a and b, the firewall on b and c;
// and with a deployment of clients.
type stage struct {
	*testing.T
	db          *store.DB
	at, clients customize.Deployment
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{T: t, db: resourcetest.DB(t)}
	s.at = customize.Deployment{Group: group, Intent: "inspect", Namespace: "functions", Apps: []customize.App{
		{Name: "filter", Clusters: []v2.ClusterKey{"p+a", "p+b"}},
		{Name: "firewall", Clusters: []v2.ClusterKey{"p+b", "p+c"}},
	}}
	s.clients = customize.Deployment{Group: tills, Intent: "tills", Namespace: "shop", Apps: []customize.App{
		{Name: "web", Clusters: []v2.ClusterKey{"p+a", "p+b"}},
	}}
	s.put("projects/shop/logical-clouds/stores", `{"level":"1","namespace":"shop","labels":{"team":"shop"}}`)
	s.put(group, `{"logicalCloud":"stores"}`)
	s.put(tills, `{"logicalCloud":"stores"}`)
	return s
}

// put adds or replaces a document.
func (s *stage) put(key store.Key, spec string) {
	s.Helper()
	w := store.Write{Key: key, Body: []byte(fmt.Sprintf(`{"metadata":{"name":%q},"spec":%s}`, path.Base(string(key)), spec))}
	doc, err := s.db.Get(s.Context(), key)
	if err == nil {
		_, err = s.db.Replace(s.Context(), w, doc.Rev)
	} else {
		_, err = s.db.Create(s.Context(), w)
	}
	if err != nil {
		s.Fatal(err)
	}
}

// link adds a link of the chain.
func (s *stage) link(name, left, right, app, kind string) {
	s.Helper()
	s.put(store.Key(group+"/network-chains/inspect/links/"+name), fmt.Sprintf(
		`{"leftNet":%q,"rightNet":%q,"linkLabel":"chain=%s","app":%q,"workloadResource":"r1-%s","resourceType":%q}`, left, right, name, app, app, kind))
}

// chain adds a chain of both functions with a client at each end.
func (s *stage) chain() {
	s.Helper()
	s.put(group+"/network-chains/inspect", `{"chainType":"Routing","namespace":""}`)
	s.link("a-second", "middle-net", "right-net", "filter", "StatefulSet")
	s.link("b-first", "left-net", "middle-net", "firewall", "Deployment")
	s.put(group+"/network-chains/inspect/provider-networks/left", `{"chainEnd":"left","providerNetwork":"left-provider","gatewayIp":"172.30.10.2","subnet":"172.30.10.0/24"}`)
	s.put(group+"/network-chains/inspect/provider-networks/right", `{"chainEnd":"right","providerNetwork":"right-provider","gatewayIp":"172.30.20.2","subnet":"172.30.20.0/24"}`)
	s.selector("left", `{"chainEnd":"left","podSelector":{"matchLabels":{"chain":"left"}},"namespaceSelector":{"matchLabels":{"team":"shop"}}}`)
	s.selector("right", `{"chainEnd":"right","podSelector":{"matchLabels":{"chain":"right"},"matchExpressions":[{"key":"tier","operator":"In","values":["web"]}]},"namespaceSelector":{}}`)
}

func (s *stage) selector(name, spec string) {
	s.Helper()
	s.put(store.Key(group+"/network-chains/inspect/client-selectors/"+name), spec)
}

// client adds a client of the chain.
func (s *stage) client(end string) {
	s.Helper()
	s.put(tills+"/sfc-clients/tills", fmt.Sprintf(`{"chainEnd":%q,"sfcIntent":"inspect","compositeApp":"net","deploymentIntentGroup":"functions","app":"web","workloadResource":"r1-web","resourceType":"CronJob"}`, end))
}

// workloads are what the charts of the apps render.
var workloads = map[string]string{
	"filter":   "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: r1-filter}\nspec: {template: {metadata: {labels: {app: filter}}}}\n",
	"firewall": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: r1-firewall}\nspec: {template: {spec: {hostNetwork: false}}}\n",
	"web":      "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: r1-web}\nspec: {schedule: '* * * * *', jobTemplate: {spec: {template: {metadata: {labels: {app: web}}}}}}\n",
}

func TestContract(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.chain()
	s.client("left")
	customizetest.Check(t, sfc.New(s.db), s.at)
	customizetest.Check(t, sfc.NewClient(s.db), s.clients)
}

// Clusters with all links get the object, with the links in order; the pods of all links get their labels.
func TestAChainOfTwoFunctions(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.chain()
	customizetest.Golden(t, "chain", sfc.New(s.db), s.at, workloads)
}

// Pods of a client get the labels that the chain of another deployment selects.
func TestAClientOfAnotherDeployment(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.chain()
	s.client("left")
	customizetest.Golden(t, "client", sfc.NewClient(s.db), s.clients, workloads)
}

func TestLinksThatAreNoChain(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		links [][2]string
		want  string
	}{
		"two at the left":  {[][2]string{{"a", "b"}, {"a", "c"}}, "network-chains/inspect/links/l0 and network-chains/inspect/links/l1 both have the leftNet a"},
		"two at the right": {[][2]string{{"a", "c"}, {"b", "c"}}, "both have the rightNet c"},
		"two chains":       {[][2]string{{"a", "b"}, {"c", "d"}}, "its links are no single chain"},
		"a circle":         {[][2]string{{"a", "b"}, {"b", "a"}}, "its links are no single chain"},
		"a chain and more": {[][2]string{{"a", "b"}, {"c", "d"}, {"d", "c"}}, "its links are no single chain"},
	} {
		s := newStage(t)
		s.chain()
		for _, l := range []store.Key{"a-second", "b-first"} {
			if err := s.db.Delete(t.Context(), group+"/network-chains/inspect/links/"+l, nil); err != nil {
				t.Fatal(err)
			}
		}
		for i, l := range tt.links {
			s.link(fmt.Sprint("l", i), l[0], l[1], "filter", "Deployment")
		}
		if _, err := sfc.New(s.db).Customize(t.Context(), s.at); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want Invalid: %s", name, err, tt.want)
		}
	}
}

// What cannot work is a finding of an app that is deployed.
func TestWhatCannotWorkIsReported(t *testing.T) {
	t.Parallel()
	const chain = group + "/network-chains/inspect"
	for name, tt := range map[string]struct {
		change func(*stage)
		client bool
		want   string
		edits  int
	}{
		"no client selector":  {func(s *stage) { s.remove(chain + "/client-selectors/left") }, false, "has no client at its left end; add a client selector", 3},
		"no provider network": {func(s *stage) { s.remove(chain + "/provider-networks/right") }, false, "has no client at its right end; add a provider network", 3},
		"a link that is not deployed": {
			func(s *stage) { s.at.Apps = s.at.Apps[:1] }, false, "is not made on 2 of the 2 clusters with app filter, because app firewall does not go there", 1,
		},
		"no link": {func(s *stage) { s.remove(chain + "/links/a-second"); s.remove(chain + "/links/b-first") }, false, "", 0},
		"a chain without selectors": {
			func(s *stage) {
				s.remove(chain + "/client-selectors/left")
				s.remove(chain + "/client-selectors/right")
			}, true, "its pods are not selected, because " + chain + " has no client selector at its left end", 0,
		},
		"a namespace without the label": {
			func(s *stage) {
				s.selector("left", `{"chainEnd":"left","podSelector":{"matchLabels":{"a":"b"}},"namespaceSelector":{"matchLabels":{"team":"bank"}}}`)
			}, true,
			"selector left of the chain selects namespaces with the label team=bank, which namespace shop does not have from EMCO; add it to spec.labels of logical cloud stores, and update that", 1,
		},
		"a namespace of level 0": {
			func(s *stage) { s.put("projects/shop/logical-clouds/stores", `{"level":"0","labels":{"team":"shop"}}`) }, true,
			"the label team=shop, which namespace shop does not have from EMCO; label it on the clusters", 1,
		},
		"the namespace of the chain": {
			func(s *stage) {
				s.selector("left", `{"chainEnd":"left","podSelector":{"matchLabels":{"a":"b"}},"namespaceSelector":{}}`)
			}, true,
			"selects pods in the namespace of its own deployment; if that is not shop, give it a namespaceSelector", 1,
		},
		"expressions": {
			func(s *stage) {
				s.client("right")
				s.selector("right", `{"chainEnd":"right","podSelector":{"matchExpressions":[{"key":"a","operator":"Exists"}]},"namespaceSelector":{"matchLabels":{"team":"shop"}}}`)
			}, true, "has matchExpressions; the pods and their namespace must meet them without EMCO's help", 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.chain()
			s.client("left")
			tt.change(s)
			c, d := sfc.New(s.db), s.at
			if tt.client {
				c, d = sfc.NewClient(s.db), s.clients
			}
			edits, err := c.Customize(t.Context(), d)
			if err != nil || len(edits.Edits) != tt.edits {
				t.Errorf("%d edits, %v, want %d", len(edits.Edits), err, tt.edits)
			}
			found := slices.ContainsFunc(edits.Findings, func(f customize.Finding) bool { return tt.want != "" && strings.Contains(f.Text, tt.want) })
			if found != (tt.want != "") || tt.want == "" && len(edits.Findings) > 0 {
				t.Errorf("findings %v, want %q", edits.Findings, tt.want)
			}
		})
	}
}

func (s *stage) remove(key store.Key) {
	s.Helper()
	if err := s.db.Delete(s.Context(), key, nil); err != nil {
		s.Fatal(err)
	}
}

func TestSelectorsThatWantDifferentValues(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.chain()
	s.client("left")
	s.selector("more", `{"chainEnd":"left","podSelector":{"matchLabels":{"chain":"other"}},"namespaceSelector":{}}`)
	if _, err := sfc.NewClient(s.db).Customize(t.Context(), s.clients); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "want label chain both as left and other") {
		t.Errorf("Customize = %v", err)
	}
}

func TestMissingIntentsAreInvalid(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for want, c := range map[string]customize.Controller{"SfcIntent not found: inspect; add it below " + group: sfc.New(s.db), "SfcClientIntent not found: inspect": sfc.NewClient(s.db)} {
		if _, err := c.Customize(t.Context(), s.at); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("Customize = %v, want %s", err, want)
		}
	}
}
