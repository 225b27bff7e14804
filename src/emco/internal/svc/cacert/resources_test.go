package cacert_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/cacert"
)

type step = resourcetest.Step

const (
	ofProvider = "/v2/cluster-providers/edge/ca-certs"
	ofProject  = "/v2/projects/p/ca-certs"
)

// serve serves the documents to a caller with the roles of bindings; without any, the caller may do everything.
func serve(t *testing.T, roles map[string][]authz.Rule, bindings ...authz.Binding) *resourcetest.Server {
	t.Helper()
	s := resourcetest.Serve(t, func(r *mux.Router, db *store.DB) {
		if bindings != nil {
			may := authz.NewAuthority(authz.New(roles, bindings), "user:ann", nil, time.Now())
			r.Use(func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					next.ServeHTTP(w, r.WithContext(authz.With(r.Context(), may)))
				})
			})
		}
		cacert.Resources{DB: db}.Mount(r)
	})
	for _, key := range []store.Key{
		"projects/p", "projects/p/logical-clouds/lc", "cluster-providers/edge", "cluster-providers/edge/clusters/c1", "cluster-providers/core", "cluster-providers/core/clusters/c9",
	} {
		if _, err := s.DB.Create(t.Context(), store.Write{Key: key, Body: json.RawMessage("{}")}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// document returns a certificate authority that an issuer on a cluster signs for. Some members are another text.
func document(provider, cluster string, changes ...string) string {
	text := `{"metadata":{"name":"ca"},"spec":{"isCA":true,"issuerRef":{"name":"root","kind":"ClusterIssuer","group":"cert-manager.io"},
		"issuingCluster":{"clusterProvider":"` + provider + `","cluster":"` + cluster + `"},"duration":"8760h",
		"csrInfo":{"keySize":2048,"dnsNames":["ca.example.org"],"algorithm":{"publicKeyAlgorithm":"RSA","signatureAlgorithm":"SHA512WithRSA"},"subject":{"names":{"commonNamePrefix":"edge"}}}}}`
	return strings.NewReplacer(changes...).Replace(text)
}

func group(scope, provider, name string) string {
	return `{"metadata":{"name":"g"},"spec":{"scope":"` + scope + `","clusterProvider":"` + provider + `","` + map[string]string{"name": "cluster", "label": "label"}[scope] + `":"` + name + `"}}`
}

func TestDocumentsOfBothFlavours(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	for _, all := range []string{ofProvider, ofProject} {
		s.Run(t,
			step{Do: "POST " + all, Body: document("edge", "c2"), Status: 409, Text: "cluster-providers/edge/clusters/c2"},
			step{Do: "POST " + all, Body: document("edge", "c1"), Status: 201, Text: `"namespace":"default"`},
			step{Do: "POST " + all, Body: document("edge", "c1"), Status: 409, Text: "=CaCert already exists"},
			step{Do: "PUT " + all + "/ca", Body: document("edge", "c1"), Status: 200},
			step{Do: "GET " + all, Status: 200, Text: `"keyUsages":["cert sign","crl sign","digital signature"]`},
			step{Do: "GET " + all + "/x", Status: 404, Text: "=CaCert not found"},
		)
	}
	clouds := ofProject + "/ca/logical-clouds"
	s.Run(t,
		step{Do: "POST " + clouds, Body: `{"metadata":{"name":"l"},"spec":{"logicalCloud":"none"}}`, Status: 409, Text: "projects/p/logical-clouds/none"},
		step{Do: "POST " + clouds, Body: `{"metadata":{"name":"l"},"spec":{"logicalCloud":"lc"}}`, Status: 201},
	)
	for _, groups := range []string{ofProvider + "/ca/clusters", clouds + "/l/clusters"} {
		s.Run(t,
			step{Do: "POST " + groups, Body: group("name", "edge", "c2"), Status: 409},
			step{Do: "POST " + groups, Body: group("name", "edge", ""), Status: 400, Text: "spec.cluster: missing"},
			step{Do: "POST " + groups, Body: group("label", "edge", ""), Status: 400, Text: "spec.label: missing"},
			step{Do: "POST " + groups, Body: `{"metadata":{"name":"g"},"spec":{"clusterProvider":"edge"}}`, Status: 400, Text: "is neither name nor label"},
			step{Do: "POST " + groups, Body: group("name", "edge", "c1"), Status: 201},
			step{Do: "PUT " + groups + "/g", Body: group("label", "edge", "all"), Status: 200},
			step{Do: "GET " + groups + "/x", Status: 404, Text: "=CaCert ClusterGroup not found"},
			step{Do: "DELETE " + ofProvider + "/ca", Status: 409, Text: "Cannot delete parent"},
		)
	}
	if err := s.DB.Delete(t.Context(), "cluster-providers/edge/clusters/c1", nil); err == nil {
		t.Error("the issuing cluster was deleted")
	}
}

func TestBoundsOfDocuments(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	names := make([]string, 101)
	for i := range names {
		names[i] = fmt.Sprintf("n%d.example.org", i)
	}
	many, err := json.Marshal(names)
	if err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string][2]string{
		"spec.isCA: must be true":                              {`"isCA":true`, `"isCA":false`},
		"spec.issuerRef.name":                                  {`"name":"root"`, `"name":"Root!"`},
		"spec.issuerRef.kind":                                  {`"ClusterIssuer"`, `"Secret"`},
		"spec.duration":                                        {`8760h`, `30m`},
		"spec.csrInfo.keySize: 1024":                           {`"keySize":2048`, `"keySize":1024`},
		"spec.csrInfo.algorithm.publicKeyAlgorithm":            {`"publicKeyAlgorithm":"RSA"`, `"publicKeyAlgorithm":"DSA"`},
		"spec.csrInfo.algorithm.signatureAlgorithm":            {`SHA512WithRSA`, `ECDSAWithSHA256`},
		"spec.csrInfo.dnsNames[0]":                             {`ca.example.org`, `ca example`},
		"spec.csrInfo.dnsNames: 101 entries":                   {`["ca.example.org"]`, string(many)},
		"spec.csrInfo.keyUsages[0]":                            {`"keySize"`, `"keyUsages":["sign all"],"keySize"`},
		"spec.csrInfo.emailAddresses[0]":                       {`"keySize"`, `"emailAddresses":["a@b\nc"],"keySize"`},
		"spec.csrInfo.subject.names.commonNamePrefix":          {`"commonNamePrefix":"edge"`, `"commonNamePrefix":"` + strings.Repeat("x", 41) + `"`},
		"spec.csrInfo.subject.locale.country[0]":               {`"subject":{`, `"subject":{"locale":{"country":["Sweden"]},`},
		"spec.csrInfo.subject.organization.names[0]":           {`"subject":{`, `"subject":{"organization":{"names":["a\u0000b"]},`},
		"spec.csrInfo.subject.organization.units: 11 entries,": {`"subject":{`, `"subject":{"organization":{"units":["1","2","3","4","5","6","7","8","9","10","11"]},`},
	} {
		s.Run(t, step{Do: "POST " + ofProvider, Body: document("edge", "c1", change[0], change[1]), Status: 400, Text: want})
	}
}

// A certificate authority speaks in the name of its issuer, so whoever may write in a project may not use any issuer.
func TestAnIssuerMustAllowItsUse(t *testing.T) {
	t.Parallel()
	in := func(role, place string) authz.Binding {
		return authz.Binding{Name: role, Role: role, Subjects: []string{"user:ann"}, Place: place}
	}
	uses := map[string][]authz.Rule{"issuer-user": {{Verbs: []string{authz.Act("issue")}, Types: []string{"ca-certs"}}}}
	s := serve(t, uses, in(authz.ProjectAdmin, "projects/p"), in(authz.Viewer, "cluster-providers/edge"))
	s.Run(t,
		step{Do: "POST " + ofProject, Body: document("edge", "c1"), Status: 403, Text: "act:issue on ca-certs in cluster-providers/edge"},
		step{Do: "PUT " + ofProject + "/ca", Body: document("edge", "c1"), Status: 403},
	)
	s = serve(t, uses, in(authz.ProjectAdmin, "projects/p"), in(authz.Viewer, "cluster-providers/edge"), in("issuer-user", "cluster-providers/edge"))
	s.Run(t,
		step{Do: "POST " + ofProject, Body: document("core", "c9"), Status: 403},
		step{Do: "POST " + ofProject, Body: document("edge", "c1"), Status: 201},
		step{Do: "POST " + ofProject + "/ca/logical-clouds", Body: `{"metadata":{"name":"l"},"spec":{"logicalCloud":"lc"}}`, Status: 201},
		step{Do: "POST " + ofProject + "/ca/logical-clouds/l/clusters", Body: group("name", "core", "c9"), Status: 403, Text: "to get clusters in cluster-providers/core"},
		step{Do: "POST " + ofProject + "/ca/logical-clouds/l/clusters", Body: group("name", "core", "none"), Status: 403},
		step{Do: "POST " + ofProject + "/ca/logical-clouds/l/clusters", Body: group("name", "edge", "c1"), Status: 201},
	)
	s = serve(t, uses, in(authz.ClusterRegistrar, "cluster-providers/edge"))
	s.Run(t,
		step{Do: "POST " + ofProvider, Body: document("core", "c9"), Status: 403},
		step{Do: "POST " + ofProvider, Body: document("edge", "c1"), Status: 201},
		step{Do: "POST " + ofProvider + "/ca/clusters", Body: group("name", "core", "c9"), Status: 403, Text: "create ca-certs in cluster-providers/core"},
		step{Do: "POST " + ofProvider + "/ca/clusters", Body: group("label", "edge", "all"), Status: 201},
	)
}
