package gac_test

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/gac"
)

type step = resourcetest.Step

const group = store.Key("projects/p/composite-apps/ca/v1/deployment-intent-groups/g")

func serve(t *testing.T) *resourcetest.Server {
	t.Helper()
	s := resourcetest.Serve(t, func(r *mux.Router, db *store.DB) { gac.Resources{DB: db}.Mount(r) })
	for _, key := range []store.Key{group, "cluster-providers/edge/clusters/c1", "projects/p/composite-apps/ca/v1/apps/web"} {
		if _, err := s.DB.Create(t.Context(), store.Write{Key: key}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func resource(name, isNew, kind string) string {
	return `{"metadata":{"name":"` + name + `"},"spec":{"app":"web","newObject":"` + isNew + `","resourceGVK":{"apiVersion":"v1","kind":"` + kind + `","name":"o"}}}`
}

func TestGenericIntents(t *testing.T) {
	t.Parallel()
	s := serve(t)
	all := "/v2/" + string(group) + "/generic-k8s-intents"
	resources := all + "/i/resources"
	customizations := resources + "/config/customizations"
	one := `{"metadata":{"name":"one"},"spec":{"clusterSpecific":"true","clusterInfo":{"scope":"name","clusterProvider":"edge","cluster":"c1","mode":"allow"},"patchType":"json","patchJson":[{"op":"remove","path":"/a"},{"op":"add","path":"/b","value":[1,{"c":null}]}]}}`
	s.Run(t,
		step{Do: "GET " + all, Status: 200, Text: "=[]"},
		step{Do: "POST " + all, Body: "", Status: 400, Text: "=Empty body"},
		step{Do: "POST " + all, Body: `{"metadata":{"name":"i"}}`, Status: 201, Text: `={"metadata":{"name":"i","description":"","userData1":"","userData2":""}}`},
		step{Do: "POST " + all, Body: `{"metadata":{"name":"i"}}`, Status: 409, Text: "=GenericK8sIntent already exists"},
		step{Do: "PUT " + all + "/i", Body: `{"metadata":{"name":"i","description":"d"}}`, Status: 200},
		step{Do: "PUT " + all + "/j", Body: `{"metadata":{"name":"j"}}`, Status: 201},
		step{Do: "DELETE " + all + "/j", Status: 204},
		step{Do: "GET " + all + "/j", Status: 404, Text: "=GenericK8sIntent not found"},

		step{Do: "POST " + resources, Body: resource("service", "true", "Service"), Status: 422},
		step{Do: "POST " + resources, Body: resource("service", "true", "Service"), File: "kind: Service", Status: 400, Text: "apiVersion is missing"},
		step{Do: "POST " + resources, Body: resource("service", "true", "Service"), File: "apiVersion: v1\nkind: Service\nmetadata: {name: other}\n", Status: 400, Text: "they must agree"},
		step{Do: "POST " + resources, Body: resource("service", "true", "Service"), File: "apiVersion: v1\nkind: Service\nmetadata: {name: o}\n", Status: 201},
		step{Do: "POST " + resources, Body: resource("config", "true", "ConfigMap"), Status: 201, Text: `"resourceGVK":{"apiVersion":"v1","kind":"ConfigMap","name":"o"}`},
		step{Do: "POST " + resources, Body: resource("rendered", "false", "Service"), File: "apiVersion: v1\nkind: Service\nmetadata: {name: o}\n", Status: 201},
		step{Do: "POST " + resources, Body: resource("bad", "maybe", "ConfigMap"), Status: 400, Text: "spec.newObject"},
		step{Do: "GET " + resources + "/config", Header: "Accept: application/octet-stream", Status: 200, Text: `"kind":"ConfigMap"`},
		step{Do: "GET " + resources + "/service", Header: "Accept: application/octet-stream", Status: 200, Text: "=apiVersion: v1\nkind: Service\nmetadata: {name: o}"},
		step{Do: "GET " + resources + "/service", Header: "Accept: multipart/form-data", Status: 200, Text: `name="resource"`},
		step{Do: "GET " + resources + "/none", Status: 404, Text: "=Resource not found"},
		step{Do: "POST " + all + "/none/resources", Body: resource("config", "true", "ConfigMap"), Status: 409, Text: "Parent resource not found"},

		step{Do: "POST " + customizations, Body: one, Status: 201, Text: `"patchJson":[{"op":"remove","path":"/a"},{"op":"add","path":"/b","value":[1,{"c":null}]}]`},
		step{Do: "POST " + customizations, Body: one, Status: 409, Text: "=Customization already exists"},
		step{Do: "POST " + customizations, Body: `{"metadata":{"name":"x"},"spec":{"clusterSpecific":"true","clusterInfo":{"scope":"label","mode":"none"},"patchType":"yaml","patchJson":[{"op":"add","path":"a"},{"op":"move","path":"/a"},{"op":"grow","path":"/a"}]}}`, Status: 400, Text: `- spec.clusterInfo.clusterLabel: missing
- spec.clusterInfo.clusterProvider: missing
- spec.clusterInfo.mode: "none" is neither allow nor deny
- spec.patchJson[0].path: "a" does not begin with a slash; use a JSON pointer, such as /spec/replicas
- spec.patchJson[0].value: missing
- spec.patchJson[1].from: missing
- spec.patchJson[2].op: "grow" is no operation`},
		step{Do: "POST " + customizations, Body: `{"metadata":{"name":"x"},"spec":{"clusterSpecific":"false","patchType":"merge"}}`, Status: 400, Text: "needs at least one file"},
		step{Do: "POST " + customizations, Body: `{"metadata":{"name":"x"},"spec":{"clusterSpecific":"false","patchType":"merge"}}`, File: "- a", Status: 400, Text: "is no mapping"},
		step{Do: "POST " + resources + "/rendered/customizations", Body: `{"metadata":{"name":"x"},"spec":{"clusterSpecific":"false"}}`, Status: 400, Text: "spec.patchType: missing"},
		step{Do: "POST " + resources + "/none/customizations", Body: one, Status: 409, Text: "Parent resource not found"},
		step{Do: "PUT " + customizations + "/one?dryRun=true", Body: strings.Replace(one, "c1", "c2", 1), Status: 200},
		step{Do: "GET " + customizations + "/one", Status: 200, Text: `"cluster":"c1"`},
		step{Do: "DELETE " + resources + "/config", Status: 409, Text: "Cannot delete parent"},
	)
	if err := s.DB.Delete(t.Context(), "cluster-providers/edge/clusters/c1", nil); err == nil {
		t.Error("a cluster that a customization names was deleted")
	}
	s.Run(t,
		step{Do: "DELETE " + customizations + "/one", Status: 204},
		step{Do: "DELETE " + resources + "/config", Status: 204},
	)
}

// upload sends a customization with files, each "name=content".
func upload(t *testing.T, s *resourcetest.Server, method, path, body string, files ...string) (int, string) {
	t.Helper()
	var text bytes.Buffer
	form := multipart.NewWriter(&text)
	if err := form.WriteField("metadata", body); err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		name, content, _ := strings.Cut(f, "=")
		part, err := form.CreateFormFile("files", name)
		if err == nil {
			_, err = part.Write([]byte(content))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := form.Close(); err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, &text)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", form.FormDataContentType())
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(answer)
}

func TestCustomizationsHaveFiles(t *testing.T) {
	t.Parallel()
	s := serve(t)
	all := "/v2/" + string(group) + "/generic-k8s-intents"
	s.Run(t,
		step{Do: "POST " + all, Body: `{"metadata":{"name":"i"}}`, Status: 201},
		step{Do: "POST " + all + "/i/resources", Body: resource("config", "true", "ConfigMap"), Status: 201},
		step{Do: "POST " + all + "/i/resources", Body: resource("secret", "true", "Secret"), File: "apiVersion: v1\nkind: Secret\nmetadata: {name: o}\nstringData: {a: hush}\n", Status: 201},
		step{Do: "GET " + all + "/i/resources/secret", Header: "Accept: application/octet-stream", Status: 200, Text: "=***"},
	)
	doc := `{"metadata":{"name":"c"},"spec":{"clusterSpecific":"false"}}`
	at := all + "/i/resources/config/customizations"
	var many []string
	for range 101 {
		many = append(many, strings.Repeat("x", len(many)+1)+"=y")
	}
	for name, tt := range map[string]struct {
		files  []string
		status int
		text   string
	}{
		"a file twice":   {[]string{"a=1", "a=2"}, 400, `file "a" is given twice`},
		"too many":       {many, 400, "more than 100 files"},
		"too large":      {[]string{"a=" + strings.Repeat("x", 1<<18), "b=" + strings.Repeat("x", 1<<18), "c=x"}, 413, "larger than 524288 bytes"},
		"without a name": {[]string{"=x"}, 400, "a file has no name"},
	} {
		if status, text := upload(t, s, "POST", at, doc, tt.files...); status != tt.status || !strings.Contains(text, tt.text) {
			t.Errorf("%s: %d %.200s, want %d %s", name, status, text, tt.status, tt.text)
		}
	}
	if status, text := upload(t, s, "POST", at, doc, "a=one", "b=two"); status != 201 {
		t.Fatalf("two files: %d %s", status, text)
	}
	s.Run(t,
		step{Do: "GET " + at + "/c", Header: "Accept: application/octet-stream", Status: 200, Text: "=onetwo"},
		step{Do: "GET " + at + "/c", Header: "Accept: multipart/form-data", Status: 200, Text: `name="files"; filename="b"`},
		step{Do: "GET " + at + "/c", Header: "Accept: multipart/form-data", Status: 200, Text: `name="customization"`},
	)
	if status, text := upload(t, s, "PUT", at+"/c", doc, "a=one"); status != 200 {
		t.Fatalf("one file: %d %s", status, text)
	}
	s.Run(t, step{Do: "GET " + at + "/c", Header: "Accept: multipart/form-data", Status: 200, Text: `name="file"; filename="a"`})
	secret := all + "/i/resources/secret/customizations"
	if status, text := upload(t, s, "POST", secret, doc, "token=hush"); status != 201 {
		t.Fatalf("a Secret: %d %s", status, text)
	}
	s.Run(t,
		step{Do: "GET " + secret + "/c", Header: "Accept: application/octet-stream", Status: 200, Text: "=***"},
		step{Do: "PUT " + at + "/c", Body: doc, Status: 200},
		step{Do: "GET " + at + "/c", Header: "Accept: application/octet-stream", Status: 200, Text: `"clusterSpecific":"false"`}, // no files are left
	)
}
