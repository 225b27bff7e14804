package app_test

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pb33f/libopenapi"

	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/api/status"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/emco/internal/openapi"
	"github.com/emco-orchestrator/emco/src/emco/internal/upstream"
)

// fetch asks for something outside of /v2.
func (s *testStage) fetch(path string) (*http.Response, []byte) {
	s.Helper()
	res, err := http.Get(s.address + path)
	s.must("GET "+path, err)
	text, err := io.ReadAll(res.Body)
	s.must("read "+path, err)
	s.must("close", res.Body.Close())
	return res, text
}

func TestTheOpenAPIDocumentIsValidAndThePageStandsAlone(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	res, text := s.fetch("/openapi.json")
	if res.StatusCode != http.StatusOK || res.Header.Get("ETag") == "" {
		t.Fatalf("openapi.json: %d %v", res.StatusCode, res.Header)
	}
	document, err := libopenapi.NewDocument(text)
	s.must("read the document", err)
	model, err := document.BuildV3Model()
	s.must("resolve the document", err)
	if got := model.Model.Version; got != "3.1.0" {
		t.Errorf("the version is %s", got)
	}
	ids, operations := map[string]bool{}, 0
	for path, item := range model.Model.Paths.PathItems.FromOldest() {
		for method, op := range item.GetOperations().FromOldest() {
			operations++
			if ids[op.OperationId] || op.OperationId == "" {
				t.Errorf("%s %s: the id %q is not unique", method, path, op.OperationId)
			}
			ids[op.OperationId] = true
			if op.Responses.Codes.Len() == 0 {
				t.Errorf("%s %s: no answers", method, path)
			}
		}
	}
	if operations < 120 {
		t.Errorf("the document has %d operations", operations)
	}
	res, text = s.fetch("/reference")
	if res.StatusCode != http.StatusOK || !strings.Contains(res.Header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("the page: %d %v", res.StatusCode, res.Header)
	}
	if found := regexp.MustCompile(`(?i)<script|src=|@import|url\(|https?://`).Find(text); found != nil {
		t.Errorf("the page needs something from elsewhere: %s", found)
	}
	if n := strings.Count(string(text), "<details"); n != operations {
		t.Errorf("the page shows %d operations of %d", n, operations)
	}
}

// explorer asks routes for each of their documented statuses.
type explorer struct {
	*testStage
	worlds []map[string]string // names for the variables of paths: what is deployed, and what is fresh
	names  map[string]string   // those of the world that is explored
	seen   map[string]bool     // "POST /v2/projects 201"
	typed  typedAnswers
}

// in returns the explorer of a world.
func (x explorer) in(world map[string]string) explorer { x.names = world; return x }

// ask sends one request. A status that the document does not have is a fault of one of both.
func (x explorer) ask(op *openapi.Operation, method, template, path, body string, headers ...string) *http.Response {
	x.Helper()
	return x.askWith(op, method, template, path, body, nil, headers...)
}

