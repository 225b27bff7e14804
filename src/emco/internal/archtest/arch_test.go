package archtest

import (
	"os"
	"path"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/archtest"
)

const (
	root   = "github.com/emco-orchestrator/emco/src/"
	module = root + "emco"
	rsync  = "internal/svc/rsync"
)

// packageGroup is a set of packages with equal rights. A name that ends in "/" stands for
// all packages right below it.
type packageGroup struct {
	packages []string
	may      []string // groups of this module that it may import
	outside  []string // packages of the other modules, besides api/errs and api/v2
}

// groups is the order of the module, from the bottom up. Drivers do not know each
// other, services neither; only the composition root knows them all.
var groups = map[string]packageGroup{
	"ground": {packages: []string{
		"internal/bytelru",     // caches within limits
		"internal/childproc",   // children within limits
		"internal/fairshare",   // slots that tenants share
		"internal/durable",     // files on disks, for all that keep some
		"internal/pause",       // between attempts
		"internal/fileowner",   // why the system refuses a file
		"internal/readpoint",   // what the reads of a request share
		"internal/expression",  // in CEL, within limits
		"internal/failpoint",   // where tests break the program
		"internal/sops",        // Secrets for those who have the key
		"internal/schemacheck", // values against JSON schemas
		"internal/authn/apitoken",
		"internal/authz",        // who may do what
		"internal/tracing",      // spans of OpenTelemetry
		"internal/tracing/otlp", // where they go
		"internal/membertest",   // for tests: a value with one member changed
	}},
	"kernel": {
		may: []string{"ground"},
		packages: []string{
			"internal/tarball", "internal/authn", "internal/config", "internal/contain", "internal/syncobjects", "internal/logs", "internal/manifest",
			"internal/run", "internal/store/seal", "internal/tlsfiles", "internal/trailers", "internal/web",
		},
		outside: []string{"git", "api/nearest"}, // syncobjects resolves repositories, trailers reads commits; config names the setting that was meant
	},
	"port": {
		packages: []string{
			"internal/addon", "internal/appcontext", "internal/appcontext/agents", "internal/appcontext/blobstore", "internal/appcontext/clusterhistory", "internal/appcontext/etcdkv", "internal/appcontext/gitstate", "internal/appcontext/mirror", "internal/appcontext/pairstore", "internal/appcontext/shards", "internal/appcontext/spend", "internal/diskspace", "internal/documenttally", "internal/etcdspace", "internal/eventlog", "internal/inventory", "internal/keyrotation", "internal/lifecycle", "internal/objectdiff", "internal/placement", "internal/render",
			"internal/route", // the one reader of sync objects
			"internal/customize", "internal/customize/contextupdatepb", "internal/grpccall", "internal/patch", "internal/placement/placementcontrollerpb",
			"internal/condition",                        // of policy intents
			"internal/guard",                            // policies of projects
			"internal/fieldcheck",                       // fields that kinds do not have
			"internal/auditlog", "internal/auditfilter", // the audit log, and what requests write to it
			"internal/authn/oidc", "internal/authn/websession", "internal/access", "internal/access/grants", "internal/access/throttle",
			"internal/planview",  // plans of dry runs, in parts
			"internal/openapi",   // describes what resources declare
			"internal/refschema", // types of documents that files register
			"internal/resource", "internal/review", "internal/sink/folder", "internal/socket", "internal/statusnotify", "internal/statusnotify/statusnotifypb", "internal/statusview", "internal/steps", "internal/store", "internal/store/kek", "internal/store/keyring", "internal/store/spool", "internal/store/transfer", "internal/syncer", "internal/syncer/pointer", "internal/upstream", "internal/workflow",
		},
		may:     []string{"ground", "kernel", "port"},
		outside: []string{"git", "api/audit", "api/jsonread"}, // a plan is edits of Git files; what etcd has of agents is read for each report
	},
	"client": { // how drivers speak to services that are not ours
		packages: []string{"internal/syncer/azurearc/arm"},
		outside:  []string{"git"}, // credentials that hide themselves
	},
	"intake": { // what agents report, whichever way it comes
		packages: []string{"internal/status/intake"},
		may:      []string{"ground", "kernel", "port"},
		outside:  []string{"git", "git/cooldown", "api/status"},
	},
	"registration": { // where clusters report, and what they should hold
		packages: []string{"internal/status/registration"},
		may:      []string{"ground", "kernel", "port", "intake", "driver"},
		outside:  []string{"api/status"},
	},
	"driver": {
		packages: []string{
			"internal/appcontext/embedded", "internal/condition/opa", "internal/customize/", "internal/placement/logicalcloud", "internal/placement/criteria", "internal/placement/external", "internal/render/helm", "internal/render/isolated",
			"internal/sink/kube", "internal/sink/oci", "internal/sink/s3", "internal/status/agentreports", "internal/status/freeresources", "internal/status/gitstatus", "internal/status/kubewatch",
			"internal/store/", "internal/syncer/", "internal/workflow/",
			"temporal/temporalrunner", // in a module of its own, for its dependencies
		},
		may:     []string{"ground", "kernel", "port", "client", "intake"},
		outside: []string{"git", "api/status"}, // what agents report
	},
	"suite": { // contracts that every driver is put through
		packages: []string{"internal/customize/customizetest", "internal/render/rendertest", "internal/store/storetest", "internal/syncer/syncertest"},
		may:      []string{"ground", "kernel", "port"},
		outside:  []string{"git"},
	},
	"list": { // the drivers of a port, by name
		packages: []string{"internal/sink/dispatch", "internal/store/all", "internal/syncer/all"},
		may:      []string{"ground", "kernel", "port", "client", "driver"},
	},
	"stage": { // what tests of documents play on: real stores in a temporary folder
		packages: []string{"internal/appcontext/contexttest", "internal/appcontext/etcdtest", "internal/resource/resourcetest", "internal/sink/s3/s3test", "internal/syncer/azurearc/arctest", "internal/tracing/tracingtest"},
		may:      []string{"ground", "kernel", "port", "driver", "list"},
	},
	"seam": { // what tests put between the parts
		packages: []string{"internal/failpoint/wrap"},
		may:      []string{"ground", "kernel", "port"},
		outside:  []string{"git", "git/batch"},
	},
	"service": {
		packages: []string{"internal/svc/", "internal/views"},
		may:      []string{"ground", "kernel", "port"},
		outside:  []string{"api/audit"}, // the form of the audit log
	},
	"part": { // of the orchestrator or the views; the exceptions list who sees it
		packages: []string{"internal/svc/orchestrator/", "internal/views/"},
		may:      []string{"ground", "kernel", "port"},
	},
	"reconciler": { // the parts of rsync; inRsync lists their imports of each other
		packages: []string{"internal/svc/rsync/", "internal/svc/rsync/deliver/"},
		may:      []string{"ground", "kernel", "port"},
		outside:  []string{"git", "git/batch"},
	},
	"maintenance": { // what operators do with the stores of an installation
		packages: []string{"internal/backup", "internal/doctor", "internal/generation", "internal/storeidentity"},
		may:      []string{"ground", "kernel", "port", "driver", "list"},
		outside:  []string{"api/version"},
	},
	"app": {
		packages: []string{"internal/app"},
		may:      []string{"ground", "kernel", "port", "client", "intake", "registration", "driver", "list", "maintenance", "service", "seam"},
		outside:  []string{"api/audit", "api/nearest", "api/version", "git", "git/all", "git/batch", "git/budget", "git/cooldown", "git/plain", "git/sshsig"},
	},
	"cmd":  {packages: []string{"cmd/", "temporal/cmd/"}, may: []string{"app"}},
	"none": {packages: []string{".", "internal/archtest"}},
}

