package e2e

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/client"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"

	"github.com/emco-orchestrator/emco/scripts/e2e/fleet"
	"github.com/emco-orchestrator/emco/scripts/e2e/leak"
	"github.com/emco-orchestrator/emco/scripts/e2e/program"
)

// plantedSecrets are the secrets of the test. Overrides may appear in one place: the answer to a GET of the
// deployment intent group, which returns the document of the user, as in EMCO's API. Overrides that a
// chart puts into a Secret also reach that object on the cluster, and nothing else.
type plantedSecrets struct {
	kubeconfig, gitToken, newToken, wrongToken leak.Secret // of a cluster, and of the sync object over time
	cloudSecret                                leak.Secret // of another sync object
	unused, used, misused                      leak.Secret // values of overrides
}

func plant(kubeconfig string) plantedSecrets {
	text := func(name string) leak.Secret { return leak.Secret{Name: name, Text: rand.Text()} }
	return plantedSecrets{
		kubeconfig: leak.Secret{Name: "token of the kubeconfig", Text: kubeconfig},
		gitToken:   text("Git token"), newToken: text("Git token of an update"), wrongToken: text("wrong Git token"),
		cloudSecret: text("clientSecret of a sync object"),
		unused:      text("override that no chart uses"), used: text("override in a Secret"), misused: text("override in a Secret that the cluster refuses"),
	}
}

func (p plantedSecrets) overrides() []leak.Secret { return []leak.Secret{p.unused, p.used, p.misused} }

func (p plantedSecrets) all() []leak.Secret {
	return append(p.overrides(), p.kubeconfig, p.gitToken, p.newToken, p.wrongToken, p.cloudSecret)
}

// vault creates a Secret from an override, correctly or not: data must be base64.
func vault(name, value string) fleet.Chart {
	c := fleet.Synthetic(name, 2)
	return c.With("templates/secret.yaml", `apiVersion: v1
kind: Secret
metadata: {name: `+name+`}
data:
  password: `+value+"\n")
}

// refused is a chart with a Secret that an API server refuses: its type requires JSON, and it contains
// a password.
func refused(name string) fleet.Chart {
	return vault(name, "e30=").With("templates/secret.yaml", `apiVersion: v1
kind: Secret
metadata: {name: `+name+`}
type: kubernetes.io/dockerconfigjson
data:
  .dockerconfigjson: {{ .Values.password | b64enc }}
`)
}

func TestAcceptance6NoSecrets(t *testing.T) {
	do := steps{TB: t}
	do.next("plant secrets: kubeconfig, sync objects, overrides; log level debug")
	l, s := clustersOf(t), newStage(t, "-log.level", "debug")
	p := plant(tokenOf(t, l.c1.Kubeconfig()))
	p.gitToken.Text = s.writeToken
	find := &secretSearch{testStage: s, Finder: leak.NewFinder(p.all()...), plantedSecrets: p}
	f, d := s.fleet(), secretDeployment(p)
	s.must("register the fleet", f.Found(t.Context(), s.repository()))
	s.must("register a Git cluster", f.Register(t.Context(), 1))
	s.must("register c1", f.RegisterDirect(t.Context(), "c1", l.c1.Kubeconfig()))
	s.must("open the logical cloud", f.OpenCloud(t.Context()))
	s.must("onboard", f.Onboard(t.Context(), s.dir, d))

	do.next("instantiate; the cluster refuses one Secret")
	s.must("instantiate", f.Act(t.Context(), d.Path(), "instantiate"))
	eventually(t, "the refusal", func() error { return settled(t.Context(), f, d) })
	got := kubectl(t, l.c1, "get", "secret", "vault", "-o", "jsonpath={.data.password}")
	if finder := leak.NewFinder(p.used); len(got) > 0 {
		finder.Look("the Secret", []byte(got))
		if there, _ := finder.Found(); len(there) == 0 {
			t.Errorf("the Secret on c1 does not contain the override: the test proves nothing")
		}
	}
	find.crawl(d)

	do.next("charts that cannot be rendered with an override")
	find.deployUnrenderable(f)

	do.next("wrong requests")
	find.sendInvalidRequests(d)

	do.next("a wrong Git token, refused by the Git server")
	find.breakGitToken(f, d)
	find.crawl(d)

	do.next("terminate, and search")
	s.must("terminate", f.Act(t.Context(), d.Path(), "terminate"))
	s.reaches(d, v2.StatusTerminated)
	find.crawl(d)
	find.searchStoredData()
	leaks, searched := find.Found()
	for _, leaked := range leaks {
		t.Error(leaked)
	}
	t.Logf("searched %.1f MiB in %d answers, %d files and all objects of the repository for %d secrets in 5 forms: %d leaks",
		float64(searched)/mib, find.answers, find.files, len(p.all()), len(leaks))
	do.next("done")
}

