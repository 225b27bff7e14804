package clm_test

import (
	"context"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/gorilla/mux"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/clm"
	backends "github.com/emco-orchestrator/emco/src/emco/internal/syncer/all"
)

type step = resourcetest.Step

func serve(t *testing.T) *resourcetest.Server { return serveGuarded(t, resource.Guards{}) }

// serveGuarded serves clusters whose networks have guards.
func serveGuarded(t *testing.T, networks resource.Guards) *resourcetest.Server {
	return resourcetest.Serve(t, func(r *mux.Router, db *store.DB) {
		clm.Resources{DB: db, Backends: backends.Backends(), Delivered: held, Wanted: wanted, Moves: newFakeRelocations(), Networks: networks}.Mount(r)
	})
}

// held reports that something is deployed on the one cluster that these tests deploy to.
func held(_ context.Context, cluster v2.ClusterKey) (bool, error) { return cluster == "edge+c2", nil }

// planted is found in no answer and no log line.
const planted = "s3cr3t-planted"

func named(name string) string { return `{"metadata":{"name":"` + name + `"}}` }

func kubeconfig(user string) string {
	return `apiVersion: v1
kind: Config
current-context: ctx
contexts: [{name: ctx, context: {cluster: kube, user: me}}]
clusters: [{name: kube, cluster: {server: "https://127.0.0.1:6443"}}]
users: [{name: me, user: ` + user + `}]
`
}

var direct = kubeconfig("{token: " + planted + "}")

const (
	repo = `{"metadata":{"name":"repo"},"spec":{"kv":[{"gitType":"git"},{"userName":"me"},{"gitToken":"` + planted + `"},{"repoName":"r"},{"branch":"main"},{"url":"https://git.example/me/r.git"}]}}`
	flux = `{"metadata":{"name":"c2"},"spec":{"gitOps":{"gitOpsType":"FluxV2","gitOpsReferenceObject":"repo","gitOpsResourceObject":"repo"}}}`
)

func TestProviders(t *testing.T) {
	t.Parallel()
	const all = "/v2/cluster-providers"
	serve(t).Run(t,
		step{Do: "GET " + all, Status: 200, Text: "=[]"},
		step{Do: "POST " + all, Status: 400, Text: "=Empty body"},
		step{Do: "POST " + all, Body: "{", Status: 422},
		step{Do: "POST " + all, Body: `{"metadata":{"name":7}}`, Status: 422, Text: "metadata.name"},
		step{Do: "POST " + all, Body: `{}`, Status: 400, Text: "=Invalid Input:\n- metadata.name: missing"},
		step{Do: "POST " + all, Body: named("edge"), Status: 201, Text: `={"metadata":{"name":"edge","description":"","userData1":"","userData2":""}}`},
		step{Do: "POST " + all, Body: named("edge"), Status: 409, Text: "=ClusterProvider already exists"},
		step{Do: "PUT " + all + "/edge", Body: named("other"), Status: 400, Text: "=Mismatched name in PUT request"},
		step{Do: "PUT " + all + "/edge", Body: `{"metadata":{"description":"d"}}`, Status: 201, Text: `"name":"edge","description":"d"`},
		step{Do: "GET " + all + "/edge", Status: 200, Text: `"description":"d"`},
		step{Do: "GET " + all + "/none", Status: 404, Text: "=Cluster provider not found"},
		step{Do: "DELETE " + all + "/none", Status: 404, Text: "=The requested resource not found"},
		step{Do: "PATCH " + all + "/edge", Status: 405, Text: "="},
		step{Do: "GET " + all + "/", Status: 404},
		step{Do: "DELETE " + all + "/edge", Status: 204, Text: "="},
	)
}

