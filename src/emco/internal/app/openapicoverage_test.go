package app_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/openapi"
	"github.com/emco-orchestrator/emco/src/emco/internal/upstream"
	"github.com/emco-orchestrator/emco/src/kubehealth/kubetest"
)

// unseen are documented answers that TestEveryRouteAnswersAsItsDescriptionSays does not see.
type unseen struct {
	answers *regexp.Regexp
	words   string // of the answers
	why     string
	tests   string // that see them, or what they rest on
}

// elsewhere lists all answers that the test does not see.
var elsewhere = []unseen{
	{regexp.MustCompile(`^(DELETE \S+|PUT /v2/role-bindings/\S+) 409$`), "409 of a DELETE of what nothing needs", "two writers at the same moment", "`TestEveryInterleavingOfTwoKeepsTheStoreSound`"},
	{regexp.MustCompile(`^POST /v2/auth/logout 503$`), "503 of `POST auth/logout`", "another process that cannot read the session", "`TestASessionOfAnotherProcessIsLookedFor`"},
	{regexp.MustCompile(`^POST \S+/(instantiate|update|rollback|migrate) 429$`), "429 of actions of groups", "more dry runs than may wait", "`TestDryRunsWaitForEachOther`"},
	{regexp.MustCompile(`^POST \S+/(instantiate|update|rollback|migrate) 503$`), "503 of actions of groups", "a dry run that takes too long", "`TestDryRunsWaitForEachOther`"},
	{regexp.MustCompile(`^POST \S+/deployment-intent-groups/{\w+}/(approve|instantiate|update) 403$`), "403 of `POST …/approve`, `instantiate` and `update`", "a project of `auth.fourEyes`", "`TestNobodyApprovesItsOwn`, `TestNobodyUpdatesToItsOwnChanges`, `TestNobodyRepairsAFailedInstantiationAlone`"},
	{regexp.MustCompile(`^(POST|PUT) \S+/(roles|role-bindings|cluster-references|policy-intents|temporal-action-controller|temporal-workflow-intents)(/\S+)? 403$`), "403 of roles, bindings, cluster references, policy intents and workflows", "callers who have less than they give; what the operator does not allow", "`TestProjectsAreApart`, `TestViewsAreConfined`, `TestWorkflowsNeedTheOperator`, `TestPolicyIntentsActForTheirAuthors`"},
	{regexp.MustCompile(`^GET /v2/auth/callback 403$`), "403 of `GET auth/callback`", "a person in very many groups", "`TestSignInsThatAreRefused`"},
	{regexp.MustCompile(`^GET /v2/views/doctor\S* 429$`), "429 of `GET views/doctor…`", "two checks at the same moment", "`TestOneCheckOfTheDoctorRunsAtATime`"},
	{regexp.MustCompile(`^GET \S+/events 429$`), "429 of `GET …/events`", "more than 200 followers", "`TestStreamsAreBounded`"},
	{regexp.MustCompile(`^GET /v2/audit/export 429$`), "429 of `GET audit/export`", "several exports that clients read slowly", "`TestStreamsAreBounded`"},
	{regexp.MustCompile(`^POST \S+/logical-clouds/\S+/update 409$`), "409 of `POST …/logical-clouds/…/update`", "a cloud that is being terminated", "`TestEveryPairOfStateAndEvent`"},
	{regexp.MustCompile(`^POST /v2/git/restore 403$`), "403 of `POST git/restore`", "a server that keeps branches on their history", "`TestH49RewrittenHistoryIsRestored`"},
	{regexp.MustCompile(`^GET /v2/views/git/\S+ 429$`), "429 of `GET views/git/…`", "a provider whose budget is used up", "`TestCommitsOfABranchNameWhatTheyCarried`, `TestAProviderIsAskedRarely`"},
	{regexp.MustCompile(`^POST \S+/monitor/report (422|429|503)$`), "422, 429 and 503 of `POST …/monitor/report`", "a report from the future; more reports than the store takes", "`TestBodiesInMemoryAreBounded`, `TestAClusterThatReportsTooOften`"},
	{regexp.MustCompile(`^GET /v2/(views/|projects/)\S+ 503$`), "503 of views", "records that are still being read", "`TestF26ViewsAreRefusedUntilTheyAreWhole`"},
}

// elsewhereOf returns why an answer is not seen; nil if it must be.
func elsewhereOf(pair string) *unseen {
	for i := range elsewhere {
		if elsewhere[i].answers.MatchString(pair) {
			return &elsewhere[i]
		}
	}
	return nil
}

// coverage is what the description promises.
type coverage struct{ pairs, statuses, elsewhere int }