// secretDeployment uses overrides in three ways. The Secrets go to c1 only.
func secretDeployment(p plantedSecrets) fleet.Deployment {
	onC1 := v2.PlacementSelection{AllOf: []v2.AllOf{{Selector: v2.Selector{Provider: fleet.Provider, Cluster: "c1"}}}}
	return fleet.Deployment{Name: "secrets", Apps: []fleet.App{
		{Chart: fleet.Synthetic("front", 4), Overrides: map[string]string{"database.password": p.unused.Text}},
		{Chart: vault("vault", "{{ .Values.password | b64enc }}"), Intent: onC1, Overrides: map[string]string{"password": p.used.Text}},
		{Chart: refused("broken"), Intent: onC1, Overrides: map[string]string{"password": p.misused.Text}},
	}}
}

// deployUnrenderable deploys charts whose rendering fails because of an override, and reads why.
func (f *secretSearch) deployUnrenderable(api fleet.Fleet) {
	f.Helper()
	value := f.misused.Text
	schema := fleet.Synthetic("schema", 2).With("values.schema.json", `{"properties": {"password": {"pattern": "^[0-9]+$", "maxLength": 3}, "mail": {"format": "email"}, "kind": {"enum": ["a"]}}}`)
	d := fleet.Deployment{Name: "faults", Apps: []fleet.App{
		{Chart: fleet.Synthetic("comma", 2), Overrides: map[string]string{"password": "a," + value}},
		{Chart: schema, Overrides: map[string]string{"password": value, "mail": value, "kind": value}},
		{Chart: vault("plain", `"%{{ .Values.password }}%"`), Overrides: map[string]string{"password": value}},
		{Chart: vault("quote", `"{{ .Values.password }}`), Overrides: map[string]string{"password": value}},
		{Chart: vault("colon", "{{ .Values.password }}"), Overrides: map[string]string{"password": value + ": b: c"}},
		{Chart: vault("nil", "{{ .Values.password.text }}"), Overrides: map[string]string{"password": value}},
	}}
	f.must("onboard", api.Onboard(f.Context(), f.dir, d))
	f.must("instantiate", api.Act(f.Context(), d.Path(), "instantiate"))
	failed := func() (v2.Status, error) {
		st, err := api.Status(f.Context(), d.Path(), true)
		if err == nil && st.DeployedStatus != v2.StatusInstantiateFailed {
			err = fmt.Errorf("deployedStatus is %q", st.DeployedStatus)
		}
		return st, err
	}
	eventually(f, "the failure of all apps", func() error { _, err := failed(); return err })
	st, err := failed()
	f.must("read the status", err)
	f.Logf("why they fail:\n%s", explain(st))
	for _, app := range st.Apps {
		if app.Failure == nil {
			f.Errorf("app %s does not fail", app.Name)
		}
	}
	f.request(http.MethodGet, "/v2/"+d.Path()+"/status?status=ready&output=detail", "application/json", nil)
	r := f.emco.Emcoctl(f.Context(), "wait", d.Path(), "--for=instantiated")
	f.Look("emcoctl wait of "+d.Name, []byte(r.Out+r.Err))
	f.must("terminate", api.Act(f.Context(), d.Path(), "terminate"))
	f.reaches(d, v2.StatusTerminated)
}

// settled waits until two apps are applied and one is refused.
func settled(ctx context.Context, f fleet.Fleet, d fleet.Deployment) error {
	st, err := f.Status(ctx, d.Path(), true)
	if err != nil {
		return err
	}
	applied, refused := 0, 0
	for _, app := range st.Apps {
		for _, c := range app.Clusters {
			switch {
			case c.Phase == "Applied":
				applied++
			case app.Name == "broken" && c.Error != "":
				refused++
			}
		}
	}
	if applied != 3 || refused != 1 {
		return fmt.Errorf("%d apps are applied and %d refused, want 3 and 1:\n%s", applied, refused, explain(st))
	}
	return nil
}