// exceptions are arrows beyond the groups, each for a reason.
var exceptions = map[string][]string{
	// It watches and judges objects as the monitor does.
	"internal/status/kubewatch": {root + "kubehealth"},
	// They read what nodes have free as the monitor does.
	"internal/sink/kube":            {root + "kubehealth/capacity"},
	"internal/status/freeresources": {root + "kubehealth/capacity"},
	// It compares needs with what the monitor reports, and reads amounts that users wrote.
	"internal/customize/hpa": {root + "kubehealth/capacity", root + "kubehealth/quantity"},
	// It stores what agents report of nodes.
	"internal/appcontext/agents": {root + "api/status"},
	// It reads Retry-After as it is read from Git servers.
	"internal/sink/folder": {root + "git/transport"},
	// It waits between questions as all do.
	"internal/syncer/azurearc/arm": {module + "/internal/pause"},
	// It takes the jobs that package batch takes.
	"internal/sink/oci": {root + "git/batch", root + "git/transport"},
	// It takes the jobs that package batch takes, and connects by the rules of Git hosts.
	"internal/sink/s3": {root + "git/batch", root + "git/transport"},
	// No configuration chooses between Git and the API server, so rsync imports this sink itself.
	"internal/svc/rsync":                     {module + "/internal/sink/kube"},
	"internal/svc/rsync/api":                 {module + "/internal/sink/kube"},
	"internal/svc/rsync/shard":               {module + "/internal/sink/kube"},
	"internal/svc/rsync/deliver/kubeapplier": {module + "/internal/sink/kube", module + "/internal/status/kubewatch"},
	// It shows the branches that package batch writes, and answers from the counts of its part.
	"internal/views": {root + "api/nearest", root + "git", root + "git/batch", root + "git/budget", module + "/internal/views/tally", module + "/internal/views/branchlog"},
	// It compares the ids of the stores, and has their times compared.
	"internal/storeidentity": {module + "/internal/generation"},
	// It looks for files on branches that no deployment owns.
	"internal/doctor": {root + "git"},
	// It reads logs of branches at Git hosts.
	"internal/views/branchlog": {root + "git", root + "git/batch"},
	// It gives emco the client of Temporal that the program emco does not link.
	"temporal/cmd/emco-temporal": {module + "/internal/config", module + "/temporal/temporalrunner"},
	// It lets the counts follow the mirror.
	"internal/app": {module + "/internal/svc/orchestrator/quota", module + "/internal/views/tally", module + "/internal/views/branchlog"},
	// config takes its default rates from budget.
	"internal/config": {root + "git/budget"},
	// It stores what budgets have left.
	"internal/appcontext/spend": {root + "git/budget"},
	// It passes jobs to the writers of their kinds.
	"internal/sink/dispatch": {root + "git", root + "git/batch"},
	// The clusters of the logical cloud always limit a placement.
	"internal/svc/orchestrator/plan": {module + "/internal/placement/logicalcloud", module + "/internal/placement/criteria"},
	// The service alone sees its parts, and of these revision sees plan.
	"internal/svc/orchestrator":          {module + "/internal/svc/orchestrator/plan", module + "/internal/svc/orchestrator/quota", module + "/internal/svc/orchestrator/revision"},
	"internal/svc/orchestrator/revision": {module + "/internal/svc/orchestrator/plan"},
}