// askWith sends one request with a file.
func (x explorer) askWith(op *openapi.Operation, method, template, path, body string, file []byte, headers ...string) *http.Response {
	x.Helper()
	content := client.JSON([]byte(body))
	if file != nil {
		var err error
		content, err = client.Multipart([]byte(body), client.File{Part: client.FilePart, Name: client.FileName, Data: file})
		x.must("pack "+path, err)
	}
	var from io.Reader
	if body != "" {
		var err error
		from, err = content.Open()
		x.must("open the body", err)
	}
	r, err := http.NewRequestWithContext(x.Context(), method, x.address+"/v2/"+path, from)
	x.must("make a request", err)
	if body != "" {
		r.Header.Set("Content-Type", content.ContentType())
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(r)
	x.must(method+" "+path, err)
	text, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	_ = res.Body.Close()
	status := strconv.Itoa(res.StatusCode)
	if _, documented := op.Responses[status]; !documented {
		x.Errorf("%s %s %.80s %v is answered %s, which the document does not have: %.200s", method, path, body, headers, status, text)
	}
	x.seen[method+" "+template+" "+status] = true
	if res.StatusCode < 300 && strings.TrimSpace(string(text)) != "" {
		if err := x.typed.read(method+" "+template, r.URL.Query(), text); err != nil {
			x.Errorf("%s %s %.80s is answered %.300s: %v", method, path, body, text, err)
		}
	}
	return res
}

const groupTemplate = "/v2/projects/{project}/composite-apps/{compositeApp}/{compositeAppVersion}/deployment-intent-groups/{deploymentIntentGroup}"

const clusterTemplate = "/v2/cluster-providers/{clusterProvider}/clusters/{cluster}"

// reads explores a route that reads.
func (x explorer) reads(op *openapi.Operation, template string) {
	x.Helper()
	path, none := filled(template, x.names), nowhere(template)
	if strings.HasSuffix(template, "/views/stream") {
		x.crowds(op, template, path+"?topics=fleet")
		x.ask(op, "GET", template, path+"?topics=moon", "")
		x.ask(op, "GET", template, path+"?topics=group:"+nowhere(strings.TrimPrefix(groupTemplate, "/v2/")), "")
		return
	}
	good := path
	switch {
	case strings.HasSuffix(template, "/views/search"):
		good += "?q=a"
	case strings.Contains(template, "/plans/{plan}"):
		good = strings.Replace(strings.Replace(good, "plans/fresh", "plans/"+x.names["plan"], 1), "classes/fresh", "classes/c1-1", 1)
	case template == groupTemplate+"/placement": // a group whose logical cloud is not instantiated yet
		const early = till + "/deployment-intent-groups/early"
		x.expect(201, "POST", till+"/deployment-intent-groups", `{"metadata":{"name":"early"},"spec":{"compositeProfile":"small","version":"r1","logicalCloud":"spare"}}`)
		x.ask(op, "GET", template, early+"/placement", "")
		x.expect(204, "DELETE", early, "")
	case strings.HasSuffix(template, "/fleet/nth"):
		good += "?group=edge&i=0"
		x.ask(op, "GET", template, path+"?group=edge&i=99", "")
	case strings.HasSuffix(template, "/revisions/{revision}"):
		good, path = strings.Replace(path, "fresh", "1", 1), strings.Replace(path, "fresh", "one", 1)
		x.ask(op, "GET", template, path, "")
	}
	res := x.ask(op, "GET", template, good, "")
	if tag := res.Header.Get("ETag"); tag != "" {
		x.eventually("GET "+good+" is the same twice", func() string { // other requests' work goes on
			res = x.ask(op, "GET", template, good, "", "If-None-Match", tag)
			if res.StatusCode == http.StatusOK {
				tag = res.Header.Get("ETag")
				return "the answer has changed"
			}
			return ""
		})
	}
	x.ask(op, "GET", template, none, "")
	if op.Responses["400"].Description != "" {
		x.ask(op, "GET", template, good+map[bool]string{true: "&", false: "?"}[strings.Contains(good, "?")]+"nosuch=1", "")
	}
	if op.Responses["406"].Description != "" {
		x.ask(op, "GET", template, good, "", "Accept", "image/png")
	}
}

// crowds opens as many streams as the program serves at the same time, and then one more.
func (x explorer) crowds(op *openapi.Operation, template, path string) {
	x.Helper()
	ctx, cancel := context.WithCancel(x.Context())
	defer cancel()
	for range x.config.Status.Streams {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, x.address+"/v2/"+path, nil)
		x.must("make a request", err)
		res, err := http.DefaultClient.Do(r)
		x.must("open a stream", err)
		defer func() { _ = res.Body.Close() }()
		x.seen["GET "+template+" "+strconv.Itoa(res.StatusCode)] = true
	}
	x.ask(op, "GET", template, path, "")
}