// tokenOf reads the token of a kubeconfig.
func tokenOf(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^\s*token: (\S{12,})$`).FindSubmatch(text)
	if m == nil {
		t.Fatalf("%s contains no token", path)
	}
	return string(m[1])
}

// secretSearch sends requests and searches all answers.
type secretSearch struct {
	*testStage
	*leak.Finder
	plantedSecrets
	answers, files int
}

// request sends one request and searches the answer, head and body.
func (f *secretSearch) request(method, path, accept string, body client.Body, allowed ...leak.Secret) (status int, text string) {
	f.Helper()
	var content io.ReadCloser
	if body != nil {
		var err error
		content, err = body.Open()
		f.must("open a body", err)
	}
	req, err := http.NewRequestWithContext(f.Context(), method, f.emco.URL()+path, content)
	f.must("make a request", err)
	if body != nil {
		req.Header.Set("Content-Type", body.ContentType())
	}
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	res, err := http.DefaultClient.Do(req)
	f.must(method+" "+path, err)
	defer res.Body.Close()
	var all bytes.Buffer
	f.must("write the head", res.Header.Write(&all))
	_, err = all.ReadFrom(res.Body)
	f.must("read the answer", err)
	f.answers++
	f.Look(fmt.Sprintf("answer %d to %s %s (%s)", res.StatusCode, method, path, accept), all.Bytes(), allowed...)
	return res.StatusCode, all.String()
}

// crawl reads every route, in every format that the route offers.
func (f *secretSearch) crawl(d fleet.Deployment) {
	f.Helper()
	for _, path := range []string{"/metrics", "/healthz", "/readyz", "/version"} {
		f.read(path, "")
	}
	for _, path := range routes(d) {
		var allowed []leak.Secret
		if document := strings.Contains(path, "/deployment-intent-groups") && strings.Count(path, "/") <= strings.Count(d.Path(), "/")+2; document {
			allowed = f.overrides()
		}
		for _, accept := range []string{"application/json", "application/octet-stream", "multipart/form-data", "application/problem+json", "*/*"} {
			f.read(path, accept, allowed...)
		}
	}
	for _, args := range [][]string{{"status", d.Path()}, {"status", d.Path(), "-o", "json"}, {"get", "cluster-providers/edge/clusters/c1"}, {"get", "cluster-providers/edge/cluster-sync-objects/fleet-repo", "-o", "yaml"}} {
		r := f.emco.Emcoctl(f.Context(), args...)
		f.Look("emcoctl "+strings.Join(args, " "), []byte(r.Out+r.Err))
	}
}

func (f *secretSearch) read(path, accept string, allowed ...leak.Secret) {
	f.Helper()
	status, text := f.request(http.MethodGet, path, accept, nil, allowed...)
	if accept == "application/json" && status != http.StatusOK {
		f.Errorf("GET %s: %d, want 200: the list of routes is out of date\n%s", path, status, text)
	}
}

// routes are all readable routes.
func routes(d fleet.Deployment) []string {
	group, places := d.Path(), d.Path()+"/generic-placement-intents"
	app, _, _ := strings.Cut(group, "/deployment-intent-groups/")
	out := []string{
		"clm-controllers", "controllers", "dtc-controllers", "cluster-providers", "cluster-providers/edge",
		"cluster-providers/edge/clusters", "cluster-providers/edge/clusters?label=" + fleet.Label, "cluster-providers/edge/clusters?withLabels=true",
		"cluster-providers/edge/clusters/c1", "cluster-providers/edge/clusters/g0000",
		"cluster-providers/edge/clusters/c1/labels", "cluster-providers/edge/clusters/c1/labels/" + fleet.Label, "cluster-providers/edge/clusters/c1/kv-pairs",
		"cluster-providers/edge/cluster-sync-objects", "cluster-providers/edge/cluster-sync-objects/fleet-repo",
		"cluster-providers/edge/cluster-sync-objects/fleet-repo?key=gitToken", "cluster-providers/edge/cluster-sync-objects/fleet-repo?key=url",
		"projects", "projects/shop", "projects/shop/logical-clouds", "projects/shop/logical-clouds/stores", "projects/shop/logical-clouds/stores/status",
		"projects/shop/logical-clouds/stores/cluster-references", "projects/shop/logical-clouds/stores/cluster-references/c1",
		"projects/shop/composite-apps", app, app + "/apps", app + "/composite-profiles", app + "/composite-profiles/small", app + "/composite-profiles/small/profiles",
		app + "/composite-profiles/small/profiles?app=vault", app + "/deployment-intent-groups", group, group + "/intents", group + "/intents/uses",
		places, places + "/places", places + "/places/app-intents", places + "/places/app-intents/vault",
	}
	for _, name := range []string{"front", "vault", "broken"} {
		out = append(out, app+"/apps/"+name, app+"/apps/"+name+"/dependency", app+"/composite-profiles/small/profiles/"+name+"-profile")
	}
	for _, query := range []string{"", "?type=rsync", "?type=cluster", "?status=ready", "?status=deployed", "?status=ready&output=detail", "?status=deployed&output=detail", "?status=ready&output=summary", "?status=deployed&app=vault", "?status=ready&cluster=edge%2Bc1"} {
		out = append(out, group+"/status"+query)
	}
	for i := range out {
		out[i] = "/v2/" + out[i]
	}
	return out
}

// sendInvalidRequests sends invalid requests with secrets.
func (f *secretSearch) sendInvalidRequests(d fleet.Deployment) {
	f.Helper()
	const sync = "/v2/cluster-providers/edge/cluster-sync-objects"
	kv := func(name, pairs string) string {
		return `{"metadata":{"name":"` + name + `"},"spec":{"kv":[` + pairs + `]}}`
	}
	token, cloud := f.newToken.Text, f.cloudSecret.Text
	secretURL := (&url.URL{Scheme: "https", User: url.UserPassword("emco", token), Host: "git.example.com", Path: "/fleet.git"}).String()
	group := func(release, values string) string {
		return `{"metadata":{"name":"other"},"spec":{"compositeProfile":"small","version":"` + release + `","logicalCloud":"stores","overrideValues":[{"app":"front","values":` + values + `}]}}`
	}
	groups := "/v2/" + strings.TrimSuffix(d.Path(), "/"+d.Name)
	for _, m := range []struct{ what, method, path, body string }{
		{"a second sync object of the name", http.MethodPost, sync, kv("fleet-repo", `{"gitToken":"`+token+`"}`)},
		{"a provider that does not exist", http.MethodPost, "/v2/cluster-providers/none/cluster-sync-objects", kv("x", `{"gitToken":"`+token+`"}`)},
		{"a token that is no text", http.MethodPost, sync, kv("x", `{"gitToken":["`+token+`"]}`)},
		{"a token that is too long", http.MethodPost, sync, kv("x", `{"gitToken":"`+strings.Repeat(token, 400)+`"}`)},
		{"a password in the URL", http.MethodPost, sync, kv("x", `{"url":"`+secretURL+`"}`)},
		{"JSON that ends too early", http.MethodPost, sync, kv("x", `{"gitToken":"`+token)},
		{"an invalid name", http.MethodPost, sync, kv("a/"+strings.Repeat("b", 200), `{"clientSecret":"`+cloud+`"}`)},
		{"a name that differs from the URL", http.MethodPut, sync + "/fleet-repo", kv("x", `{"clientSecret":"`+cloud+`"}`)},
		{"a sync object without a repository, in use", http.MethodPut, sync + "/fleet-repo", kv("fleet-repo", `{"gitToken":"`+token+`"}`)},
		{"an invalid release", http.MethodPost, groups, group("NOT_A_RELEASE", `{"password":"`+f.used.Text+`"}`)},
		{"an override that is no text", http.MethodPost, groups, group("r1", `{"password":{"x":"`+f.used.Text+`"}}`)},
		{"an override that is too long", http.MethodPost, groups, group("r1", `{"password":"`+strings.Repeat(f.used.Text, 100)+`"}`)},
		{"an override of a reference that does not exist", http.MethodPost, "/v2/projects/shop/composite-apps/none/v1/deployment-intent-groups", group("r1", `{"password":"`+f.used.Text+`"}`)},
	} {
		if status, text := f.request(m.method, m.path, "application/json", client.JSON([]byte(m.body))); status < 400 {
			f.Errorf("%s: %d, want a refusal\n%s", m.what, status, text)
		}
		f.request(m.method, m.path, "application/problem+json", client.JSON([]byte(m.body)))
	}
	status, text := f.request(http.MethodPost, sync, "application/json", client.JSON([]byte(kv("cloud", `{"clientID":"id"},{"clientSecret":"`+cloud+`"}`))))
	if status != http.StatusCreated {
		f.Errorf("a sync object with a secret: %d\n%s", status, text)
	}
	f.request(http.MethodGet, sync+"/cloud?key=clientSecret", "application/json", nil)
	f.request(http.MethodGet, sync, "application/json", nil)
	f.uploadInvalidKubeconfigs()
}