// inRsync lists the parts of rsync from the bottom up, and which of the parts above them in
// the list each may import. What is outside of rsync sees the service, route and api alone.
var inRsync = map[string][]string{
	"pair":    {},
	"content": {},
	"gate":    {"pair"},
	"queue":   {"pair"},
	"events":  {"pair"},
	"pairs":   {"pair", "content", "gate", "queue", "events"},

	"watchcache":          {},
	"reportbatch":         {"pair", "queue"},
	"deliver/gitwriter":   {"content", "pair", "queue"},
	"deliver/kubeapplier": {"content", "pair"},
	"deliver/platform":    {"pair", "queue"},
	"branchguard":         {"pair", "queue", "watchcache"},
	"clustermove":         {"pair", "pairs", "queue", "watchcache"},
	"shard": {
		"pair", "pairs", "gate", "queue", "content", "reportbatch",
		"deliver/gitwriter", "deliver/kubeapplier", "deliver/platform", "branchguard", "clustermove",
	},
	"api": {},
}

// homes lists the packages that may import a third-party module: replacing the module
// changes these packages only. Names end in "/" or are complete.
var homes = map[string][]string{
	"go.etcd.io/":                 {"internal/appcontext", "internal/appcontext/agents", "internal/appcontext/blobstore", "internal/appcontext/clusterhistory", "internal/appcontext/embedded", "internal/appcontext/etcdkv", "internal/appcontext/etcdtest", "internal/appcontext/gitstate", "internal/appcontext/pairstore", "internal/appcontext/shards", "internal/appcontext/spend", "internal/app", "internal/failpoint/wrap", "internal/store/etcd", "internal/auditlog"},
	"helm.sh/":                    {"internal/render/helm"},
	"k8s.io/kms/":                 {"internal/store/kek"},
	"k8s.io/client-go/":           {"internal/fieldcheck", "internal/patch", "internal/sink/kube", "internal/status/kubewatch", "internal/render/helm"},
	"github.com/evanphx/":         {"internal/patch"},
	"github.com/santhosh-tekuri/": {"internal/schemacheck"},
	"k8s.io/api/":                 {"internal/sink/kube", "internal/svc/cacert", "internal/svc/dcm"}, // both services make objects
	"github.com/google/cel-go":    {"internal/expression"},
	"github.com/Azure/":           {"internal/syncer/azurearc/arm"},
	"oras.land/":                  {"internal/sink/oci"},
	"github.com/minio/":           {"internal/sink/s3", "internal/sink/s3/s3test"},
	"github.com/RoaringBitmap/":   {"internal/appcontext/pairstore"},
	"github.com/fluxcd/":          {"internal/syncer/flux"},
	"filippo.io/age":              {"internal/sops"},
	"modernc.org/":                {"internal/store/sqlite"},
	"go.opentelemetry.io/":        {"internal/tracing", "internal/tracing/otlp", "internal/tracing/tracingtest"},
	"github.com/prometheus":       {"internal/app"},
	"github.com/go-git/":          {},
	"go.mongodb.org/":             {"internal/store/mongo"},
	"go.temporal.io/":             {"temporal/temporalrunner"},
	"github.com/coreos/go-oidc":   {"internal/authn/oidc"},
	"github.com/go-jose/":         {"internal/authn/oidc"},
	"golang.org/x/oauth2":         {"internal/authn/oidc"},
	"github.com/gorilla/":         {"internal/app", "internal/web", "internal/resource", "internal/resource/resourcetest", "internal/access", "internal/openapi", "internal/doctor", "internal/svc/", "internal/svc/rsync/api", "internal/views"},
}