// rarely asks, on a stage of its own, for answers that need a cluster that reports by HTTPS, a branch that others
// have rewritten, or a program without the secret of a Git server.
func rarely(t *testing.T, d openapi.Document, seen map[string]bool, typed typedAnswers) {
	t.Helper()
	s := newStage(t)
	s.fleet("a")
	s.reportByHTTPS()
	s.onboard("web")
	s.spec("web", `{"rollout":{"waves":[{"clusters":1,"pause":true}]}}`, configMap)
	g := s.group("autumn", appPlaces{"web": {"a"}})
	g.act("instantiate")
	g.becomes("Instantiated")
	x := explorer{testStage: s, seen: seen, typed: typed}
	ask := func(method, template, path, body string, headers ...string) {
		t.Helper()
		x.ask(d.Paths[template][strings.ToLower(method)], method, template, path, body, headers...)
	}

	const monitor = clusterTemplate + "/monitor"
	agent, token := s.agent("a"), "Bearer "+s.reportToken("a")
	report := func(cluster string, r status.Report, headers ...string) {
		t.Helper()
		text, err := status.Encode(r, 0)
		s.must("encode a report", err)
		ask("POST", monitor+"/report", provider+"/clusters/"+cluster+"/monitor/report", string(text), append(headers, "Authorization", token)...)
	}
	old, now := agent.sees("Ready"), agent.sees("Ready")
	report("a", now)
	report("a", old)
	report("nowhere", now)
	report("a", now, "Content-Encoding", "br")
	of, same := agent.sees("Ready"), agent.sees("Ready")
	of.Cluster = "edge+other"
	report("a", of)
	same.Same, same.Apps = strings.Repeat("0", 64), nil
	report("a", same)
	ask("POST", monitor+"/report", provider+"/clusters/a/monitor/report", strings.Repeat(" ", status.MaxSize+1), "Authorization", token)
	ask("GET", monitor, provider+"/clusters/a/monitor", "")

	ask("POST", "/v2/webhooks/git", "webhooks/git", `{}`)

	ask("POST", groupTemplate+"/promote", g.path+"/promote?dryRun=true", "")
	ask("POST", groupTemplate+"/promote", g.path+"/promote", "")

	first, err := s.bare.Git(t.Context(), "", "rev-list", "--max-parents=0", branch)
	s.must("find the first commit", err)
	_, err = s.bare.Git(t.Context(), "", "update-ref", "refs/heads/"+branch, first)
	s.must("rewrite the branch", err)
	ask("POST", "/v2/git/restore", "git/restore", `{"url":"`+s.git.URL("fleet")+`","branch":"`+branch+`"}`)
}

// prepareRun brings the run of a hook or a workflow into a state that allows an action.
func (x explorer) prepareRun(template, path string) {
	x.Helper()
	if !strings.HasPrefix(template, groupTemplate+"/temporal-") || x.names["deploymentIntentGroup"] != "autumn" {
		return
	}
	at, action := path[:strings.LastIndex(path, "/")], path[strings.LastIndex(path, "/")+1:]
	switch {
	case action == "start":
		x.do("POST", at+"/cancel", "")
	case strings.Contains(template, "/temporal-workflow-intents/"):
		x.do("POST", at+"/start", "")
	default:
		x.expect(202, "POST", path[:strings.Index(path, "/temporal-")]+"/update", "")
	}
	state := func() string {
		var st v2.WorkflowStatus
		x.must("read a status", json.Unmarshal([]byte(x.expect(200, "GET", at+"/status", "")), &st))
		return st.State
	}
	if action == "start" {
		x.eventually("the workflow has ended", func() string {
			if s := state(); s == v2.RunRunning || s == v2.RunWaiting {
				return s
			}
			return ""
		})
		return
	}
	x.eventually("the workflow runs", func() string { return unless(state(), v2.RunRunning) })
	if action == "retry" || action == "skip" {
		x.expect(202, "POST", at+"/cancel", "")
		x.eventually("the workflow is canceled", func() string { return unless(state(), v2.RunCanceled) })
	}
}

// nowhere returns a path of documents that do not exist.
func nowhere(template string) string {
	path := strings.ReplaceAll(filled(template, nil), "fresh", "nowhere")
	if strings.HasSuffix(template, "{compositeAppVersion}") {
		path = strings.TrimSuffix(path, "nowhere") + "v1"
	}
	return path
}

