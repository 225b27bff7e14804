package app_test

//go:generate go test -count=1 -run ^TestTheRESTReferenceIsCurrent$ . -args -update

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/app"
	"github.com/emco-orchestrator/emco/src/emco/internal/doctor"
	"github.com/emco-orchestrator/emco/src/emco/internal/openapi"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/audit"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/cacert"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/clm"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/dcm"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/dtc"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/gac"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/hpa"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/identity"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/ncm"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/orchestrator"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/ovnaction"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/placementintent"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/policyintents"
	rsyncapi "github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/api"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/sfc"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/workflowmgr"
	"github.com/emco-orchestrator/emco/src/emco/internal/views"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

var updateReference = flag.Bool("update", false, "rewrite docs/reference/rest.md")

const (
	restReference = "../../../../docs/reference/rest.md"
	groupRoute    = "/v2/projects/{project}/composite-apps/{compositeApp}/{compositeAppVersion}/deployment-intent-groups/{deploymentIntentGroup}"
	cloudRoute    = "/v2/projects/{project}/logical-clouds/{logicalCloud}"
	clusterRoute  = "/v2/cluster-providers/{clusterProvider}/clusters/{cluster}"
)

// declaredRoutes returns the routes of the whole program, without what serves them.
func declaredRoutes() *mux.Router {
	r := web.NewRouter()
	clm.Resources{}.Mount(r)
	placementintent.Resources{}.Mount(r)
	cacert.Resources{}.Mount(r)
	cacert.New(nil, nil, nil).Mount(r)
	clouds := dcm.NewClouds(nil, nil)
	dcm.NewResources(nil, clouds).Mount(r) // what guards documents is part of their description
	clouds.Mount(r)
	orchestrator.Resources{}.Mount(r)
	orchestrator.NewGroups(nil, nil, nil).Mount(r)
	gac.Resources{}.Mount(r)
	dtc.Resources{}.Mount(r)
	workflowmgr.Resources{}.Mount(r)
	identity.Resources{}.Mount(r)
	audit.New(nil).Mount(r)
	hpa.Resources{}.Mount(r)
	sfc.Resources{}.Mount(r)
	(&policyintents.Service{}).Mount(r)
	ncm.New(nil, nil).Mount(r)
	ovnaction.Resources{}.Mount(r)
	rsyncapi.Branches{}.Mount(r)
	rsyncapi.Kubeconfigs{}.Mount(r)
	(&views.Views{Parts: views.Parts{Lanes: &views.Lanes{}}}).Mount(r)
	app.MountReports(r)
	doctor.NewRoutes(doctor.Stores{}, &doctor.Branches{}).Mount(r)
	return r
}