func TestImportArrows(t *testing.T) {
	t.Parallel()
	archtest.Check(t, "../..", 100, fault)
}

// fault describes what is wrong with an import of a package, given by its folder. Tests
// may import what they need, except assertion libraries and mocks.
func fault(pkg, name string, test bool) string {
	own := groupOf(pkg)
	switch {
	case own == "":
		return "the package is in no group; add it to one"
	case strings.HasPrefix(name, "github.com/stretchr/") || strings.Contains(name, "/gomock"):
		return "neither assertion libraries nor mocks are used"
	case own == "none" || test || has(exceptions[pkg], name):
		return ""
	}
	if to, inside := strings.CutPrefix(name, module+"/"); inside {
		if part, ok := strings.CutPrefix(to, rsync+"/"); ok {
			return partOfRsync(pkg, part)
		}
		return within(own, groupOf(to))
	}
	if to, ours := strings.CutPrefix(name, root); ours {
		return across(groups[own], to)
	}
	return home(pkg, name)
}

func within(from, to string) string {
	switch {
	case to == "":
		return "it is in no group; add it to one"
	case has(groups[from].may, to):
		return ""
	}
	return "a " + from + " must not know a " + to
}

// partOfRsync describes what is wrong with a package that imports a part of rsync.
func partOfRsync(pkg, part string) string {
	from, inside := strings.CutPrefix(pkg, rsync+"/")
	switch {
	case pkg == rsync, inside && has(inRsync[from], part), pkg == "internal/app" && part == "api":
		return ""
	case inside:
		return "rsync/" + from + " must not know rsync/" + part
	}
	return "only rsync may know its parts"
}

