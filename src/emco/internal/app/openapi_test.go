package app_test

import (
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pb33f/libopenapi"

	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/emco/internal/openapi"
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
	names map[string]string
	seen  map[string]bool // "POST /v2/projects 201"
}

// ask sends one request. A status that the document does not have is a fault of one of both.
func (x explorer) ask(op *openapi.Operation, method, template, path, body string, headers ...string) *http.Response {
	x.Helper()
	var from io.Reader
	if body != "" {
		from = strings.NewReader(body)
	}
	r, err := http.NewRequestWithContext(x.Context(), method, x.address+"/v2/"+path, from)
	x.must("make a request", err)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
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
	return res
}

// reads explores a route that reads.
func (x explorer) reads(op *openapi.Operation, template string) {
	x.Helper()
	path, none := filled(template, x.names), filled(template, nil)
	if strings.HasSuffix(template, "/views/stream") {
		x.ask(op, "GET", template, path+"?topics=moon", "")
		return
	}
	good := path
	switch {
	case strings.HasSuffix(template, "/views/search"):
		good += "?q=a"
	case strings.HasSuffix(template, "/fleet/nth"):
		good += "?group=edge&i=0"
		x.ask(op, "GET", template, path+"?group=edge&i=99", "")
	case strings.HasSuffix(template, "/revisions/{revision}"):
		good, path = strings.Replace(path, "fresh", "1", 1), strings.Replace(path, "fresh", "one", 1)
		x.ask(op, "GET", template, path, "")
	}
	if res := x.ask(op, "GET", template, good, ""); res.Header.Get("ETag") != "" {
		x.ask(op, "GET", template, good, "", "If-None-Match", res.Header.Get("ETag"))
	}
	x.ask(op, "GET", template, none, "")
	if op.Responses["400"].Description != "" {
		x.ask(op, "GET", template, good+map[bool]string{true: "&", false: "?"}[strings.Contains(good, "?")]+"nosuch=1", "")
	}
	if op.Responses["406"].Description != "" {
		x.ask(op, "GET", template, good, "", "Accept", "image/png")
	}
}

// copyOf returns the body of a document like one that is there, with another name.
func (x explorer) copyOf(template string) string {
	var all []map[string]any
	if json.Unmarshal([]byte(x.do("GET", filled(template, x.names), "").Body), &all) != nil || len(all) == 0 {
		return named("copy")
	}
	one := all[0]
	if meta, ok := one["metadata"].(map[string]any); ok {
		meta["name"] = "copy"
	} else {
		one["clusterLabel"] = "copy"
	}
	text, err := json.Marshal(one)
	x.must("write a document", err)
	return string(text)
}

const tooMuch = 1<<20 + 1

// writes explores a route of a document that writes.
func (x explorer) writes(op *openapi.Operation, method, template string) {
	x.Helper()
	path, none := filled(template, x.names), filled(template, nil)
	switch method {
	case http.MethodPost:
		body := x.copyOf(template)
		x.ask(op, method, template, path, body)
		x.ask(op, method, template, path, body)
		x.ask(op, method, template, none, body)
	case http.MethodPut:
		x.ask(op, method, template, none, named(""))
		if now := x.do("GET", path, ""); now.Status == http.StatusOK {
			x.ask(op, method, template, path, now.Body)
			x.ask(op, method, template, path, now.Body, "If-Match", `"other"`)
		}
		if op.Responses["201"].Description != "" {
			x.ask(op, method, template, filled(template, x.names)+"-new", named(""))
		}
	}
	x.ask(op, method, template, path, `{`)
	x.ask(op, method, template, path, `[1]`)
	x.ask(op, method, template, path, `{}`)
	x.ask(op, method, template, path+"?nosuch=1", `{}`)
	x.ask(op, method, template, path, `{"metadata":{"name":"`+strings.Repeat("x", tooMuch)+`"}}`)
}

// removes explores a route that deletes documents.
func (x explorer) removes(op *openapi.Operation, template string) {
	x.Helper()
	path := filled(template, x.names)
	x.ask(op, "DELETE", template, filled(template, nil), "")
	x.ask(op, "DELETE", template, path+"?nosuch=1", "")
	x.ask(op, "DELETE", template, path, "", "If-Match", `"other"`)
	x.ask(op, "DELETE", template, path, "") // what is used is refused
	if at := strings.LastIndex(path, "/"); !strings.Contains(template, "token") {
		x.ask(op, "DELETE", template, path[:at]+"/copy", "")
	}
}

// acts explores a route that is no document and writes.
func (x explorer) acts(op *openapi.Operation, method, template string) {
	x.Helper()
	path := filled(template, x.names)
	bodies := map[string]string{
		"rollback": `{"metadata":{},"spec":{"revision":"1"}}`, "move": `{"gitOpsType":"fluxcd"}`,
		"adopt": `{"url":"` + x.git.URL("fleet") + `","branch":"` + branch + `"}`, "restore": `{"url":"` + x.git.URL("fleet") + `","branch":"` + branch + `"}`,
		"migrate": `{"metadata":{},"spec":{"targetCompositeAppVersion":"v1","targetDeploymentIntentGroup":"winter"}}`,
	}
	body := bodies[template[strings.LastIndex(template, "/")+1:]]
	if res := x.ask(op, method, template, path+"?dryRun=true", body); res.StatusCode == http.StatusConflict {
		x.Logf("%s %s is refused in this state", method, path) // as documented
	}
	if op.Responses["412"].Description != "" {
		x.ask(op, method, template, path, body, "If-Plan", "sha256:"+strings.Repeat("0", 64))
	}
	x.ask(op, method, template, filled(template, nil), body)
	if op.Responses["400"].Description != "" {
		x.ask(op, method, template, path+"?dryRun=perhaps", body)
	}
	if op.RequestBody != nil {
		x.ask(op, method, template, path, `[`)
	}
	x.ask(op, method, template, path, body)
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
	switch method {
	case http.MethodDelete:
		return 30 + strings.Count(template, "/")*-1
	case http.MethodGet:
		return 0
	}
	return 10
}

// Every route is asked, and its answers are compared with the document. The test reports how many
// of the documented statuses it has seen.
func TestEveryRouteAnswersAsItsDescriptionSays(t *testing.T) {
	t.Parallel()
	s := newStageWith(t, func(c *config.Config) { c.Status.WebhookSecret = "hook" })
	x := explorer{s, s.everything(), map[string]bool{}}
	s.group("winter", appPlaces{"web": {"b"}, "cache": {"b"}})
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
	actions, documented, missing := openapi.Actions(), 0, []string(nil)
	for _, key := range all {
		method, template, _ := strings.Cut(key, " ")
		op := d.Paths[template][strings.ToLower(method)]
		_, action := actions[key]
		switch {
		case method == http.MethodGet:
			x.reads(op, template)
		case action:
			x.acts(op, method, template)
		case method == http.MethodDelete:
			x.removes(op, template)
		default:
			x.writes(op, method, template)
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
	t.Logf("%d routes; %d of %d pairs of route and status were seen; the others:\n%s", len(all), documented-len(missing), documented, strings.Join(missing, "\n"))
	if seen := documented - len(missing); seen*100 < documented*75 { // some need clusters that sign, or a server that is too busy
		t.Errorf("only %d of %d documented statuses were seen", seen, documented)
	}
}