func TestClusters(t *testing.T) {
	t.Parallel()
	s := serve(t)
	const p, all = "/v2/cluster-providers", "/v2/cluster-providers/edge/clusters"
	s.Run(t,
		step{Do: "POST " + all, Body: named("c1"), File: direct, Status: 409, Text: "Cannot perform requested operation. Parent resource not found"},
		step{Do: "GET " + all, Status: 404, Text: "=Cluster provider not found"},
		step{Do: "GET " + all + "?label=x", Status: 404, Text: "=Cluster provider not found"},
		step{Do: "POST " + p, Body: named("edge"), Status: 201},
		step{Do: "GET " + all, Status: 200, Text: "=[]"},
		step{Do: "POST " + all, Body: named("c1"), Status: 422, Text: `request Content-Type isn't multipart/form-data: send multipart/form-data with`},
		step{
			Do: "POST " + all, Body: named("c1"), File: direct, Status: 201,
			Text: `"spec":{"gitOps":{"gitOpsType":"","gitOpsReferenceObject":"","gitOpsResourceObject":""}}`,
		},
		step{Do: "POST " + all, Body: named("c1"), File: direct, Status: 409, Text: "=Cluster already exists"},
		step{Do: "POST " + all, Body: named("C1"), File: direct, Status: 409, Text: ": c1"},
		step{Do: "POST " + all, Body: named("b_c"), File: direct, Status: 201},
		step{Do: "POST " + all, Body: named("b-c"), File: direct, Status: 409, Text: ": b_c"},
		step{Do: "PUT " + all + "/c1", Body: named("c1"), File: direct, Status: 200, Text: `"name":"c1"`},
		step{Do: "POST " + all, Body: flux, Status: 409, Text: "Referenced resource not found: cluster-providers/edge/cluster-sync-objects/repo"},
		step{Do: "POST " + p + "/edge/cluster-sync-objects", Body: strings.Replace(repo, "https://git", "file:///git", 1), Status: 400, Text: "url: file:// is not allowed here"},
		step{Do: "POST " + p + "/edge/cluster-sync-objects", Body: repo, Status: 201},
		step{Do: "POST " + all, Body: strings.Replace(flux, "FluxV2", "subversion", 1), Status: 400, Text: `fluxcd (fluxv2, flux), azureArcV2 (azureArc), anthos`},
		step{Do: "POST " + all, Body: strings.Replace(flux, "FluxV2", "exec", 1), Status: 400, Text: "this program has no sync backend \"exec\"; use one of anthos, argocd,"},
		step{Do: "POST " + all, Body: flux, File: "a: dummy", Status: 201, Text: `"gitOpsType":"fluxcd"`},
		step{Do: "PUT " + p + "/edge/cluster-sync-objects/repo", Body: strings.Replace(repo, "https://git", "file:///git", 1), Status: 400, Text: "what cluster c2 uses"},
		step{Do: "PUT " + p + "/edge/cluster-sync-objects/repo", Body: strings.Replace(repo, planted, planted+"2", 1), Status: 201},
		step{
			Do: "PUT " + p + "/edge/cluster-sync-objects/repo", Body: strings.Replace(repo, "https://git.example", "https://new.example", 1),
			Status: 409, Text: "cannot change while something is deployed on cluster edge+c2",
		},
		step{Do: "PUT " + p + "/edge/cluster-sync-objects/repo", Body: strings.Replace(repo, `"main"`, `"other"`, 1), Status: 409, Text: "cluster edge+c2"},
		step{
			Do: "DELETE " + p + "/edge/cluster-sync-objects/repo", Status: 409,
			Text: "=Cannot delete without deleting or updating referencing resources first: cluster-providers/edge/clusters/c2",
		},
		step{Do: "DELETE " + p + "/edge", Status: 409, Text: "Cannot delete parent without deleting child references first: cluster-providers/edge/cl"},
		step{Do: "POST " + all + "/c1/labels", Body: `{"clusterLabel":"east","metadata":{"name":"ignored"}}`, Status: 201, Text: `={"clusterLabel":"east"}`},
		step{Do: "POST " + all + "/c1/labels", Body: `{"label-name":"east"}`, Status: 409, Text: "=Cluster Label already exists"},
		step{Do: "POST " + all + "/none/labels", Body: `{"clusterLabel":"east"}`, Status: 409, Text: "Parent resource not found"},
		step{Do: "GET " + all + "/none/labels", Status: 404, Text: "=Cluster not found"},
		step{Do: "GET " + all + "?label=east", Status: 200, Text: `=["c1"]`},
		step{Do: "GET " + all + "?label=west", Status: 200, Text: `=[]`},
		step{Do: "GET " + all + "?withLabels=true&label=east", Status: 200, Text: `=[{"metadata":{"name":"c1","description":"","userData1":"","userData2":""},"labels":[{"clusterLabel":"east"}]}]`},
		step{Do: "GET " + all + "?label=west&withLabels=true", Status: 200, Text: `=[]`},
		step{Do: "GET " + all + "?withLabels=true", Status: 200, Text: `"name":"c2","description":"","userData1":"","userData2":""},"labels":[]`},
		step{Do: "GET " + all + "?withLabels=false", Status: 200, Text: `"spec"`},
		step{Do: "DELETE " + all + "/c1", Status: 409, Text: "Cannot delete parent"},
		step{Do: "DELETE " + all + "/c1/labels/east", Status: 204},
		step{Do: "DELETE " + all + "/c1", Status: 204},
		step{Do: "DELETE " + all + "/c2", Status: 204},
		step{Do: "DELETE " + p + "/edge/cluster-sync-objects/repo", Status: 204},
	)
	if strings.Contains(s.Log.String(), planted) {
		t.Error("the log holds a secret")
	}
}