// examples are documents that cannot be copied from those that are there, by collection.
var examples = map[string]string{
	"networks":                   networkDocument("copy"),
	"workload-intents":           `{"metadata":{"name":"copy"},"spec":{"app":"web","workloadResource":"r1-web","type":"Deployment"}}`,
	"interfaces":                 `{"metadata":{"name":"copy"},"spec":{"interface":"net1","name":"tills"}}`,
	"inbound-intents":            `{"metadata":{"name":"copy"},"spec":{"app":"web","appLabel":"app=web","serviceName":"r1-web","port":8080,"protocol":"TCP"}}`,
	"clients":                    `{"metadata":{"name":"copy"},"spec":{"app":"cache","appLabel":"app=cache","serviceName":"r1-cache","namespaces":["shop"],"cidrs":["10.1.0.0/16"]}}`,
	"access-points":              `{"metadata":{"name":"copy"},"spec":{"action":"ALLOW","url":["/items"],"access":["GET"]}}`,
	"composite-apps":             `{"metadata":{"name":"copy"},"spec":{"compositeAppVersion":"v1"}}`,
	"app-intents":                `{"metadata":{"name":"copy"},"spec":{"app":"cache","intent":{"allOf":[{"clusterProvider":"edge","cluster":"b"}]}}}`,
	"intents":                    `{"metadata":{"name":"copy"},"spec":{"intent":{"genericPlacementIntent":"places"}}}`,
	"profiles":                   `{"metadata":{"name":"copy"},"spec":{"app":"web"}}`,
	"policies":                   `{"metadata":{"name":"copy"},"spec":{"mode":"report"}}`,
	"cluster-quotas":             `{"metadata":{"name":"copy"},"spec":{"pods":"50"}}`,
	"user-permissions":           `{"metadata":{"name":"copy"},"spec":{"namespace":"shop","apiGroups":[""],"resources":["*"],"verbs":["*"]}}`,
	"temporal-action-controller": strings.Replace(silentHook("copy"), "pre-update", "post-termination", 1),
	"temporal-workflow-intents":  `{"metadata":{"name":"copy"},"spec":{` + silentWorkflow + `}}`,
	"workers":                    `{"metadata":{"name":"copy"},"spec":{"deploymentIntentGroup":"autumn","compositeApp":"till","compositeAppVersion":"v1"}}`,
	"resources":                  `{"metadata":{"name":"copy"},"spec":{"app":"web","newObject":"false","resourceGVK":{"apiVersion":"v1","kind":"ConfigMap","name":"r1-web"}}}`,
	"customizations":             `{"metadata":{"name":"copy"},"spec":{"clusterSpecific":"false","clusterInfo":{"scope":"","clusterProvider":"","cluster":"","clusterLabel":"","mode":""},"patchType":"json","patchJson":[{"op":"replace","path":"/data/greeting","value":"x"}]}}`,
}

// newDocument returns a document for a collection, which is named "copy", with its file.
func (x explorer) newDocument(template string) (body string, file []byte) {
	collection := template[strings.LastIndex(template, "/")+1:]
	if collection == "cluster-sync-objects" {
		return x.syncObject("copy", x.git.URL("fleet"), x.token), nil
	}
	if body := examples[collection]; body != "" {
		return body, x.fileFor(collection, "copy")
	}
	var all []map[string]any
	if json.Unmarshal([]byte(x.do("GET", filled(template, x.names), "").Body), &all) != nil || len(all) == 0 {
		return named("copy"), x.fileFor(collection, "copy")
	}
	return renamed(x, all[0], "copy"), x.fileFor(collection, "copy")
}

// renamed returns a document with another name.
func renamed(x explorer, doc map[string]any, name string) string {
	if meta, ok := doc["metadata"].(map[string]any); ok {
		meta["name"] = name
	} else {
		doc["clusterLabel"] = name
	}
	text, err := json.Marshal(doc)
	x.must("write a document", err)
	return string(text)
}

// fileFor returns a file for a document of a collection, nil if it needs none.
func (x explorer) fileFor(collection, name string) []byte {
	switch collection {
	case "apps":
		return x.chart(name, configMap)
	case "profiles":
		return x.pack(map[string]string{"manifest.yaml": "version: v1\ntype:\n  values: values.yaml\n", "values.yaml": "greeting: x\n"})
	}
	return nil
}

const tooMuch = 1<<20 + 1

