package ncm_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/contexttest"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/ncm"
)

type step = resourcetest.Step

const (
	clusterKey = store.Key("cluster-providers/edge/clusters/c1")
	cluster    = "/v2/" + string(clusterKey)
	subnets    = `"cniType":"ovn4nfv","ipv4Subnets":[{"name":"v4","subnet":"10.20.0.0/24","gateway":"10.20.0.1/24","excludeIps":"10.20.0.2 10.20.0.5..10.20.0.9"}]`
	vlan       = `"vlan":{"vlanId":"100","providerInterfaceName":"eth1","logicalInterfaceName":"eth1.100","vlanNodeSelector":"specific","nodeLabelList":["zone=a"]}`
)

// fixture is a server with the cluster edge+c1.
type fixture struct {
	*resourcetest.Server
	t        *testing.T
	contexts *appcontext.Store
	networks *ncm.Networks
	doc      store.Doc
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	f := fixture{t: t, contexts: contexttest.New(t)}
	f.Server = resourcetest.Serve(t, func(r *mux.Router, db *store.DB) {
		f.networks = ncm.New(db, f.contexts)
		f.networks.Mount(r)
	})
	var err error
	if f.doc, err = f.DB.Create(t.Context(), store.Write{Key: clusterKey, Body: json.RawMessage(`{}`)}); err != nil {
		t.Fatal(err)
	}
	return f
}

func document(name, spec string) string {
	return `{"metadata":{"name":"` + name + `"},"spec":{` + spec + `}}`
}

func (f fixture) add(name string) {
	f.t.Helper()
	f.Run(f.t, step{Do: "POST " + cluster + "/networks", Body: document(name, subnets), Status: 201})
}

// publish carries out the operation that waits, and returns the next head and the objects.
func (f fixture) publish() (appcontext.Head, map[string]string) {
	f.t.Helper()
	head, err := f.contexts.Head(f.t.Context(), appcontext.HeadID(f.doc.UID))
	if err != nil || head.Op == nil {
		f.t.Fatalf("no operation waits: %+v %v", head, err)
	}
	if head, err = f.networks.Publish(f.t.Context(), f.contexts, head, f.doc); err != nil {
		f.t.Fatal(err)
	}
	places, err := f.contexts.Placements(f.t.Context(), head.UID, head.Rev)
	if err != nil || len(places) != 1 || places[0].Cluster != "edge+c1" {
		f.t.Fatalf("the placements are %+v %v, want the cluster alone", places, err)
	}
	bundle, err := f.contexts.GetBundle(f.t.Context(), places[0].Apps["network-intents"])
	if err != nil {
		f.t.Fatal(err)
	}
	out := map[string]string{}
	for _, ref := range bundle.Objects {
		content, err := f.contexts.GetBlob(f.t.Context(), ref.Digest)
		if err != nil {
			f.t.Fatal(err)
		}
		out[ref.ID.String()] = string(content)
	}
	return head, out
}

func TestNetworksBecomeObjects(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.add("tills")
	f.Run(t,
		step{Do: "POST " + cluster + "/networks", Body: document("six", `"cniType":"ovn4nfv","ipv6Subnets":[{"name":"v6","subnet":"fd00::/64"}]`), Status: 201},
		step{Do: "POST " + cluster + "/provider-networks", Body: document("branch", subnets+`,"providerNetType":"vlan",`+vlan), Status: 201, Text: `"vlanID":"100"`},
		step{Do: "POST " + cluster + "/provider-networks", Body: document("lan", subnets+`,"providerNetType":"DIRECT","vlan":{"providerInterfaceName":"eth2","vlanNodeSelector":"any"}`), Status: 201},
		step{Do: "POST " + cluster + "/apply", Status: 204, Text: "="},
	)
	head, objects := f.publish()
	if head.Rev != 1 || head.State != appcontext.NetworksApplied || head.Op != nil {
		t.Errorf("the head is %+v, want revision 1 without an operation", head)
	}
	const v4 = `"ipv4Subnets":[{"excludeIps":"10.20.0.2 10.20.0.5..10.20.0.9","gateway":"10.20.0.1/24","name":"v4","subnet":"10.20.0.0/24"}]`
	for id, want := range map[string]string{
		"k8s.plugin.opnfv.org/v1alpha1 Network default/tills":          `"spec":{"cniType":"ovn4nfv",` + v4 + `}`,
		"k8s.plugin.opnfv.org/v1alpha1 Network default/six":            `"spec":{"cniType":"ovn4nfv","ipv4Subnets":[],"ipv6Subnets":[{"name":"v6","subnet":"fd00::/64"}]}`,
		"k8s.plugin.opnfv.org/v1alpha1 ProviderNetwork default/branch": `"providerNetType":"VLAN","vlan":{"logicalInterfaceName":"eth1.100","nodeLabelList":["zone=a"],"providerInterfaceName":"eth1","vlanId":"100","vlanNodeSelector":"specific"}`,
		"k8s.plugin.opnfv.org/v1alpha1 ProviderNetwork default/lan":    `"spec":{"cniType":"ovn4nfv","direct":{"directNodeSelector":"any","providerInterfaceName":"eth2"},` + v4 + `,"providerNetType":"DIRECT"}`,
	} {
		if !strings.Contains(objects[id], want) {
			t.Errorf("%s is\n%s\nwithout\n%s", id, objects[id], want)
		}
	}
	if len(objects) != 4 {
		t.Errorf("%d objects, want 4", len(objects))
	}
}