func TestKubeconfigIsNeverShown(t *testing.T) {
	t.Parallel()
	s := serve(t)
	const all = "/v2/cluster-providers/edge/clusters"
	s.Run(t,
		step{Do: "POST /v2/cluster-providers", Body: named("edge"), Status: 201},
		step{Do: "POST " + all, Body: named("c1"), File: direct, Status: 201},
	)
	cases := []struct {
		accept, want string
		status       int
	}{
		{"", `"gitOps"`, 200},
		{"*/*", `"gitOps"`, 200},
		{"application/json", `"gitOps"`, 200},
		{"application/octet-stream", "token: '***'", 200},
		{"multipart/form-data", "filename=\"kubeconfig\"", 200},
		{"text/html", "accept application/json", 406},
	}
	for _, c := range cases {
		a := s.Run(t, step{Do: "GET " + all + "/c1", Header: "Accept: " + c.accept, Status: c.status, Text: c.want})
		if strings.Contains(a.Body, planted) || strings.Contains(a.Body, base64.StdEncoding.EncodeToString([]byte(planted))) {
			t.Errorf("GET with Accept %q shows the token", c.accept)
		}
	}
	doc, err := s.DB.Get(t.Context(), "cluster-providers/edge/clusters/c1")
	if err != nil {
		t.Fatal(err)
	}
	plain, err := s.DB.Reveal(t.Context(), doc)
	if err != nil || string([]byte(plain)) != direct {
		t.Errorf("Reveal(c1) = %d bytes, %v; want the kubeconfig as it was uploaded", len(plain), err)
	}
}

func TestKubeconfigsThatAreRefused(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.Run(t, step{Do: "POST /v2/cluster-providers", Body: named("edge"), Status: 201})
	replaced := func(old, with string) string { return strings.Replace(direct, old, with, 1) }
	cases := map[string]struct{ file, want string }{
		"a program to run":         {kubeconfig("{exec: {command: sh}}"), "exec is not allowed"},
		"a plug-in":                {kubeconfig("{auth-provider: {name: gcp}}"), "auth-provider is not allowed"},
		"a token in a file":        {kubeconfig("{tokenFile: /etc/shadow}"), "give its content as token"},
		"a certificate in a file":  {kubeconfig("{client-certificate: /a, client-key: /b}"), "kubectl config view --flatten"},
		"a certificate, no key":    {kubeconfig("{client-certificate-data: YQ==}"), "go together"},
		"a certificate of nothing": {kubeconfig("{client-certificate-data: YQ==, client-key-data: YQ==}"), "no matching pair"},
		"no credentials":           {kubeconfig("{}"), "has no credentials"},
		"no check of the server":   {replaced("{server:", "{insecure-skip-tls-verify: true, server:"), "insecure-skip-tls-verify is not allowed"},
		"an authority in a file":   {replaced("{server:", "{certificate-authority: /ca, server:"), "certificate-authority-data"},
		"credentials in the URL":   {replaced("https://", "https://u:"+planted+"@"), "holds credentials"},
		"no context":               {replaced("current-context: ctx", "current-context: other"), `"other" is missing`},
		"no YAML":                  {"{", "is not the YAML of a kubeconfig"},
		"a key twice":              {direct + "users: []\n", "has a key twice"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			a := s.Run(t, step{Do: "POST /v2/cluster-providers/edge/clusters", Body: named("c1"), File: c.file, Status: 400, Text: c.want})
			if strings.Contains(a.Body, planted) {
				t.Error("the answer shows the token")
			}
		})
	}
}