func across(from packageGroup, to string) string {
	if to == "api/errs" || to == "api/v2" || to == "api/outbound" || has(from.outside, to) {
		return ""
	}
	return "the package may not know that part of another module"
}

func home(pkg, name string) string {
	for prefix, at := range homes {
		if strings.HasPrefix(name, prefix) && !has(at, pkg) && !has(at, path.Dir(pkg)+"/") {
			return "only " + strings.Join(at, ", ") + " may know it"
		}
	}
	return ""
}

// groupOf is the group of a package, "" if it is in none. Its own name goes before that
// of the folder that it is in.
func groupOf(pkg string) string {
	for _, listed := range []string{pkg, path.Dir(pkg) + "/"} {
		for name, g := range groups {
			if has(g.packages, listed) {
				return name
			}
		}
	}
	return ""
}

func has(list []string, name string) bool {
	for _, l := range list {
		if l == name {
			return true
		}
	}
	return false
}

// The rules catch what they are for.
func TestFaultsAreFound(t *testing.T) {
	t.Parallel()
	in := func(pkg string) string { return module + "/internal/" + pkg }
	for _, c := range []struct {
		pkg, name string
		test, bad bool
	}{
		{"internal/new", "fmt", false, true},
		{"internal/syncer/new", in("syncer/pointer"), false, false},
		{"internal/syncer/new", in("syncer/flux"), false, true},
		{"internal/syncer/pointer", in("syncer/new"), false, true},
		{"internal/store", in("new"), false, true},
		{"internal/manifest", in("store"), false, true},
		{"internal/store", in("store/sqlite"), false, true},
		{"internal/store", in("store/sqlite"), true, false},
		{"internal/store/sqlite", in("store/blobdir"), false, true},
		{"internal/store/sqlite", in("svc/clm"), false, true},
		{"internal/store/storetest", in("store/sqlite"), false, true},
		{"internal/syncer/flux", in("syncer/plaingit"), false, true},
		{"internal/svc/clm", in("svc/dcm"), false, true},
		{"internal/svc/clm", in("store/all"), false, true},
		{"internal/svc/clm", in("sink/kube"), false, true},
		{"internal/svc/rsync", in("sink/kube"), false, false},
		{"internal/svc/rsync", in("svc/rsync/shard"), false, false},
		{"internal/svc/rsync/shard", root + "git/batch", false, false},
		{"internal/svc/rsync/pairs", in("svc/rsync/shard"), false, true},
		{"internal/svc/rsync/pairs", in("sink/kube"), false, true},
		{"internal/svc/rsync", root + "git/plain", false, true},
		{"internal/svc/rsync", in("svc/rsync/pair"), false, false},
		{"internal/svc/rsync/gate", in("svc/rsync/pair"), false, false},
		{"internal/svc/rsync/pair", in("svc/rsync/gate"), false, true},
		{"internal/svc/rsync/pair", in("sink/kube"), false, true},
		{"internal/svc/rsync/deliver/kubeapplier", in("sink/kube"), false, false},
		{"internal/svc/rsync/deliver/gitwriter", in("sink/kube"), false, true},
		{"internal/svc/rsync/deliver/gitwriter", in("svc/rsync/branchguard"), false, true},
		{"internal/svc/rsync/branchguard", in("svc/rsync/deliver/gitwriter"), false, true},
		{"internal/svc/clm", in("svc/rsync/pair"), false, true},
		{"internal/svc/clm", in("svc/rsync/api"), false, true},
		{"internal/app", in("svc/rsync/api"), false, false},
		{"internal/app", in("svc/rsync/pair"), false, true},
		{"internal/svc/clm", in("route"), false, false},
		{"internal/svc/orchestrator", root + "git/batch", false, true},
		{"internal/svc/orchestrator", in("placement/logicalcloud"), false, true},
		{"internal/svc/orchestrator", in("svc/orchestrator/plan"), false, false},
		{"internal/svc/orchestrator/plan", in("placement/logicalcloud"), false, false},
		{"internal/svc/orchestrator/plan", in("svc/orchestrator"), false, true},
		{"internal/svc/orchestrator/plan", in("svc/orchestrator/revision"), false, true},
		{"internal/svc/orchestrator/revision", in("svc/orchestrator/plan"), false, false},
		{"internal/svc/dcm", in("svc/orchestrator/plan"), false, true},
		{"internal/svc/dcm", in("placement/logicalcloud"), false, true},
		{"internal/app", in("store/all"), false, false},
		{"internal/app", in("resource/resourcetest"), false, true},
		{"cmd/emco", in("app"), false, false},
		{"cmd/emco", in("store"), false, true},
		{"internal/store", root + "api/errs", false, false},
		{"internal/store", root + "api/client", false, true},
		{"internal/store", root + "emcoctl/internal/cmd", false, true},
		{"internal/svc/clm", "helm.sh/helm/v3/pkg/chart", false, true},
		{"internal/render/helm", "helm.sh/helm/v3/pkg/chart", false, false},
		{"internal/syncer/azurearc", "github.com/Azure/azure-sdk-for-go/sdk/azidentity", false, true},
		{"internal/syncer/azurearc", in("syncer/azurearc/arm"), false, false},
		{"internal/svc/rsync", in("syncer/azurearc/arm"), false, true},
		{"internal/svc/new", "github.com/gorilla/mux", false, false},
		{"internal/store", "github.com/gorilla/mux", false, true},
		{"internal/store", "github.com/stretchr/testify/assert", true, true},
		{"internal/store", "net/http", false, false},
	} {
		if got := fault(c.pkg, c.name, c.test); c.bad != (got != "") {
			t.Errorf("fault(%s, %s, %v) = %q, want one: %v", c.pkg, c.name, c.test, got, c.bad)
		}
	}
}