func TestTheLifeOfNetworks(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const names, one = cluster + "/networks", cluster + "/networks/tills"
	f.Run(t,
		step{Do: "GET " + cluster + "/status", Status: 200, Text: `{"clusterProvider":"edge","name":"c1","states":{"statusctxid":"","actions":[{"state":"Created"`},
		step{Do: "POST " + cluster + "/apply", Status: 400, Text: "the cluster has no networks; add one below " + string(clusterKey) + "/networks"},
		step{Do: "POST " + cluster + "/terminate", Status: 409, Text: "not allowed in state Created; allowed in Applied, InstantiateStopped"},
		step{Do: "POST " + cluster + "/stop", Status: 409},
		step{Do: "POST /v2/cluster-providers/edge/clusters/x/apply", Status: 404, Text: "Cluster not found"},
		step{Do: "POST /v2/cluster-providers/edge/clusters/x/networks", Body: document("tills", subnets), Status: 409},
		step{Do: "GET /v2/cluster-providers/edge/clusters/x/status", Status: 404, Text: "Cluster not found"},
		step{Do: "GET /v2/cluster-providers/edge/clusters/x/networks", Status: 404, Text: "Cluster not found"},
	)
	f.add("tills")
	f.Run(t,
		step{Do: "PUT " + one, Body: document("tills", subnets), Status: 201},
		step{Do: "POST " + cluster + "/apply?dryRun=true", Status: 200, Text: `"state":"Applied"`},
		step{Do: "POST " + cluster + "/apply", Body: `{"metadata":{"name":""}}`, Status: 204, Text: "="},
		step{Do: "GET " + cluster + "/status", Status: 200, Text: `"status":"Instantiating"`},
	)
	f.publish()
	f.Run(t,
		step{Do: "POST " + cluster + "/apply", Status: 204, Text: "="},
		step{Do: "POST " + cluster + "/apply?dryRun=true", Status: 200, Text: `"state":"Applied"`},
		step{Do: "GET " + cluster + "/status?status=deployed", Status: 200, Text: `"deployedCounts":{"Pending":1},`},
		step{Do: "GET " + cluster + "/status?status=deployed", Status: 200, Text: `"cluster":{"clusterProvider":"edge","cluster":"c1"`},
		step{Do: "GET " + cluster + "/status?output=summary", Status: 200, Text: `"rsyncStatus":{"Pending":1}`},
		step{Do: "GET " + cluster + "/status?status=deployed&resource=tills&app=network-intents&apps", Status: 200, Text: `"resources":[{"GVK":{"Group":"k8s.plugin.opnfv.org","Version":"v1alpha1","Kind":"Network"},"name":"tills","deployedStatus":"Pending","namespace":"default"}]`},
		step{Do: "GET " + cluster + "/status?app=other", Status: 400, Text: "Invalid app query"},
		step{Do: "GET " + cluster + "/status?status=up", Status: 400, Text: "=Invalid query status"},
		step{Do: "GET " + cluster + "/status?instance=5", Status: 400, Text: "Invalid query instance"},

		step{Do: "POST " + names, Body: document("more", subnets), Status: 409, Text: "the networks of the cluster are applied; terminate them first, with POST " + cluster + "/terminate"},
		step{Do: "PUT " + one, Body: document("tills", subnets), Status: 201}, // it changes nothing
		step{Do: "PUT " + one, Body: document("tills", `"cniType":"ovn4nfv","ipv4Subnets":[{"name":"v4","subnet":"10.21.0.0/24"}]`), Status: 409, Text: "are applied"},
		step{Do: "PUT " + names + "/more", Body: document("more", subnets), Status: 409, Text: "are applied"},
		step{Do: "DELETE " + one, Status: 409, Text: "are applied"},

		step{Do: "POST " + cluster + "/stop", Status: 204, Text: "="},
		step{Do: "POST " + cluster + "/apply", Status: 409, Text: "not allowed in state InstantiateStopped"},
		step{Do: "POST " + cluster + "/terminate", Status: 204, Text: "="},
		step{Do: "POST " + cluster + "/terminate", Status: 409, Text: "not allowed in state Terminated"},
		step{Do: "GET " + cluster + "/status?status=deployed", Status: 200, Text: `"deployedStatus":"Terminated"`},
		step{Do: "POST " + names, Body: document("more", subnets), Status: 201},
		step{Do: "POST " + cluster + "/apply", Status: 204},
	)
	if _, objects := f.publish(); len(objects) != 2 {
		t.Errorf("the second apply brings %d networks, want 2", len(objects))
	}
}