// countCoverage counts the pairs of upstream's API that are described, the statuses, and those that are not seen.
func countCoverage(d openapi.Document) (c coverage) {
	ours := map[string]bool{}
	for path, item := range d.Paths {
		for method, op := range item {
			method = strings.ToUpper(method)
			ours[method+" "+anyName.ReplaceAllString(strings.TrimPrefix(path, "/v2/"), "{}")] = true
			for status := range op.Responses {
				c.statuses++
				if elsewhereOf(method+" "+path+" "+status) != nil {
					c.elsewhere++
				}
			}
		}
	}
	for _, r := range upstream.Surface() {
		if ours[r.Method+" "+r.Path] {
			c.pairs++
		}
	}
	return c
}

// described reports whether the description has a query form.
func described(d openapi.Document, q upstream.Query) (template string, ok bool) {
	for path, item := range d.Paths {
		if item["get"] == nil || anyName.ReplaceAllString(strings.TrimPrefix(path, "/v2/"), "{}") != q.Path {
			continue
		}
		for _, p := range item["get"].Parameters {
			if p.In == "query" && p.Name == q.Param {
				return path, true
			}
		}
	}
	return "", false
}

// formValues are what the query forms ask for, on what is deployed.
var formValues = map[string]string{
	"label": "all", "withLabels": "true", "key": "k", "app": "web", "intent": "genericPlacementIntent",
	"consumer": "consumer", "resource": "need",
}

// forms asks each query form of upstream's on a stage of its own, and returns how many are answered with 200.
func (x explorer) forms(t *testing.T, d openapi.Document) (good int) {
	t.Helper()
	s := newStage(t)
	names := s.everything()
	for _, q := range upstream.Queries() {
		template, ok := described(d, q)
		if !ok {
			t.Errorf("the description has no query %s of %s", q.Param, q.Path)
			continue
		}
		value := formValues[q.Param]
		switch {
		case strings.HasSuffix(q.Path, "/hpa-intents"):
			value = "needs"
		case strings.Contains(q.Path, "cluster-sync-objects"):
			value = "url"
		case strings.HasSuffix(q.Path, "/intents"):
			value = "all"
		}
		if a := s.do("GET", filled(template, names)+"?"+q.Param+"="+value, ""); a.Status != 200 || len(a.Body) < 5 {
			t.Errorf("GET %s?%s=%s is answered %d %s", template, q.Param, value, a.Status, a.Body)
		} else {
			good++
		}
	}
	return good
}

// noted records the status of a request that something else has sent.
func noted(t *testing.T, d openapi.Document, seen map[string]bool, method, path string, status int) {
	t.Helper()
	path, _, _ = strings.Cut(path, "?")
	text := fmt.Sprint(status)
	op := d.Paths[path][strings.ToLower(method)]
	if _, documented := op.Responses[text]; !documented {
		t.Errorf("%s %s is answered %d, which the document does not have", method, path, status)
	}
	seen[method+" "+path+" "+text] = true
}

// signedIn asks, on a stage with an issuer, for answers to browsers, and to callers who may not do everything.
func signedIn(t *testing.T, d openapi.Document, seen map[string]bool) {
	t.Helper()
	g := newGuardedStageWith(t, signsBrowsersIn)
	g.op.Describe(map[string]any{"end_session_endpoint": g.op.URL + "/end"})
	visit := func(b *browser, method, path string) {
		t.Helper()
		noted(t, d, seen, method, path, b.send(method, path, "").status)
	}
	silent := newGuardedStageWith(t, signsBrowsersIn)
	silent.op.SetDown(true)
	visit(silent.browser(), "GET", "/v2/auth/login") // the issuer has never answered
	root := g.company()
	root.expect(201, "POST", "roles", `{"metadata":{"name":"token-maker"},"spec":{"rules":[{"verbs":["create"],"types":["tokens"]}]}}`)
	root.expect(201, "POST", "role-bindings", binding("makers", "token-maker", "user:corp:ann"))
	ann := g.user("ann")
	noted(t, d, seen, "POST", "/v2/tokens", ann.do("POST", "tokens", strings.Replace(tokenDocument("ci"), "viewer", "platform-admin", 1)).Status)
	noted(t, d, seen, "POST", "/v2/auth/who-can", ann.do("POST", "auth/who-can", `{"path":"/v2/projects/shop"}`).Status)

	dev := map[string]any{"sub": "dev"}
	visit(g.browser(), "GET", "/v2/auth/login")
	visit(g.browser(), "GET", "/v2/auth/login?issuer=nowhere")
	b, waiting := g.browser(), g.browser()
	visit(g.browser(), "GET", b.begin(dev, "")) // a link to another's sign-in
	visit(b, "GET", b.begin(dev, ""))
	back := waiting.begin(dev, "")
	g.op.SetDown(true)
	visit(waiting, "GET", back)
	g.op.SetDown(false)
	visit(g.browser(), "POST", "/v2/auth/logout?everywhere=true")
	visit(g.browser(), "POST", "/v2/auth/logout?everywhere=perhaps")
	visit(b, "POST", "/v2/auth/logout")
	visit(b, "GET", b.begin(dev, ""))
	visit(b, "POST", "/v2/auth/logout?provider=true")
	g.reports(true, true)
	visit(b, "GET", b.begin(dev, ""))
	for _, answer := range g.op.SignOut(t, "dev", "") {
		noted(t, d, seen, "POST", backChannel, answer.Status)
	}
	exhaust := func(method, path string) { // until there are too many from one address, which gets some back with time
		t.Helper()
		for range 1000 {
			status := g.browser().send(method, path, "").status
			noted(t, d, seen, method, path, status)
			if status == 429 {
				return
			}
		}
	}
	exhaust("POST", backChannel)
	exhaust("GET", "/v2/auth/login")
	exhaust("GET", "/v2/auth/callback?state=x&code=y")
	exhaust("POST", "/v2/auth/logout")
}

