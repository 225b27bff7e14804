package app_test

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/emco/internal/app"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/emco/internal/refschema"
)

func withFirewalls(c *config.Config) {
	c.Controllers.Schemas = []string{filepath.Join("testdata", "firewall.yaml")}
}

// Documents of registered types keep the contracts of all documents.
func TestDocumentsOfRegisteredTypesAreDocuments(t *testing.T) {
	t.Parallel()
	s := newStageWith(t, withFirewalls)
	s.fleet("a")
	s.onboard("web")
	s.upload("POST", till+"/apps", named("spare"), s.chart("spare", configMap)) // no profile refers to it
	g := s.group("autumn", appPlaces{"web": {"a"}})
	firewalls := g.path + "/firewalls"
	rules := firewalls + "/outer/firewall-rules"
	const open, closed = `{"metadata":{"name":"outer"},"spec":{"mode":"open"}}`, `{"metadata":{"name":"outer"},"spec":{"mode":"closed"}}`

	refused := func(status int, method, path, body, text string) {
		t.Helper()
		if got := s.expect(status, method, path, body); !strings.Contains(got, text) {
			t.Errorf("%s %s %.80s is refused with %s, want %s in it", method, path, body, got, text)
		}
	}
	refused(409, "POST", rules, `{"metadata":{"name":"one"}}`, "Cannot perform requested operation. Parent resource not found")
	refused(404, "GET", rules, "", "FirewallIntent not found")
	refused(404, "GET", firewalls+"/outer", "", "FirewallIntent not found")
	refused(400, "POST", firewalls, `{"metadata":{"name":"outer"}}`, "missing property 'mode'")
	refused(400, "POST", firewalls, `{"metadata":{"name":"a/b"},"spec":{"mode":"open"}}`, "metadata.name")
	refused(400, "POST", firewalls, `{"metadata":{"name":"outer"},"spec":["open"]}`, "spec: must be an object")
	refused(400, "POST", firewalls+"?strict=true", `{"metadata":{"name":"outer"},"spec":{"mode":"open"},"status":{}}`, "status")
	refused(422, "POST", firewalls, `{`, "")
	refused(413, "POST", firewalls, `{"metadata":{"name":"`+strings.Repeat("x", tooMuch)+`"}}`, "")
	s.expect(201, "POST", firewalls+"?dryRun=true", open)
	s.expect(404, "GET", firewalls+"/outer", "")
	s.expect(201, "POST", firewalls, open)
	s.expect(409, "POST", firewalls, open)
	if got := s.expect(200, "GET", firewalls+"/outer", ""); got != `{"metadata":{"name":"outer","description":"","userData1":"","userData2":""},"spec":{"mode":"open"}}` {
		t.Errorf("the document reads %s", got)
	}
	res, err := s.api.Do(t.Context(), client.Request{Method: "GET", Path: firewalls + "/outer"})
	s.must("read the document", err)
	change := func(tag string) int {
		return s.send(client.Request{Method: "PUT", Path: firewalls + "/outer", Body: client.JSON([]byte(closed)), IfMatch: tag}).Status
	}
	if tag := res.Header.Get("ETag"); change(`"other"`) != 412 || change(tag) != 200 || change(tag) != 412 {
		t.Errorf("If-Match with the ETag %s is not obeyed", tag)
	}

	s.expect(201, "POST", rules, `{"metadata":{"name":"one"},"spec":{"from":[{"app":"web"}],"at":{"clusterProvider":"edge","cluster":"a"}}}`)
	s.expect(201, "PUT", rules+"/two", `{"metadata":{"name":"two"},"spec":{"app":"spare"}}`)
	s.expect(201, "POST", provider+"/clusters/a/cluster-firewalls", named("nodes"))
	refused(409, "DELETE", firewalls+"/outer", "", "Cannot delete parent without deleting child references first")
	refused(409, "DELETE", till+"/apps/spare", "", "Cannot delete without deleting or updating referencing resources first: "+rules+"/two")
	refused(400, "POST", rules, `{"metadata":{"name":"three"},"spec":{"cluster":"a"}}`, "cluster needs clusterProvider beside it")
	if got := s.expect(200, "GET", rules+"?limit=1", ""); !strings.Contains(got, `"one"`) || strings.Contains(got, `"two"`) {
		t.Errorf("the first page is %s", got)
	}
	if text := s.wholeLog(); !strings.Contains(text, rules+"/two") || !strings.Contains(text, `"type":"project-resources.firewall-rules"`) {
		t.Error("the audit log does not show the writes")
	}
	if _, text := s.fetch("/openapi.json"); !strings.Contains(string(text), `"create FirewallRule"`) {
		t.Error("the OpenAPI document does not list the routes")
	}
	s.stop()
	s.start()
	s.expect(200, "GET", rules+"/two", "")
	s.expect(204, "DELETE", rules+"/two", "")
	s.expect(204, "DELETE", till+"/apps/spare", "")
}