// writes explores a route of a document that writes.
func (x explorer) writes(op *openapi.Operation, method, template string) {
	x.Helper()
	path, none := filled(template, x.names), nowhere(template)
	switch method {
	case http.MethodPost:
		body, file := x.newDocument(template)
		if strings.HasSuffix(template, "}") { // of an item, with the name in the URL
			collection := template[:strings.LastIndex(template, "/")]
			body, file = x.newDocument(collection)
			body, path = strings.Replace(body, `"copy"`, `"other"`, 1), filled(collection, x.names)+"/other"
			none = nowhere(collection) + "/other"
		}
		x.askWith(op, method, template, path, body, file)
		x.askWith(op, method, template, path, body, file)
		x.askWith(op, method, template, none, body, file)
		if strings.HasSuffix(template, "/apps") { // no group places it
			x.expect(204, "DELETE", path+"/copy", "")
		}
	case http.MethodPut:
		at := strings.LastIndex(template, "/")
		collection := template[strings.LastIndex(template[:at], "/")+1 : at]
		now := x.do("GET", path, "")
		if now.Status != http.StatusOK {
			if body := examples[collection]; body != "" && strings.Contains(path, "/idle/") {
				x.ask(op, method, template, path, strings.Replace(strings.Replace(body, `"copy"`, `"`+path[strings.LastIndex(path, "/")+1:]+`"`, 1), `"cache"`, `"web"`, 1))
			}
			break
		}
		var doc map[string]any
		x.must("read "+path, json.Unmarshal([]byte(now.Body), &doc))
		put := func(to string, headers ...string) {
			name := to[strings.LastIndex(to, "/")+1:]
			if strings.HasSuffix(template, "{compositeAppVersion}") {
				name = strings.Split(to, "/")[3]
			}
			if spec, ok := doc["spec"].(map[string]any); ok && collection == "interfaces" { // which differ within a workload
				spec["interface"] = name
			}
			x.askWith(op, method, template, to, renamed(x, doc, name), x.fileFor(collection, name), headers...)
		}
		put(path)
		put(path, "If-Match", `"other"`)
		put(path + "-new")
		if strings.HasSuffix(template, "/ca-certs/{caCert}") { // whose issuing cluster must exist
			x.ask(op, method, template, path, strings.Replace(now.Body, `"cluster":"direct"`, `"cluster":"nowhere"`, 1))
		}
		if strings.Count(template, "/") > 3 { // it has a parent
			put(nowhere(template))
		}
		if collection == "apps" {
			x.do("DELETE", path+"-new", "") // no group places it
		}
		if meta, ok := doc["metadata"].(map[string]any); ok {
			meta["description"] = "changed"
			put(path)
		}
	}
	x.ask(op, method, template, path, `{`)
	x.ask(op, method, template, path, `[1]`)
	x.ask(op, method, template, path, `{}`)
	x.ask(op, method, template, path+"?nosuch=1", `{}`)
	if !x.seen[method+" "+template+" 413"] {
		x.ask(op, method, template, path, `{"metadata":{"name":"`+strings.Repeat("x", tooMuch)+`"}}`)
	}
}

// removes explores a route that deletes documents: the copy, which nothing needs, and what others need.
func (x explorer) removes(op *openapi.Operation, template string) {
	x.Helper()
	path := filled(template, x.names)
	x.ask(op, "DELETE", template, path+"?nosuch=1", "")
	if strings.Contains(template, "token") {
		x.ask(op, "DELETE", template, nowhere(template), "")
		x.ask(op, "DELETE", template, path, "")
		return
	}
	x.do("DELETE", path+"-new", "")
	free := path[:strings.LastIndex(path, "/")] + "/copy"
	if strings.HasSuffix(template, "/apps/{app}") {
		x.upload("POST", till+"/apps", named("copy"), x.fileFor("apps", "copy"))
	}
	if strings.HasSuffix(template, "{compositeAppVersion}") {
		free = strings.Replace(path, "till/", "copy/", 1)
	}
	x.ask(op, "DELETE", template, free, "", "If-Match", `"other"`)
	x.ask(op, "DELETE", template, free, "")
	x.ask(op, "DELETE", template, free, "") // it is gone
	x.ask(op, "DELETE", template, path, "", "If-Match", `"other"`)
	x.ask(op, "DELETE", template, path, "") // what is used is refused
}

