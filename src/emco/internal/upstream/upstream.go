// Package upstream knows what upstream EMCO serves and this program does not: the routes of
// services that are not there yet, and the ports on which clients look for services.
package upstream

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// Where routes are rooted.
const (
	cluster = "cluster-providers/*/clusters/*"
	group   = "projects/*/composite-apps/*/*/deployment-intent-groups/*"
)

// absent maps the beginnings of upstream's routes to the service that serves them there. "*" is
// any name.
var absent = []struct{ prefix, service string }{
	{cluster + "/networks", "ncm"},
	{cluster + "/provider-networks", "ncm"},
	{cluster + "/apply", "ncm"},
	{cluster + "/terminate", "ncm"},
	{cluster + "/stop", "ncm"},
	{cluster + "/status", "ncm"},
	{group + "/network-controller-intent", "ovnaction"},
}

// Service returns upstream's service for a path below /v2 that this program does not serve;
// empty if upstream EMCO does not serve it either.
func Service(path string) string {
	names := strings.Split(strings.TrimPrefix(path, "/v2/"), "/")
	for _, row := range absent {
		if begins(names, strings.Split(row.prefix, "/")) {
			return row.service
		}
	}
	return ""
}

func begins(names, prefix []string) bool {
	if len(names) < len(prefix) {
		return false
	}
	for i, want := range prefix {
		if names[i] == "" || want != "*" && names[i] != want {
			return false
		}
	}
	return true
}

// Routes answers 501 with the name of the service to requests that no route matches and
// that a service of upstream EMCO would serve. next answers all others.
func Routes(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		service := Service(r.URL.EscapedPath())
		if service == "" {
			next.ServeHTTP(w, r)
			return
		}
		name, err := json.Marshal(service)
		if err != nil {
			web.Fail(w, r, err)
			return
		}
		web.Fail(w, r, &web.Problem{
			Status: http.StatusNotImplemented, Type: "not-implemented", Members: map[string]json.RawMessage{"service": name},
			Err: errs.New(errs.NotFound, "upstream's service "+service+" serves this route, and this program does not have it yet; docs/roadmap.md lists what it has"),
		})
	})
}

// Port is a port on which clients of upstream EMCO look for a service.
type Port struct {
	Service string
	Number  int
}

// Ports returns the ports of upstream's services that serve REST, in order of the numbers.
func Ports() []Port {
	return []Port{
		{"orchestrator", 9015},
		{"dtc", 9018},
		{"gac", 9020},
		{"ca-certs", 9036},
		{"ovnaction", 9051},
		{"sfc", 9055},
		{"sfcclient", 9057},
		{"policy", 9060},
		{"clm", 9061},
		{"tac", 9064},
		{"dcm", 9077},
		{"ncm", 9081},
		{"hpa-plc", 9091},
		{"workflowmgr", 9095},
	}
}
