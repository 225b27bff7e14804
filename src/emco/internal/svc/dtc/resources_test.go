package dtc_test

import (
	"strings"
	"testing"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/dtc"
)

type step = resourcetest.Step

const group = store.Key("projects/p/composite-apps/ca/v1/deployment-intent-groups/g")

func serve(t *testing.T) *resourcetest.Server {
	t.Helper()
	s := resourcetest.Serve(t, func(r *mux.Router, db *store.DB) { dtc.Resources{DB: db}.Mount(r) })
	for _, key := range []store.Key{group, "projects/p/composite-apps/ca/v1/apps/web", "projects/p/composite-apps/ca/v1/apps/cache"} {
		if _, err := s.DB.Create(t.Context(), store.Write{Key: key}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func document(name, spec string) string {
	return `{"metadata":{"name":"` + name + `"},"spec":` + spec + `}`
}

const (
	server = `{"app":"web","appLabel":"app=web","serviceName":"r1-web","port":8080,"protocol":"TCP"}`
	client = `{"app":"cache","appLabel":"app=cache","serviceName":"r1-cache","namespaces":[],"cidrs":["10.1.0.0/16"]}`
	point  = `{"action":"ALLOW","url":["/items"],"access":["GET"]}`
)

func TestTrafficIntents(t *testing.T) {
	t.Parallel()
	s := serve(t)
	groups := "/v2/" + string(group) + "/traffic-group-intents"
	servers := groups + "/t/inbound-intents"
	clients := servers + "/web/clients"
	points := clients + "/cache/access-points"
	s.Run(t,
		step{Do: "GET " + groups, Status: 200, Text: "=[]"},
		step{Do: "POST /v2/projects/p/composite-apps/ca/v1/deployment-intent-groups/x/traffic-group-intents", Body: `{"metadata":{"name":"t"}}`, Status: 404, Text: "DeploymentIntentGroup not found"},
		step{Do: "POST " + groups, Body: `{"metadata":{"name":"` + strings.Repeat("a", 64) + `"}}`, Status: 400, Text: "64 characters long, at most 63"},
		step{Do: "POST " + groups, Body: `{"metadata":{"name":"t"}}`, Status: 201},
		step{Do: "POST " + groups, Body: `{"metadata":{"name":"t"}}`, Status: 409, Text: "=TrafficGroupIntent already exists"},
		step{Do: "PUT " + groups + "/t", Body: `{"metadata":{"name":"t","description":"d"}}`, Status: 201},

		step{Do: "POST " + groups + "/none/inbound-intents", Body: document("web", server), Status: 409, Text: "Parent resource not found"},
		step{Do: "POST " + servers, Body: document("web", server), Status: 201, Text: `"serviceName":"r1-web"`},
		step{Do: "POST " + servers, Body: document("bad", `{"app":"","appLabel":"=web","serviceName":"R1","port":0,"protocol":"HTTP","serviceMesh":"linkerd","externalName":"a b","edgeCNF":"-","management":{"sidecarProxy":"maybe","tlsType":"OLD"},"external":{"externalCerts":{"serviceCertificate":"c"}}}`), Status: 400, Text: `- spec.app: missing
- spec.appLabel: "=web" is no label; write KEY=VALUE
- spec.serviceName: "R1" is no name of a Service; use lower-case letters, digits and '-'
- spec.port: 0 is not between 1 and 65535
- spec.protocol: "HTTP" is none of TCP, UDP, SCTP
- spec.serviceMesh: "linkerd" is neither istio nor none
- spec.externalName: "a b" is no host name of at most 128 characters
- spec.edgeCNF: "-" is no value of a label
- spec.management.sidecarProxy: "maybe" is neither yes nor no
- spec.management.tlsType: "OLD" is none of MUTUAL, SIMPLE, NONE
- spec.external.externalCerts: a certificate and its private key belong together`},
		step{Do: "POST " + servers, Body: document("bad", `{"app":"web","appLabel":"web","serviceName":"r1","port":1,"protocol":"SCTP","serviceMesh":"istio","externalSupport":true}`), Status: 400, Text: `- spec.protocol: "SCTP" is none of TCP, HTTP, HTTP2, HTTPS, GRPC, TLS
- spec.externalName: missing; external clients need a host name`},

		step{Do: "POST " + clients, Body: document("cache", client), Status: 201, Text: `"cidrs":["10.1.0.0/16"]`},
		step{Do: "POST " + clients, Body: document("bad", `{"app":"cache","appLabel":"cache","serviceName":"a","namespaces":["A"],"cidrs":["10.1.0.1/16","x"]}`), Status: 400, Text: `- spec.namespaces[0]: "A" is no namespace
- spec.cidrs[0]: "10.1.0.1/16" is no range of addresses; write the first address and the length, such as 10.1.0.0/16
- spec.cidrs[1]: "x" is no range`},
		step{Do: "POST " + clients, Body: document("bad", `{"app":"cache","appLabel":"cache","serviceName":"a"}`), Status: 400, Text: "- spec.namespaces: missing; give a list, which may be empty\n- spec.cidrs: missing"},

		step{Do: "POST " + points, Body: document("read", point), Status: 201},
		step{Do: "POST " + points, Body: document("bad", `{"action":"DENY","url":["items"],"access":["PATCH"]}`), Status: 400, Text: `- spec.action: "DENY" is not "ALLOW"
- spec.url[0]: "items" is no path of at most 4096 characters that begins with a slash
- spec.access[0]: "PATCH" is none of GET, PUT, POST, DELETE`},
		step{Do: "PUT " + points + "/read", Body: document("read", strings.Replace(point, "GET", "POST", 1)), Status: 201, Text: `"access":["POST"]`},
		step{Do: "GET " + points + "/none", Status: 404, Text: "=InboundClientsAccessIntent not found"},
		step{Do: "DELETE " + clients + "/cache", Status: 409, Text: "Cannot delete parent"},
	)
	for _, app := range []store.Key{"web", "cache"} {
		if err := s.DB.Delete(t.Context(), "projects/p/composite-apps/ca/v1/apps/"+app, nil); err == nil {
			t.Errorf("app %s was deleted while an intent names it", app)
		}
	}
	s.Run(t,
		step{Do: "DELETE " + points + "/read", Status: 204},
		step{Do: "DELETE " + clients + "/cache", Status: 204},
		step{Do: "DELETE " + servers + "/web", Status: 204},
		step{Do: "DELETE " + groups + "/t", Status: 204},
	)
}

// The private key of external clients is sealed, and answers never show it.
func TestPrivateKeysAreWriteOnly(t *testing.T) {
	t.Parallel()
	s := serve(t)
	servers := "/v2/" + string(group) + "/traffic-group-intents/t/inbound-intents"
	spec := func(key string) string {
		return strings.TrimSuffix(server, "}") + `,"external":{"externalCerts":{"serviceCertificate":"c","servicePrivateKey":"` + key + `"}}}`
	}
	s.Run(t,
		step{Do: "POST /v2/" + string(group) + "/traffic-group-intents", Body: `{"metadata":{"name":"t"}}`, Status: 201},
		step{Do: "POST " + servers, Body: document("new", spec("***")), Status: 400, Text: `spec.external.externalCerts.servicePrivateKey: "***" stands for a stored value, but there is none`},
		step{Do: "POST " + servers, Body: document("web", spec("a-planted-key")), Status: 201, Text: `"servicePrivateKey":"***"`},
		step{Do: "GET " + servers + "/web", Status: 200, Text: `"servicePrivateKey":"***"`},
		step{Do: "PUT " + servers + "/web", Body: document("web", strings.Replace(spec("***"), "8080", "9090", 1)), Status: 201, Text: `"port":9090`},
	)
	doc, err := s.DB.Get(t.Context(), group+"/traffic-group-intents/t/inbound-intents/web")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(doc.Body), "a-planted-key") {
		t.Errorf("the body has the key: %s", doc.Body)
	}
	plain, err := s.DB.Reveal(t.Context(), doc)
	if err != nil || !strings.Contains(string(plain), `"servicePrivateKey":"a-planted-key"`) || !strings.Contains(string(plain), `"port":9090`) {
		t.Errorf("the secret is %s, %v", plain, err)
	}
}