// acts explores a route that is no document and writes.
func (x explorer) acts(op *openapi.Operation, method, template string) {
	x.Helper()
	path := filled(template, x.names)
	bodies := map[string]string{
		"rollback": `{"metadata":{},"spec":{"revision":"1"}}`, "move": `{"gitOpsType":"fluxcd"}`,
		"adopt": `{"url":"` + x.git.URL("fleet") + `","branch":"` + branch + `"}`, "restore": `{"url":"` + x.git.URL("fleet") + `","branch":"` + branch + `"}`,
		"tokens": tokenDocument("made"), "can-i": `{"path":"/v2/projects/shop"}`, "who-can": `{"path":"/v2/projects/shop"}`,
		"events":  `{"id":"alarm","data":{"load":1}}`,
		"migrate": `{"metadata":{},"spec":{"targetCompositeAppVersion":"v1","targetDeploymentIntentGroup":"winter"}}`,
	}
	body := bodies[template[strings.LastIndex(template, "/")+1:]]
	ofNetworks, empty := strings.HasPrefix(template, clusterTemplate), strings.Contains(path, "/clusters/c/")
	if ofNetworks && empty { // it must stay without pairs, so that a move has nothing to do
		x.do("DELETE", strings.Replace(path, "/apply", "/networks/copy", 1), "")
		x.do("DELETE", strings.Replace(path, "/apply", "/provider-networks/copy", 1), "")
	}
	x.prepareRun(template, path)
	if res := x.ask(op, method, template, path+"?dryRun=true", body); res.StatusCode == http.StatusConflict {
		x.Logf("%s %s is refused in this state", method, path) // as documented
	}
	classes := url.Values{"dryRun": {"true"}, "output": {"classes"}}
	if x.typed.typeOf(method+" "+template, classes) == reflect.TypeFor[v2.PlanClasses]() {
		x.ask(op, method, template, path+"?"+classes.Encode(), body)
	}
	if op.Responses["412"].Description != "" {
		x.ask(op, method, template, path, body, "If-Plan", "sha256:"+strings.Repeat("0", 64))
	}
	x.ask(op, method, template, nowhere(template), body)
	if op.Responses["400"].Description != "" {
		x.ask(op, method, template, path+"?dryRun=perhaps", body)
	}
	if op.RequestBody != nil {
		x.ask(op, method, template, path, `[`)
	}
	x.ask(op, method, template, path, body)
	if strings.Contains(template, "/ca-certs/") {
		x.ask(op, method, template, strings.Replace(path, "/"+x.names["caCert"]+"/", "/untouched/", 1), body)
	}
	if strings.HasPrefix(template, groupTemplate+"/temporal-") { // what cannot be done twice
		x.ask(op, method, template, path, body)
	}
	if strings.HasPrefix(template, groupTemplate+"/") && !strings.HasSuffix(template, "/approve") {
		x.ask(op, method, template, strings.Replace(path, "/"+x.names["deploymentIntentGroup"]+"/", "/untouched/", 1), body)
	}
	for range 20 * strings.Count(template, "/monitor/token") { // until there are too many
		x.ask(op, method, template, path+"?overlap=1h", body)
	}
	if template == clusterTemplate+"/apply" && !empty { // while the last one is stopped
		cluster := strings.TrimSuffix(path, "/apply")
		x.expect(204, "POST", cluster+"/stop", "")
		x.ask(op, method, template, path, body)
		x.expect(204, "POST", cluster+"/terminate", "")
		x.expect(204, "POST", path, "")
	}
	if strings.HasSuffix(template, "/move") { // again, while it is under way
		x.ask(op, method, template, path, `{"gitOpsType":"argocd"}`)
	}
	if strings.HasPrefix(template, "/v2/auth/") {
		x.ask(op, method, template, path, `{"path":"/v2/nowhere/at/all"}`)
	}
	if strings.HasPrefix(template, "/v2/git/") {
		x.ask(op, method, template, path, `{"url":"`+x.git.URL("fleet")+`","branch":"nowhere"}`)
	}
	if strings.HasSuffix(template, "/{agent}/events") {
		x.ask(op, method, template, path, strings.Repeat(" ", 65<<10))
	}
	if strings.HasSuffix(template, "/webhooks/git") {
		x.ask(op, method, template, path, `{}`, "X-Gitlab-Token", "hook")
		x.ask(op, method, template, path, strings.Repeat(" ", 5<<20), "X-Gitlab-Token", "hook")
	}
}

