package app_test

//go:generate go test -count=1 -run ^TestTheCompatibilityTableIsCurrent$ . -args -update

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/upstream"
)

const compatibilityPage = "../../../../docs/emco-compatibility.md"

// deviations are the differences of routes that are served, with their reasons.
var deviations = map[string]string{
	"GET cluster-providers/{}/clusters/{}":                                                "the kubeconfig shows `***` for credentials: secrets are write-only",
	"POST cluster-providers/{}/cluster-sync-objects":                                      "a `url` that no cluster could use, such as `file://`, is 400",
	"GET cluster-providers/{}/cluster-sync-objects":                                       "tokens are `***`: secrets are write-only",
	"GET cluster-providers/{}/cluster-sync-objects/{}":                                    "tokens are `***`: secrets are write-only",
	"GET projects/{}/logical-clouds/{}/cluster-references":                                "a cloud without references answers an empty list, not 400: nothing is wrong with the request",
	"POST projects/{}/composite-apps/{}/{}/deployment-intent-groups/{}/policy-intents/{}": "conditions are CEL expressions, or rules of OPA servers that the operator allows ([policy intents](policy-intents.md))",
	"POST projects/{}/logical-clouds":                                                     "both levels; level 1 needs a namespace and a user, level 0 shows the namespace `default` before it is instantiated, too",
	"GET projects/{}/composite-apps/{}/{}/deployment-intent-groups/{}/status":             "a missing group is 404, not 400; `Applied` needs proof; `readyStatus` may be `Unknown`, unless `status.upstreamWords` is set ([status](status.md#words))",
	"POST projects/{}/composite-apps/{}/{}/deployment-intent-groups/{}/approve":           "a state that does not allow it is 409, a missing group 404; upstream answers 500 for both",
	"POST projects/{}/composite-apps/{}/{}/deployment-intent-groups/{}/instantiate":       "refusals are 400, 404 and 409 with the reason, not 500; an intent of a controller that is not there is refused",
	"POST projects/{}/composite-apps/{}/{}/deployment-intent-groups/{}/terminate":         "refusals are 404 and 409, not 500",
	"POST projects/{}/composite-apps/{}/{}/deployment-intent-groups/{}/stop":              "refusals are 404 and 409, not 500",
	"POST projects/{}/composite-apps/{}/{}/deployment-intent-groups/{}/rollback":          "a revision that does not exist is 404, not 500; the revision's own content is restored without rendering",
	"POST cluster-providers/{}/clusters/{}/networks":                                      "names are those of objects: upper case is 400",
	"POST cluster-providers/{}/clusters/{}/provider-networks":                             "names are those of objects: upper case is 400",
}

var anyName = regexp.MustCompile(`\{[^}]*\}`)

// served returns the routes of the program, with "{}" for each variable.
func served(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	eachRoute(t, func(method, template string) {
		out[method+" "+anyName.ReplaceAllString(strings.TrimPrefix(template, "/v2/"), "{}")] = true
	})
	return out
}

// The table lists every route of upstream's API. It follows from the routes of the program; make
// gen rewrites it.
func TestTheCompatibilityTableIsCurrent(t *testing.T) {
	t.Parallel()
	text := compatibilityText(t)
	if now, err := os.ReadFile(compatibilityPage); err == nil && string(now) == text {
		return
	}
	if !*updateReference {
		t.Fatalf("%s is not what the program serves; make gen rewrites it", compatibilityPage)
	}
	if err := os.WriteFile(compatibilityPage, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func compatibilityText(t *testing.T) string {
	t.Helper()
	ours, all := served(t), upstream.Surface()
	if len(all) != 299 {
		t.Fatalf("upstream's API has %d pairs of method and path here, and 299 in its sources", len(all))
	}
	var rows strings.Builder
	used, total := map[string]bool{}, map[string]int{}
	order := []string(nil)
	for _, r := range all {
		key := r.Method + " " + r.Path
		if total[r.Service]++; total[r.Service] == 1 {
			order = append(order, r.Service)
		}
		if !ours[key] {
			t.Errorf("%s, of upstream's service %s, is not served", key, r.Service)
		}
		answer := "served"
		if deviations[key] != "" {
			answer, used[key] = "served; "+deviations[key], true
		}
		fmt.Fprintf(&rows, "| `%s` | `%s` | %s | %s |\n", r.Method, r.Path, r.Service, answer)
	}
	for _, key := range slices.Sorted(maps.Keys(deviations)) {
		if !used[key] {
			t.Errorf("a deviation is listed for %s, which is not served", key)
		}
	}
	var b strings.Builder
	b.WriteString(compatibilityIntroduction)
	for _, service := range order {
		fmt.Fprintf(&b, "| %s | %d |\n", service, total[service])
	}
	fmt.Fprintf(&b, "| all | %d |\n%s\n## Routes\n\n| method | path below `/v2` | service | here |\n|---|---|---|---|\n%s", len(all), coverageText(t), rows.String())
	return b.String()
}

const compatibilityIntroduction = `# Compatibility with upstream EMCO

<!-- Generated from the routes of the program; make gen rewrites it. -->

Every pair of method and path of upstream's API, version 2, is served. The table names what differs.
[From upstream EMCO](guides/from-emco.md) describes the move, and what parts of services are missing.

| service | pairs |
|---|---|
`