func TestSyncObjectsAreWriteOnly(t *testing.T) {
	t.Parallel()
	s := serve(t)
	const all = "/v2/cluster-providers/edge/cluster-sync-objects"
	s.Run(t,
		step{Do: "POST " + all, Body: repo, Status: 404, Text: "=Cluster provider not found"},
		step{Do: "POST /v2/cluster-providers", Body: named("edge"), Status: 201},
		step{Do: "POST " + all, Body: strings.ReplaceAll(repo, planted, "***"), Status: 400, Text: "there is none"},
		step{Do: "POST " + all, Body: repo, Status: 201, Text: `{"gitToken":"***"}`},
		step{Do: "POST " + all, Body: repo, Status: 409, Text: "=Cluster Sync Objects already exists"},
		step{Do: "GET " + all + "/repo", Status: 200, Text: `{"branch":"main"}`},
		step{Do: "GET " + all + "/repo?key=branch", Status: 200, Text: `={"value":"main"}`},
		step{Do: "GET " + all + "/repo?key=gitToken", Status: 200, Text: `={"value":"***"}`},
		step{Do: "GET " + all + "/repo?key=none", Status: 404, Text: "key value not found"},
		step{Do: "GET " + all + "/none?key=a", Status: 404, Text: "=Cluster sync object not found"},
		step{Do: "GET " + all, Status: 200, Text: `***`},
		step{Do: "PUT " + all + "/repo", Body: strings.ReplaceAll(strings.ReplaceAll(repo, planted, "***"), "main", "next"), Status: 201, Text: `{"branch":"next"}`},
	)
	moved := strings.ReplaceAll(strings.ReplaceAll(repo, planted, "***"), "git.example", "thief.example")
	s.Run(t, step{Do: "PUT " + all + "/repo", Body: moved, Status: 400, Text: "names another server"}) // F62
	if !strings.Contains(secretOf(t, s, "repo"), planted) {
		t.Error("PUT of *** lost the stored token")
	}
	hostile := map[string]string{
		"credentials in a URL": `{"url":"https://u:` + planted + `@git.example/r"}`,
		"a name in a URL":      `{"repoUrl":"https://` + planted + `@git.example/r"}`,
		"a transport helper":   `{"url":"ext::sh -c id"}`,
		"an option":            `{"url":"ssh://-oProxyCommand=id/x"}`,
		"a metadata service":   `{"url":"http://169.254.169.254/latest"}`,
		"null":                 `{"a":null}`,
		"a list":               `{"a":[1]}`,
		"a key twice":          `{"a":"1","a":"2"}`,
		"a long value":         `{"a":"` + strings.Repeat("x", 8193) + `"}`,
	}
	for name, pair := range hostile {
		t.Run(name, func(t *testing.T) {
			a := s.Run(t, step{Do: "POST " + all, Body: `{"metadata":{"name":"x"},"spec":{"kv":[` + pair + `]}}`, Status: 400})
			if strings.Contains(a.Body, planted) {
				t.Error("the answer shows the secret")
			}
		})
	}
	if strings.Contains(s.Log.String(), planted) {
		t.Error("the log holds a secret")
	}
}

func secretOf(t *testing.T, s *resourcetest.Server, name string) string {
	t.Helper()
	doc, err := s.DB.Get(t.Context(), store.Key("cluster-providers/edge/cluster-sync-objects/"+name))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(doc.Body)+string(doc.Secret), planted) {
		t.Errorf("the stored document of %s holds the token in clear", name)
	}
	plain, err := s.DB.Reveal(t.Context(), doc)
	if err != nil {
		t.Fatal(err)
	}
	return string([]byte(plain))
}

func TestPairsAndControllers(t *testing.T) {
	t.Parallel()
	const kv, ctl = "/v2/cluster-providers/edge/clusters/c1/kv-pairs", "/v2/clm-controllers"
	serve(t).Run(t,
		step{Do: "POST /v2/cluster-providers", Body: named("edge"), Status: 201},
		step{Do: "POST /v2/cluster-providers/edge/clusters", Body: named("c1"), File: direct, Status: 201},
		step{Do: "POST " + kv, Body: named("k"), Status: 400, Text: "spec.kv: missing"},
		step{Do: "POST " + kv, Body: `{"metadata":{"name":"k"},"spec":{"kv":[{"n":12},{"b":true},{"n":"later"}]}}`, Status: 201, Text: `"kv":[{"n":"12"},{"b":"true"},{"n":"later"}]`},
		step{Do: "GET " + kv + "/k?key=n", Status: 200, Text: `={"value":"12"}`},
		step{Do: "GET " + kv + "/k?key=x", Status: 404, Text: "=Cluster KV pair key value not found"},
		step{Do: "POST " + ctl, Body: named("c"), Status: 400, Text: "spec.host: missing"},
		step{Do: "POST " + ctl, Body: `{"metadata":{"name":"c"},"spec":{"host":"h","port":1}}`, Status: 201, Text: `"spec":{"host":"h","port":1,"priority":0}`},
		step{Do: "PUT " + ctl + "/c", Body: `{"metadata":{"name":"c"},"spec":{"host":"h","port":50001}}`, Status: 400, Text: "spec.port"},
		step{Do: "PUT " + ctl + "/c", Body: `{"metadata":{"name":"c"},"spec":{"host":"h","port":2}}`, Status: 200},
		step{Do: "POST " + ctl, Body: `{"metadata":{"name":"c"},"spec":{"host":"h","port":1}}`, Status: 409, Text: "=ClmController already exists"},
	)
}