// rank puts what ends something behind what needs it.
func rank(operation string) int {
	method, template, _ := strings.Cut(operation, " ")
	for i, end := range []string{"/terminate", "/migrate", "/rollback", "/update", "/stop"} {
		if strings.HasSuffix(template, end) {
			if strings.Contains(template, "/logical-clouds/") {
				i -= 5 // deployments need the cloud
			}
			return 20 - i
		}
	}
	_, action := openapi.Actions()[operation]
	switch {
	case operation == "GET /v2/cluster-providers/{clusterProvider}/clusters/{cluster}/move":
		return 25
	case method == http.MethodDelete:
		return 50 - strings.Count(template, "/")
	case action && method != http.MethodGet:
		return 10
	case method == http.MethodGet:
		return 5
	case method == http.MethodPut:
		return 4
	}
	return 0
}

// fresh makes a group and a logical cloud that no action has been asked for, and returns the names of
// a world with them.
func (x explorer) fresh() map[string]string {
	x.Helper()
	const spare, spring = "projects/shop/logical-clouds/spare", till + "/deployment-intent-groups/spring"
	out := maps.Clone(x.worlds[0])
	maps.Copy(out, map[string]string{
		"logicalCloud": "spare", "clusterReference": "b", "userPermission": "copy", "clusterQuota": "copy", "logicalCloudKv": "copy", "policy": "copy",
		"compositeProfile": "second", "appProfile": "copy", "deploymentIntentGroup": "spring", "groupIntent": "copy", "genericResource": "copy", "customization": "copy",
		"netControllerIntent": "copy", "workloadIntent": "copy", "interfaceIntent": "copy", "trafficGroupIntent": "copy", "inboundServerIntent": "copy", "inboundClientsIntent": "copy", "inboundClientsAccessIntent": "copy",
		"caCert": "enrolled",
	})
	x.authorities("enrolled")
	for _, root := range []string{provider, "projects/shop"} {
		x.authority(root, "untouched")
		for _, stage := range []string{"authority/enrollment", "enrolled/enrollment", "authority/distribution"} {
			x.expect(202, "POST", root+"/ca-certs/"+stage+"/instantiate", "")
			x.stage(root+"/ca-certs/"+stage, `"deployedStatus":"Instantiated","readyStatus":"Ready"`)
		}
	}
	x.expect(201, "POST", till+"/composite-profiles", named("second"))
	x.expect(201, "POST", "projects/shop/logical-clouds", `{"metadata":{"name":"spare"},"spec":{"namespace":"shop","user":{"userName":"shop","type":"certificate"}}}`)
	x.expect(201, "POST", spare+"/cluster-references", `{"metadata":{"name":"b"},"spec":{"clusterProvider":"edge","cluster":"b"}}`)
	x.expect(201, "POST", spare+"/kv-pairs", `{"metadata":{"name":"facts"},"spec":{"kv":[{"k":"v"}]}}`)
	x.expect(201, "POST", till+"/deployment-intent-groups", `{"metadata":{"name":"spring"},"spec":{"compositeProfile":"small","version":"r1","logicalCloud":"stores"}}`)
	x.expect(201, "POST", spring+"/generic-placement-intents", named("places"))
	x.expect(201, "POST", spring+"/generic-placement-intents/places/app-intents", `{"metadata":{"name":"web"},"spec":{"app":"web","intent":{"allOf":[{"clusterProvider":"edge","cluster":"a"}]}}}`)
	x.expect(201, "POST", spring+"/generic-k8s-intents", named("extra"))
	var p v2.PlanClasses
	x.must("read a plan", json.Unmarshal([]byte(x.expect(200, "POST", till+"/deployment-intent-groups/autumn/update?dryRun=true&output=classes", "")), &p))
	for _, world := range append(x.worlds, out) {
		world["plan"] = strings.TrimPrefix(p.Digest, "sha256:")
	}
	return out
}