// away asks for answers about a cloud of level 1 that need a cluster whose API server has gone away.
func away(t *testing.T, d openapi.Document, seen map[string]bool, typed typedAnswers) {
	t.Helper()
	const (
		inner = "projects/shop/logical-clouds/inner"
		reads = "/v2/projects/{project}/logical-clouds/{logicalCloud}/cluster-references/{clusterReference}/kubeconfig"
	)
	s := newStage(t)
	s.fleet("a")
	direct := kubetest.Start(t)
	if a := s.register("direct", named("direct"), string(direct.Kubeconfig())); a.Status != 201 {
		t.Fatalf("register a direct cluster: %+v", a)
	}
	s.expect(201, "POST", "projects/shop/logical-clouds", `{"metadata":{"name":"inner"},"spec":{"namespace":"shop","user":{"userName":"shop","type":"certificate"}}}`)
	s.expect(201, "POST", inner+"/user-permissions", `{"metadata":{"name":"all"},"spec":{"namespace":"shop","apiGroups":[""],"resources":["*"],"verbs":["*"]}}`)
	for _, c := range []string{"a", "direct"} {
		s.expect(201, "POST", inner+"/cluster-references", `{"metadata":{"name":"`+c+`"},"spec":{"clusterProvider":"edge","cluster":"`+c+`"}}`)
	}
	s.expect(202, "POST", inner+"/instantiate", "")
	x := explorer{testStage: s, seen: seen, typed: typed}
	x.ask(d.Paths[reads]["get"], "GET", reads, inner+"/cluster-references/a/kubeconfig", "")
	direct.Rotate() // it refuses EMCO from now on
	x.ask(d.Paths[reads]["get"], "GET", reads, inner+"/cluster-references/direct/kubeconfig", "")
}

// declared returns the description of the routes that need no running program.
func declared(t *testing.T) *openapi.Document {
	t.Helper()
	d, err := openapi.Of(declaredRoutes(), "")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// coverageText is the part of the page of compatibility about what the test asks.
func coverageText(t *testing.T) string {
	t.Helper()
	d := declared(t)
	c, forms := countCoverage(*d), 0
	for _, q := range upstream.Queries() {
		if _, ok := described(*d, q); ok {
			forms++
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n## What a test asks\n\n`TestEveryRouteAnswersAsItsDescriptionSays` asks the running program for every answer that `/openapi.json` documents.\n\n| | |\n|---|---|\n")
	fmt.Fprintf(&b, "| pairs of method and path of upstream's API | %d of %d |\n", c.pairs, len(upstream.Surface()))
	fmt.Fprintf(&b, "| forms of queries of upstream's documents | %d of %d |\n", forms, len(upstream.Queries()))
	fmt.Fprintf(&b, "| documented statuses of all routes that it sees | %d of %d |\n", c.statuses-c.elsewhere, c.statuses)
	fmt.Fprintf(&b, "\nIt does not see these, each for a reason:\n\n| answers | number | they need | tests of what they rest on |\n|---|---|---|---|\n")
	for i := range elsewhere {
		n := 0
		for path, item := range d.Paths {
			for method, op := range item {
				for status := range op.Responses {
					if elsewhereOf(strings.ToUpper(method)+" "+path+" "+status) == &elsewhere[i] {
						n++
					}
				}
			}
		}
		fmt.Fprintf(&b, "| %s | %d | %s | %s |\n", elsewhere[i].words, n, elsewhere[i].why, elsewhere[i].tests)
	}
	return b.String()
}
