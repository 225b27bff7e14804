// Package rules checks deployments/prometheus/alerts.yaml and deployments/grafana/emco.json with Prometheus's own packages.
// It has tests only.
package rules

import (
	"encoding/json"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

// The rules load as Prometheus loads them, and each alert says how bad it is and what to do.
func TestF55AlertRules(t *testing.T) {
	t.Parallel()
	groups, faults := rulefmt.ParseFile("../../deployments/prometheus/alerts.yaml", false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	for _, err := range faults {
		t.Error(err)
	}
	if groups == nil || len(groups.Groups) == 0 {
		t.Fatal("there are no rules")
	}
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			if r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("%s lacks severity, summary or description", r.Alert)
			}
		}
	}
}

// panel is the part of a Grafana panel that queries.
type panel struct {
	Title   string `json:"title"`
	Targets []struct {
		Expr string `json:"expr"`
	} `json:"targets"`
}

// variable finds what Grafana fills in.
var variable = regexp.MustCompile(`\$__rate_interval`)

// Each query of the dashboard is PromQL.
func TestF55Dashboard(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../deployments/grafana/emco.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []panel `json:"panels"`
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	queries := 0
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			queries++
			expr := variable.ReplaceAllString(target.Expr, "5m")
			if _, err := parser.NewParser(parser.Options{}).ParseExpr(expr); err != nil || strings.Contains(expr, "$") {
				t.Errorf("%s: %s: %v", p.Title, expr, err)
			}
		}
	}
	if queries < 10 {
		t.Errorf("the dashboard has %d queries only", queries)
	}
}
