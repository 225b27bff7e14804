package dtc_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize/customizetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize/dtc"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

const (
	group  = "projects/shop/composite-apps/till/v1/deployment-intent-groups/autumn"
	intent = group + "/traffic-group-intents/traffic"
)

// stage is a store with a traffic group intent, and the deployment of two apps: the server on
// clusters a and b, its client on b and c.
type stage struct {
	*testing.T
	db    *store.DB
	dtc   customize.Controller
	at    customize.Deployment
	pairs map[v2.ClusterKey]map[string]string
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{T: t, db: resourcetest.DB(t), pairs: map[v2.ClusterKey]map[string]string{}}
	s.dtc = dtc.New(s.db)
	s.at = customize.Deployment{
		Group: group, Intent: "traffic", Namespace: "shop",
		Apps: []customize.App{
			{Name: "cache", Clusters: []v2.ClusterKey{"p+b", "p+c"}},
			{Name: "pos", Clusters: []v2.ClusterKey{"p+c", "p+d"}},
			{Name: "web", Clusters: []v2.ClusterKey{"p+a", "p+b"}},
		},
		KeyValues: func(c v2.ClusterKey) (map[string]string, error) { return s.pairs[c], nil },
	}
	for _, key := range []store.Key{group, intent} {
		if _, err := s.db.Create(t.Context(), store.Write{Key: key}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// put adds a document below the intent.
func (s *stage) put(path, spec, secret string) {
	s.Helper()
	name := path[strings.LastIndexByte(path, '/')+1:]
	resourcetest.Put(s.T, s.db, store.Key(intent+"/"+path), document(name, spec), secret)
}

func document(name, spec string) json.RawMessage {
	return json.RawMessage(`{"metadata":{"name":"` + name + `"},"spec":` + spec + `}`)
}

// server adds a server of app web, with more members of its spec.
func (s *stage) server(name, members string) {
	s.Helper()
	s.put("inbound-intents/"+name, server(members), "")
}

func server(members string) string {
	return `{"app":"web","appLabel":"app=web","serviceName":"r1-web","port":8080` + members + `}`
}

// client adds a client of a server.
func (s *stage) client(of, app, namespaces, cidrs string) {
	s.Helper()
	s.put("inbound-intents/"+of+"/clients/"+app, fmt.Sprintf(`{"app":%q,"appLabel":%q,"serviceName":"r1-%s","namespaces":%s,"cidrs":%s}`, app, app, app, namespaces, cidrs), "")
}

// golden compares what the clusters get with a file.
func (s *stage) golden(name string) {
	s.Helper()
	customizetest.Golden(s, name, s.dtc, s.at, nil)
}

func TestContract(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.server("web", `,"protocol":"HTTP","serviceMesh":"istio","externalSupport":true,"externalName":"till.example.org","edgeCNF":"edge"`)
	s.client("web", "cache", `[]`, `["10.1.0.0/16"]`)
	s.put("inbound-intents/web/clients/cache/access-points/read", `{"action":"ALLOW","url":["/items"],"access":["GET"]}`, "")
	s.pairs["p+a"] = map[string]string{"istioIngressGatewayAddress": "192.0.2.1", "serviceAddress": "192.0.2.1"}
	customizetest.Check(t, s.dtc, s.at)
}

// Without a mesh only the clients connect, and those on other clusters find the addresses of the
// server's clusters.
func TestNetworkPoliciesAndServiceDiscovery(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.server("Web_1", `,"protocol":"TCP"`)
	s.client("Web_1", "cache", `["shop","till"]`, `["10.1.0.0/16"]`)
	s.client("Web_1", "pos", `[]`, `[]`)
	s.pairs["p+a"] = map[string]string{"serviceAddress": "192.0.2.1"}
	s.pairs["p+b"] = map[string]string{"serviceAddress": "2001:db8::1"}
	s.server("idle", `,"protocol":"UDP"`)
	s.golden("policies")
}

// In Istio's mesh clients on other clusters connect through gateways, whose ports differ by cluster.
func TestIstioAcrossClusters(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.server("web", `,"protocol":"http","serviceMesh":"istio"`)
	s.client("web", "cache", `[]`, `["10.1.0.0/16"]`)
	s.client("web", "pos", `["registers"]`, `[]`)
	s.put("inbound-intents/web/clients/cache/access-points/read", `{"action":"ALLOW","url":["/items","/items/*"],"access":["GET"]}`, "")
	s.put("inbound-intents/web/clients/cache/access-points/write", `{"action":"ALLOW","url":["/orders"],"access":["PUT","POST"]}`, "")
	s.pairs["p+a"] = map[string]string{"istioIngressGatewayAddress": "192.0.2.1", "istioIngressGatewayPort": "31443"}
	s.pairs["p+b"] = map[string]string{"istioIngressGatewayAddress": "gateway.b.example.org", "istioIngressGatewayInternalPort": "8443"}
	s.golden("istio")
}

// External clients get a host name and the certificates of the intent.
func TestIstioForExternalClients(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	full := server(`,"protocol":"HTTP","serviceMesh":"istio","externalSupport":true,"externalName":"till.example.org","external":{"externalCerts":{"serviceCertificate":"-----BEGIN CERTIFICATE-----\nA","servicePrivateKey":"` + base64.StdEncoding.EncodeToString([]byte("-----BEGIN KEY-----\nB")) + `","caCertificate":"C"}}`)
	s.put("inbound-intents/web", strings.ReplaceAll(full, `"servicePrivateKey":"`, `"x":"`), string(document("web", full)))
	s.server("plain", `,"protocol":"HTTP","serviceMesh":"istio","externalSupport":true,"externalName":"plain.example.org"`)
	s.server("tls", `,"protocol":"TLS","serviceMesh":"istio","externalSupport":true,"externalName":"tls.example.org"`)
	s.golden("external")
}

func TestSDEWAN(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.server("web", `,"protocol":"TCP","edgeCNF":"edge"`)
	s.client("web", "cache", `[]`, `[]`)
	s.pairs["p+a"] = map[string]string{"serviceAddress": "192.0.2.1", "SdewanCnfPort": "30080", "SdewanServiceAllowedCidr": "10.2.0.0/16, 10.3.0.0/16"}
	s.golden("sdewan")
}

// Registered dtc-controllers decide which objects are made.
func TestRegisteredControllersDecide(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.server("web", `,"protocol":"TCP","serviceMesh":"istio"`)
	s.client("web", "cache", `[]`, `[]`)
	kinds := func() (out string) {
		edits, err := s.dtc.Customize(t.Context(), s.at)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range edits.Edits {
			var o struct{ Kind string }
			if err := json.Unmarshal(e.Object, &o); err != nil {
				t.Fatal(err)
			}
			out += o.Kind + " "
		}
		return out
	}
	if got := kinds(); got != "NetworkPolicy DestinationRule " {
		t.Errorf("without registrations: %s", got)
	}
	for _, step := range []struct{ name, want string }{{"foreign", "NetworkPolicy DestinationRule "}, {"its", "DestinationRule "}, {"nps", "NetworkPolicy DestinationRule "}} {
		resourcetest.Put(t, s.db, store.Key("dtc-controllers/"+step.name), document(step.name, `{}`), "")
		if got := kinds(); got != step.want {
			t.Errorf("with %s: %s, want %s", step.name, got, step.want)
		}
	}
}

// What cannot work is an error if users must correct it, else a finding.
func TestWhatCannotWorkIsReported(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		members string
		pairs   map[string]string
		finding string
		err     string
	}{
		"no address":                   {`,"protocol":"TCP"`, nil, "clients on cluster p+c do not find r1-web, because no cluster of app web has the key-value pair serviceAddress", ""},
		"no gateway":                   {`,"protocol":"TCP","serviceMesh":"istio"`, nil, "clients on cluster p+c do not reach it, because no cluster of app web has the key-value pair istioIngressGatewayAddress", ""},
		"no mutual TLS":                {`,"protocol":"TCP","serviceMesh":"istio","management":{"tlsType":"none"}`, nil, "gateways forward only connections with mutual TLS", ""},
		"requests that nobody reads":   {`,"protocol":"TCP","serviceMesh":"istio"`, nil, "access points change nothing, because Istio does not read requests of protocol TCP", ""},
		"pods without a proxy":         {`,"protocol":"HTTP","serviceMesh":"istio","management":{"sidecarProxy":"no"}`, nil, "access points change nothing, because its pods have no proxy", ""},
		"a port that is none":          {`,"protocol":"TCP","serviceMesh":"istio"`, map[string]string{"istioIngressGatewayAddress": "192.0.2.1", "istioIngressGatewayPort": "https"}, "", `istioIngressGatewayPort of cluster p+b is "https", which is no port`},
		"ranges that are none":         {`,"protocol":"TCP","edgeCNF":"edge"`, map[string]string{"SdewanServiceAllowedCidr": "10.0.0.0"}, "", "SdewanServiceAllowedCidr of cluster p+b has 10.0.0.0, which is no range"},
		"plain TCP for everybody else": {`,"protocol":"TCP","serviceMesh":"istio","externalSupport":true,"externalName":"a.example.org"`, nil, "", "external clients of protocol TCP need certificates"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.server("web", tt.members)
			s.client("web", "cache", `[]`, `[]`)
			s.put("inbound-intents/web/clients/cache/access-points/read", `{"action":"ALLOW","url":["/items"],"access":["GET"]}`, "")
			s.pairs["p+b"] = tt.pairs
			edits, err := s.dtc.Customize(t.Context(), s.at)
			if tt.err != "" {
				if !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("got %v, want Invalid: %s", err, tt.err)
				}
				return
			}
			if err != nil || !strings.Contains(fmt.Sprint(edits.Findings), tt.finding) {
				t.Errorf("findings %v, %v, want %s", edits.Findings, err, tt.finding)
			}
		})
	}
}

func TestAMissingIntentIsInvalid(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.at.Intent = "none"
	if _, err := s.dtc.Customize(t.Context(), s.at); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "TrafficGroupIntent not found: none; add it below "+group) {
		t.Errorf("Customize = %v", err)
	}
}