// uploadInvalidKubeconfigs uploads invalid kubeconfigs.
func (f *secretSearch) uploadInvalidKubeconfigs() {
	f.Helper()
	good, err := os.ReadFile(f.kubeconfigPath())
	f.must("read the kubeconfig", err)
	for what, text := range map[string]string{
		"no YAML":          strings.Replace(string(good), "users:", "users: [", 1),
		"a program to run": strings.Replace(string(good), "    token: ", "    exec: {command: sh, args: [x]}\n    token: ", 1),
		"no current user":  strings.Replace(string(good), "    user: admin", "    user: somebody", 1),
		"an invalid name":  string(good),
	} {
		name := "c9"
		if what == "an invalid name" {
			name = "c1"
		}
		body, err := client.Multipart([]byte(`{"metadata":{"name":"`+name+`"}}`), client.File{Part: client.FilePart, Name: client.FileName, Data: []byte(text)})
		f.must("pack the upload", err)
		if status, answer := f.request(http.MethodPost, "/v2/cluster-providers/edge/clusters", "application/json", body); status < 400 {
			f.Errorf("kubeconfig with %s: %d, want a refusal\n%s", what, status, answer)
		}
		path := filepath.Join(f.dir, "bad.yaml")
		f.must("write a kubeconfig", os.WriteFile(path, []byte(text), 0o600))
		doc := filepath.Join(f.dir, "doc.yaml")
		f.must("write a document", os.WriteFile(doc, []byte("resourceContext: {anchor: cluster-providers/edge/clusters}\nmetadata: {name: "+name+"}\nfile: "+path+"\n"), 0o600))
		r := f.emco.Emcoctl(f.Context(), "apply", "-f", doc)
		f.Look("emcoctl apply of a kubeconfig with "+what, []byte(r.Out+r.Err))
	}
}