// The parts of rsync form layers: each may import only parts that stand above it in the
// list, so there is no cycle and no arrow upward.
func TestPartsOfRsyncAreLayered(t *testing.T) {
	t.Parallel()
	var reach func(part string, path []string)
	reach = func(part string, path []string) {
		if has(path, part) {
			t.Fatalf("%s is above itself: %v", part, path)
		}
		for _, below := range inRsync[part] {
			if _, ok := inRsync[below]; !ok {
				t.Errorf("%s may import %s, which is no part of rsync", part, below)
			}
			reach(below, append(path, part))
		}
	}
	for part := range inRsync {
		reach(part, nil)
		if _, err := os.Stat(path.Join("../..", rsync, part)); err != nil {
			t.Error(err)
		}
	}
}

// A package that stands in two groups would have the rights of either by chance; one
// that is listed and not there is a relic.
func TestGroupsAreDisjointAndReal(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for name, g := range groups {
		for _, pkg := range g.packages {
			if other, twice := seen[pkg]; twice {
				t.Errorf("%s is in %s and in %s", pkg, name, other)
			}
			seen[pkg] = name
			if _, err := os.Stat(path.Join("../..", pkg)); err != nil {
				t.Errorf("%s of group %s: %v", pkg, name, err)
			}
		}
		for _, to := range g.may {
			if _, ok := groups[to]; !ok {
				t.Errorf("%s may import %s, which is no group", name, to)
			}
		}
	}
}

func TestMutexesNameWhatTheyGuard(t *testing.T) {
	t.Parallel()
	archtest.CheckGuards(t, "../..")
}