// idle makes a group and a logical cloud that cannot be instantiated, and returns the names of a world
// with them.
func (x explorer) idle() map[string]string {
	x.Helper()
	x.cluster("c", "repo")
	x.expect(201, "POST", "projects/shop/logical-clouds", `{"metadata":{"name":"idle"},"spec":{"level":"0"}}`)
	x.expect(201, "POST", till+"/deployment-intent-groups", `{"metadata":{"name":"idle"},"spec":{"compositeProfile":"small","version":"r1","logicalCloud":"stores"}}`)
	x.expect(201, "POST", till+"/deployment-intent-groups", `{"metadata":{"name":"untouched"},"spec":{"compositeProfile":"small","version":"r1","logicalCloud":"stores"}}`)
	x.expect(201, "POST", till+"/deployment-intent-groups/idle/generic-placement-intents", named("places"))
	x.expect(201, "POST", till+"/deployment-intent-groups/idle/network-controller-intent", named("nets"))
	x.expect(201, "POST", till+"/deployment-intent-groups/idle/network-controller-intent/nets/workload-intents", strings.Replace(examples["workload-intents"], "copy", "load", 1))
	out := maps.Clone(x.worlds[0])
	x.authorities("idle")
	maps.Copy(out, map[string]string{"caCert": "idle", "logicalCloud": "idle", "deploymentIntentGroup": "idle", "cluster": "c", "genericAppPlacementIntent": "other"})
	return out
}

// Every route is asked, and its answers are compared with the document. The test reports how many
// of the documented statuses it has seen.
func TestEveryRouteAnswersAsItsDescriptionSays(t *testing.T) {
	t.Parallel()
	s := newStageWith(t, func(c *config.Config) { c.Status.WebhookSecret, c.Status.Streams = "hook", 2 })
	x := explorer{testStage: s, worlds: []map[string]string{s.everything()}, seen: map[string]bool{}, typed: newTypedAnswers()}
	s.group("winter", appPlaces{"web": {"b"}, "cache": {"b"}})
	x.worlds = append(x.worlds, x.fresh())
	x.worlds = append(x.worlds, x.idle())
	_, text := s.fetch("/openapi.json")
	var d openapi.Document
	s.must("read the document", json.Unmarshal(text, &d))
	var all []string
	for path, item := range d.Paths {
		for method := range item {
			all = append(all, strings.ToUpper(method)+" "+path)
		}
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b)) })
	rarely(t, d, x.seen, x.typed)
	signedIn(t, d, x.seen)
	away(t, d, x.seen, x.typed)
	actions, documented, missing := openapi.Actions(), 0, []string(nil)
	for _, key := range all {
		method, template, _ := strings.Cut(key, " ")
		op := d.Paths[template][strings.ToLower(method)]
		_, action := actions[key]
		for i, world := range x.worlds {
			if i > 0 && filled(template, world) == filled(template, x.worlds[0]) {
				continue
			}
			switch x := x.in(world); {
			case method == http.MethodGet:
				x.reads(op, template)
			case action:
				x.acts(op, method, template)
			case method == http.MethodDelete:
				x.removes(op, template)
			default:
				x.writes(op, method, template)
			}
		}
		asked := false
		for status := range op.Responses {
			documented++
			if x.seen[key+" "+status] {
				asked = true
			} else {
				missing = append(missing, key+" "+status)
			}
		}
		if !asked {
			t.Errorf("%s was not asked", key)
		}
	}
	slices.Sort(missing)
	of := countCoverage(d)
	missing = slices.DeleteFunc(missing, func(pair string) bool { return elsewhereOf(pair) != nil })
	forms := x.forms(t, d)
	t.Logf("%d of %d pairs of upstream's API, %d of %d query forms; %d routes with %d statuses, %d of them seen here, the others have a reason",
		of.pairs, len(upstream.Surface()), forms, len(upstream.Queries()), len(all), documented, of.statuses-of.elsewhere)
	if documented != of.statuses {
		t.Errorf("the description has %d statuses, and %d are counted", documented, of.statuses)
	}
	if told := countCoverage(*declared(t)); told != of {
		t.Errorf("the page of compatibility counts %+v of the declared routes, the program has %+v", told, of)
	}
	if unread := x.typed.unread(); len(unread) > 0 {
		t.Errorf("no answer was read into these types of package rest:\n%s", strings.Join(unread, "\n"))
	}
	if len(missing) > 0 {
		t.Errorf("these documented answers were not seen:\n%s", strings.Join(missing, "\n"))
	}
}