// kubeconfigPath is the test bed's path of the kubeconfig of c1.
func (f *secretSearch) kubeconfigPath() string {
	l, err := lab()
	f.must("the clusters", err)
	return l.c1.Kubeconfig()
}

// breakGitToken replaces the Git token by a wrong one and starts a write.
func (f *secretSearch) breakGitToken(api fleet.Fleet, d fleet.Deployment) {
	f.Helper()
	const path = "/v2/cluster-providers/edge/cluster-sync-objects/fleet-repo"
	change := func(token string) {
		body := fmt.Sprintf(`{"metadata":{"name":"fleet-repo"},"spec":{"kv":[{"url":%q},{"userName":%q},{"gitToken":%q},{"branch":"main"}]}}`, f.git.URL(repoName), writer, token)
		if status, text := f.request(http.MethodPut, path, "application/json", client.JSON([]byte(body))); status >= 300 {
			f.Fatalf("change the token: %d\n%s", status, text)
		}
	}
	change(f.wrongToken.Text)
	other := fleet.Deployment{Name: "refused", Apps: []fleet.App{{Chart: fleet.Synthetic("front", 3)}}}
	f.must("onboard", api.Onboard(f.Context(), f.dir, other))
	f.must("instantiate", api.Act(f.Context(), other.Path(), "instantiate"))
	eventually(f, "the refusal of Git", func() error {
		_, text := f.request(http.MethodGet, "/v2/"+other.Path()+"/status?status=deployed", "application/json", nil)
		if !strings.Contains(text, `"error"`) {
			return fmt.Errorf("the status has no error: %.500s", text)
		}
		return nil
	})
	r := f.emco.Emcoctl(f.Context(), "wait", other.Path(), "--for=instantiated", "--timeout=1s")
	f.Look("emcoctl wait", []byte(r.Out+r.Err))
	f.Logf("with a wrong Git token emcoctl prints: %s", strings.TrimSpace(r.Err))
	change(f.writeToken)
	f.must("terminate", api.Act(f.Context(), other.Path(), "terminate"))
	f.reaches(other, v2.StatusTerminated)
}

// searchStoredData searches the log, the data folder, and all objects of the repository.
func (f *secretSearch) searchStoredData() {
	f.Helper()
	text, err := os.ReadFile(program.LogPath(f.options.Dir))
	f.must("read the log", err)
	if !bytes.Contains(text, []byte(`"level":"DEBUG"`)) {
		f.Log("the log has no line at level debug")
	}
	f.Look("the log", text)
	f.files++
	// The store contains the documents of users, with their overrides. It must seal every member that
	// is declared a secret.
	n, err := f.LookIn(filepath.Join(f.options.Dir, "data"), f.overrides()...)
	f.must("search the data folder", err)
	f.files += n
	cmd := exec.CommandContext(f.Context(), "git", "cat-file", "--batch-all-objects", "--batch")
	cmd.Dir = f.bare.Dir
	objects, err := cmd.Output()
	f.must("read the repository", err)
	f.Look("objects of the repository", objects)
}