// The command line applies, reads and deletes them by their anchors.
func TestTheCommandLineAppliesDocumentsOfRegisteredTypes(t *testing.T) {
	t.Parallel()
	bin := emcoctl(t)
	s := newStageWith(t, withFirewalls)
	s.fleet("a")
	s.onboard("web")
	g := s.group("autumn", appPlaces{"web": {"a"}})
	file := filepath.Join(t.TempDir(), "firewalls.yaml")
	s.must("write a file", os.WriteFile(file, []byte("version: emco/v2\nresourceContext: {anchor: "+g.path+"/firewalls}\nmetadata: {name: outer}\nspec: {mode: open}\n---\nversion: emco/v2\nresourceContext: {anchor: "+g.path+"/firewalls/outer/firewall-rules}\nmetadata: {name: one}\nspec: {app: web}\n"), 0o600))
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "emcoctl"), args...)
		cmd.Env = append(os.Environ(), "EMCO_URL="+s.address, "HOME="+t.TempDir())
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("emcoctl %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	run("apply", "-f", file)
	if got := s.expect(200, "GET", g.path+"/firewalls/outer/firewall-rules/one", ""); !strings.Contains(got, `"spec":{"app":"web"}`) {
		t.Errorf("the document reads %s", got)
	}
	if got := run("get", g.path+"/firewalls/outer"); !strings.Contains(got, "open") {
		t.Errorf("emcoctl get prints %s", got)
	}
	run("delete", "-f", file)
	s.expect(404, "GET", g.path+"/firewalls/outer", "")
}

// Who may work on what is deployed in a project, or on the clusters of a provider, may work on registered types there.
// A role may name one type.
func TestRegisteredTypesHavePermissions(t *testing.T) {
	t.Parallel()
	g := newGuardedStageWith(t, withFirewalls)
	root := g.company()
	const group = till + "/deployment-intent-groups/autumn"
	root.expect(201, "POST", "projects/shop/logical-clouds", `{"metadata":{"name":"stores"},"spec":{"level":"0"}}`)
	root.expect(201, "POST", till+"/composite-profiles", named("small"))
	root.expect(201, "POST", till+"/deployment-intent-groups", `{"metadata":{"name":"autumn"},"spec":{"compositeProfile":"small","version":"r1","logicalCloud":"stores"}}`)
	root.expect(201, "POST", "roles", `{"metadata":{"name":"ruler"},"spec":{"rules":[{"verbs":["create"],"types":["project-resources.firewall-rules"]}]}}`)
	root.expect(201, "POST", "projects/shop/role-bindings", binding("rulers", "ruler", "user:corp:ann"))

	const firewall = `{"metadata":{"name":"outer"},"spec":{"mode":"open"}}`
	g.user("ann").expect(404, "POST", group+"/firewalls", firewall)
	g.user("bob", "bank").expect(404, "POST", group+"/firewalls", firewall)
	g.user("sue", "shop").expect(201, "POST", group+"/firewalls", firewall)
	g.user("ann").expect(201, "POST", group+"/firewalls/outer/firewall-rules", named("one"))
	g.user("sue", "shop").expect(200, "GET", group+"/firewalls/outer/firewall-rules/one", "")
}

// A start, and a check of the configuration, refuse a bad schema with its place.
func TestABadSchemaIsRefusedAtTheStart(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(file, []byte("name: bad\nresources:\n  - name: rule\n    parent: none\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := config.Default()
	c.Data, c.Controllers.Schemas = t.TempDir(), []string{file}
	want := "controllers.schemas: " + file + `:4: resources[0].parent: there is no type "none"`
	if err := app.Check(c, func(string) {}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the check returns %v, want %s", err, want)
	}
	if _, err := app.New(context.WithoutCancel(t.Context()), c, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the start returns %v, want %s", err, want)
	}
}

// Schemas name EMCO's types by the variables of its routes, and cannot take a segment of its paths.
func TestSchemasKnowTheRoutes(t *testing.T) {
	t.Parallel()
	items, reserved := map[string]bool{}, refschema.Reserved()
	var free []string
	eachRoute(t, func(method, template string) {
		path := strings.TrimPrefix(template, "/v2/")
		items[method+" "+path] = true
		for part := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
			if part != "" && part[0] != '{' && !reserved[part] && !slices.Contains(free, part) {
				free = append(free, part)
			}
		}
	})
	for name, path := range refschema.BuiltIn() {
		if !items["GET "+path] || !strings.HasSuffix(path, "/{"+name+"}") {
			t.Errorf("the type %s is not at %s", name, path)
		}
	}
	if len(free) > 0 {
		t.Errorf("schemas may take these segments, which EMCO's paths have: %v", free)
	}
}