// A failed apply may be repeated: the state alone does not prove that the networks are on the cluster.
func TestAFailedApplyIsRepeated(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.add("tills")
	f.Run(t, step{Do: "POST " + cluster + "/apply", Status: 204})
	head, err := f.contexts.Head(t.Context(), appcontext.HeadID(f.doc.UID))
	if err != nil {
		t.Fatal(err)
	}
	to := head
	to.Op, to.Failure = nil, "no reason"
	if _, err := f.contexts.ChangeHeads(t.Context(), appcontext.HeadChange{From: head, To: to}); err != nil {
		t.Fatal(err)
	}
	f.Run(t,
		step{Do: "GET " + cluster + "/status", Status: 200, Text: `"failure":"no reason"`},
		step{Do: "POST " + cluster + "/apply", Status: 204},
	)
	if head, objects := f.publish(); head.Rev != 2 || len(objects) != 1 || head.Failure != "" {
		t.Errorf("the head is %+v with %d objects, want revision 2 without a failure", head, len(objects))
	}
}

// A network that was added in the moment of the apply is not on the cluster; the next apply brings it there.
func TestAnApplyBringsWhatTheLastOneMissed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.add("tills")
	f.Run(t, step{Do: "POST " + cluster + "/apply", Status: 204})
	f.publish()
	var late v2.Network
	if err := json.Unmarshal([]byte(document("late", subnets)), &late); err != nil {
		t.Fatal(err)
	}
	resourcetest.Put(t, f.DB, clusterKey+"/networks/late", late, "")
	f.Run(t, step{Do: "POST " + cluster + "/apply", Status: 204})
	if head, objects := f.publish(); head.Rev != 2 || len(objects) != 2 {
		t.Errorf("revision %d has %d networks, want revision 2 with both", head.Rev, len(objects))
	}
}

func TestAClusterWithAppliedNetworksStays(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	guards := f.networks.Guards()
	for name, guard := range map[string]func(context.Context, store.Doc) error{"delete": guards.Delete, "deleted": guards.Deleted} {
		if err := guard(t.Context(), f.doc); err != nil {
			t.Errorf("%s of a cluster without networks: %v", name, err)
		}
	}
	f.add("tills")
	f.Run(t, step{Do: "POST " + cluster + "/apply", Status: 204})
	for name, guard := range map[string]func(context.Context, store.Doc) error{"delete": guards.Delete, "deleted": guards.Deleted} {
		if err := guard(t.Context(), f.doc); !errs.Is(err, errs.Conflict) || !strings.Contains(err.Error(), "terminate them first") {
			t.Errorf("%s of a cluster with applied networks: %v, want a conflict", name, err)
		}
	}
	f.Run(t, step{Do: "POST " + cluster + "/terminate", Status: 204})
	if err := guards.Deleted(t.Context(), f.doc); err != nil {
		t.Fatal(err)
	}
	if _, err := f.contexts.Head(t.Context(), appcontext.HeadID(f.doc.UID)); !errs.Is(err, errs.NotFound) {
		t.Errorf("the AppContext still has the record of the cluster: %v", err)
	}
}

func TestNetworksAreRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	subnet := func(members string) string { return `"cniType":"ovn4nfv","ipv4Subnets":[{` + members + `}]` }
	for _, tt := range []struct{ kind, name, spec, text string }{
		{"networks", "Tills", subnets, `metadata.name: "Tills" is no name of an object`},
		{"networks", strings.Repeat("n", 64), subnets, "use at most 63"},
		{"networks", "n", `"ipv4Subnets":[{"name":"a","subnet":"10.0.0.0/8"}]`, `spec.cniType: "" is not ovn4nfv`},
		{"networks", "n", `"cniType":"ovn4nfv"`, "spec.ipv4Subnets: missing; give at least one subnet"},
		{"networks", "n", subnet(`"name":"","subnet":"10.0.0.0"`), "- spec.ipv4Subnets[0].name: missing\n- spec.ipv4Subnets[0].subnet: \"10.0.0.0\" is no range"},
		{"networks", "n", subnet(`"name":"a","subnet":"fd00::/64"`), "spec.ipv4Subnets[0].subnet"},
		{"networks", "n", `"cniType":"ovn4nfv","ipv6Subnets":[{"name":"a","subnet":"10.0.0.0/8"}]`, "spec.ipv6Subnets[0].subnet"},
		{"networks", "n", subnet(`"name":"a","subnet":"10.0.0.0/8"},{"name":"a","subnet":"11.0.0.0/8"`), `spec.ipv4Subnets[1].name: "a" is the name of another subnet`},
		{"networks", "n", subnet(`"name":"a","subnet":"10.0.0.0/8","gateway":"11.0.0.1/8"`), "is no address in 10.0.0.0/8 with a length"},
		{"networks", "n", subnet(`"name":"a","subnet":"10.0.0.0/8","excludeIps":"10.0.0.9..10.0.0.5"`), "spec.ipv4Subnets[0].excludeIps"},
		{"networks", "n", subnet(`"name":"a","subnet":"10.0.0.0/8","excludeIps":"10.0.0.1..10.0.0.5..10.0.0.7"`), "spec.ipv4Subnets[0].excludeIps"},
		{"networks", "n", subnet(`"name":"a","subnet":"10.0.0.0/8","excludeIps":"` + strings.Repeat("10.0.0.1 ", 500) + `"`), "at most 4096 are allowed"},
		{"provider-networks", "n", subnets, `spec.providerNetType: "" is neither VLAN nor DIRECT`},
		{"provider-networks", "n", subnets + `,"providerNetType":"VLAN","vlan":{"vlanID":"4096","providerInterfaceName":"","vlanNodeSelector":"some"}`, "- spec.vlan.vlanID: \"4096\" is no number from \"0\" to \"4095\"\n- spec.vlan.providerInterfaceName: \"\" is no name of an interface"},
		{"provider-networks", "n", subnets + `,"providerNetType":"VLAN","vlan":{"vlanID":"01","providerInterfaceName":"eth1","vlanNodeSelector":"some"}`, "spec.vlan.vlanID: \"01\" is no number from \"0\" to \"4095\"\n- spec.vlan.vlanNodeSelector: \"some\" is neither any nor specific"},
		{"provider-networks", "n", subnets + `,"providerNetType":"VLAN","vlan":{"vlanID":"1","providerInterfaceName":"eth1","vlanNodeSelector":"specific"}`, "spec.vlan.nodeLabelList: missing"},
		{"provider-networks", "n", subnets + `,"providerNetType":"VLAN","vlan":{"vlanID":"1","providerInterfaceName":"eth1","logicalInterfaceName":"a b","vlanNodeSelector":"specific","nodeLabelList":["zone"]}`, `- spec.vlan.logicalInterfaceName: "a b"`},
	} {
		f.Run(t, step{Do: "POST " + cluster + "/" + tt.kind, Body: document(tt.name, tt.spec), Status: 400, Text: tt.text})
	}
	f.Run(t, step{Do: "POST " + cluster + "/provider-networks", Body: document("n", subnets+`,"providerNetType":"VLAN","vlan":{"vlanID":100}`), Status: 422})
}

func TestAClusterHasAtMost500Networks(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for i := range 501 {
		name := fmt.Sprint("n", i)
		resourcetest.Put(t, f.DB, clusterKey+"/networks/"+store.Key(name), v2.Network{Named: v2.Named{Metadata: v2.Metadata{Name: name}}}, "")
	}
	f.Run(t, step{Do: "POST " + cluster + "/apply", Status: 400, Text: "more than 500 networks"})
}