// eachRoute calls f with the method and the path template of each declared route.
func eachRoute(t *testing.T, f func(method, template string)) {
	t.Helper()
	err := declaredRoutes().Walk(func(route *mux.Route, _ *mux.Router, _ []*mux.Route) error {
		template := web.Template(route)
		methods, err := route.GetMethods()
		for _, method := range methods {
			f(method, template)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The reference lists every route of the program. make gen rewrites it.
func TestTheRESTReferenceIsCurrent(t *testing.T) {
	text := restPage(t, declaredRoutes())
	if now, err := os.ReadFile(restReference); err == nil && string(now) == text {
		return
	}
	if !*updateReference {
		t.Fatalf("%s is not what the program serves; make gen rewrites it", restReference)
	}
	if err := os.WriteFile(restReference, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func restPage(t *testing.T, r *mux.Router) string {
	t.Helper()
	documents, actions, viewed, fleet := map[string]resource.Description{}, map[string]openapi.Action{}, map[string]bool{}, []string{}
	err := r.Walk(func(route *mux.Route, _ *mux.Router, _ []*mux.Route) error {
		template := web.Template(route)
		methods, err := route.GetMethods()
		if err != nil {
			return err
		}
		key := methods[0] + " " + template
		action, known := openapi.Actions()[key]
		switch d, ok := route.GetHandler().(resource.Described); {
		case ok:
			documents[d.Describe().Collection] = d.Describe()
		case !known:
			t.Errorf("%s has no row in Actions of package openapi", key)
		case strings.HasPrefix(template, "/v2/views/"):
			fleet, viewed[key] = append(fleet, template), true
		default:
			actions[key] = action
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for key := range openapi.Actions() {
		if _, served := actions[key]; !served && !viewed[key] {
			t.Errorf("Actions of package openapi describes %s, which is not served", key)
		}
	}
	if len(fleet) == 0 {
		t.Error("no views are served")
	}
	var b strings.Builder
	b.WriteString(restIntroduction)
	b.WriteString("## Errors\n\n| status | kinds of errors |\n|---|---|\n")
	for _, row := range kindsByStatus() {
		b.WriteString(row)
	}
	b.WriteString("\n## Documents\n\n")
	for _, collection := range sortedKeys(documents) {
		b.WriteString(describeDocument(t, documents[collection]))
	}
	b.WriteString("## Actions and queries\n\n| route | what it does | parameters | body | answers |\n|---|---|---|---|---|\n")
	for _, key := range sortedKeys(actions) {
		a := actions[key]
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", key, a.What, a.Parameters, a.Body, a.Answers)
	}
	b.WriteString("\n## Views\n\n[Views](../views.md) describes their parameters and answers. All are `GET`.\n\n")
	slices.Sort(fleet)
	for _, template := range slices.Compact(fleet) {
		fmt.Fprintf(&b, "- `%s`\n", template)
	}
	return b.String()
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b string) int { // by path, then by method
		_, pathA, _ := strings.Cut(a, " ")
		_, pathB, _ := strings.Cut(b, " ")
		return cmp.Or(cmp.Compare(pathA, pathB), cmp.Compare(a, b))
	})
	return keys
}

func kindsByStatus() (rows []string) {
	byStatus := map[int][]string{}
	for k := errs.Internal; k <= errs.Unavailable; k++ {
		byStatus[errs.Status(k)] = append(byStatus[errs.Status(k)], "`urn:emco:error:"+strings.ReplaceAll(k.String(), " ", "-")+"`")
	}
	for status := 400; status < 600; status++ {
		if kinds := byStatus[status]; kinds != nil {
			rows = append(rows, fmt.Sprintf("| %d | %s |\n", status, strings.Join(kinds, ", ")))
		}
	}
	return rows
}

func describeDocument(t *testing.T, d resource.Description) string {
	t.Helper()
	page := strings.ToLower(d.Document) + ".md"
	if _, err := os.Stat(filepath.Join(filepath.Dir(restReference), "documents", page)); err != nil {
		t.Errorf("%s has no page in the reference of documents: %v", d.Document, err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n`/v2/%s` and `…/%s` hold [%s](documents/%s).\n\n", d.Kind, d.Collection, d.Item, d.Document, page)
	b.WriteString("| request | answers | parameters |\n|---|---|---|\n")
	row := func(request, answers string, parameters ...string) {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", request, answers, strings.Join(parameters, ", "))
	}
	collection, item := "the collection", "an item"
	large := ""
	if d.File {
		large = "; 413 the file is larger than " + fmt.Sprint(d.FileLimit) + " bytes"
		if d.FileLimit == 0 {
			large = "; 413 the file is larger than `http.packageLimit`"
		}
	}
	forbidden := ""
	if d.Forbids != "" {
		forbidden = "403 " + d.Forbids + "; "
	}
	conflict := "409 it exists"
	switch {
	case d.Root:
	case d.Explicit:
		conflict = "404 the parent is missing; " + conflict
	default:
		conflict += ", or the parent is missing"
	}
	if d.Needs {
		conflict += ", or a document that it names is missing"
	}
	if d.AtItem {
		row("POST an item", "as POST the collection; 400 the document has another name", "`strict=true`", "`dryRun=true`")
	}
	row("POST "+collection, "201; 400; "+forbidden+conflict+large+"; 422", "`strict=true`", "`dryRun=true`")
	list := "200; 400"
	if !d.Root {
		list += "; 404 the parent is missing"
	}
	row("GET "+collection, list, append([]string{"`limit`", "`continue`"}, quoted(d.Queries)...)...)
	get := "200; 304; 404"
	if d.File {
		get += "; 406. `Accept: application/octet-stream` gives the file, `multipart/form-data` both"
	}
	row("GET "+item, get, quoted(d.OnItem)...)
	refused, undeletable := "", "others change it"
	if d.Guarded {
		refused, undeletable = " what runs forbids it", "what runs forbids it"
	}
	switch put := map[resource.Put]string{resource.PutOK: "200", resource.PutCreated: "201", resource.PutUpsert: "200, or 201 if it is new"}[d.Put]; put {
	case "":
		row("PUT "+item, "405")
	default:
		row("PUT "+item, put+"; 400; "+forbidden+"409"+refused+"; 412"+large+"; 422", "`strict=true`", "`dryRun=true`")
	}
	if d.Clear {
		row("DELETE "+collection+", all of it", "204; 404 the parent is missing; 409 one has children", "`dryRun=true`")
	}
	row("DELETE "+item, map[bool]string{false: "204", true: "200"}[d.AtItem]+"; 404; 409 it has children, something refers to it, or "+undeletable+"; 412", "`dryRun=true`")
	if d.Masked {
		b.WriteString("\nAnswers show `***` for secrets. Send `***` back to keep the stored value; a sync object that names another server (scheme, host or port) needs the value itself, otherwise 400.\n")
	}
	if d.Optional {
		b.WriteString("\nSome documents have no file; send these as JSON.\n")
	}
	return b.String() + "\n"
}

func quoted(names []string) (out []string) {
	for _, n := range names {
		out = append(out, "`"+n+"`")
	}
	return out
}

const restIntroduction = `# REST reference

<!-- Generated from the routes of the program; make gen rewrites it. -->

Every route of the API, below ` + "`http://HOST:9015`" + `. The [documents](documents/README.md) have pages of their own;
[operating](../operate/README.md#health-and-metrics) describes ` + "`/healthz`, `/readyz`, `/metrics` and `/version`" + `.

## Rules of all routes

- **Names** in paths follow the rule of [names](documents/README.md); other ones are 400.
- **Callers** are programs: a request for a host that is not the API's name is 421, a request that may change something from a
  web page of another origin is 403, a body that is neither JSON nor multipart is 415 ([operating](../operate/README.md#running)).
- **Who** calls: with ` + "`auth.mode: on`" + ` every route but ` + "`/v2/auth/issuers`" + `, sign-ins of [browsers](../operate/identity.md#browsers), reports and webhooks needs a caller, otherwise 401 with
  ` + "`WWW-Authenticate`" + `. What no role allows is 403, which names the permission; what the caller may not even read is 404
  ([identity](../operate/identity.md)).
- **Bodies** are JSON of at most 1 MiB, 413 beyond that. An empty or wrong document is 400, and the answer lists
  every fault. What is not JSON, or has a wrong type, is 422. A method that a path does not have is 405 with ` + "`Allow`" + `.
- **` + "`?strict=true`" + `** on POST and PUT of documents refuses unknown members with 400. Otherwise they are dropped.
- **Lists** are JSON arrays. With ` + "`?limit=N`" + ` (at most 1000) they come in pages: the header ` + "`X-Continue`" + ` holds the token of the
  next page, for ` + "`?continue=TOKEN`" + `. A page without the header is the last one. Events and revisions are objects, and have the
  token as member ` + "`continue`" + `.
- **ETag**: answers with a document carry one. PUT and DELETE with ` + "`If-Match`" + ` change only that revision, and with
  ` + "`If-None-Match`" + ` only another one (` + "`*`" + `: a PUT creates and replaces nothing); otherwise they answer 412.
  A PUT with equal content changes nothing; one without ` + "`metadata`" + ` is 400. Answers to GET of an item, a status, a revision
  and a view have an ETag too, and ` + "`If-None-Match`" + ` with it is answered 304 while nothing has changed.
- **Dry runs**: ` + "`?dryRun=true`" + ` (or ` + "`server`" + `) on every POST, PUT and DELETE but reports of agents and providers runs all checks and writes nothing. The
  answer is that of the write, without an ETag. An action answers 200: with its plan, or with the state that it would lead to.
  The header ` + "`If-Plan`" + ` with a plan's digest binds an action to the plan ([command line](../cli.md#plans-plan-and-diff)); an action
  without a plan refuses the header with 400.
- **Parameters** that a route does not have are 400, and the answer names the nearest one.
- **` + "`Idempotency-Key`" + `** on an action makes repetitions harmless: the second request with the same key gets the answer of the
  first. 422 if it asks for something else. ` + "`?reason=TEXT`" + ` is stored in the history.
- **` + "`X-Request-Id`" + `** is echoed, or made; it stands in the log.
- **Errors** are plain text. With ` + "`Accept: application/problem+json`" + ` they are problem documents (RFC 9457) with ` + "`type`, `title`, `status`," + `
  ` + "`detail`, `instance` and `requestId`" + `; branch on ` + "`type`" + `. 429 and 503 carry ` + "`Retry-After`" + `: the time, if the server knows it, else a second.

`
