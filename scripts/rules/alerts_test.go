package rules

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
)

// well are the samples of two processes that work, one a minute.
const well = `
  up{job="emco", instance="one"} 1x600
  up{job="emco", instance="two"} 1x600
  emco_ready{instance="one"} 1x600
  emco_ready{instance="two"} 1x600
  emco_etcd_full{instance="one"} 0x600
  emco_disk_free_bytes{instance="one"} 50000000000x600
  emco_disk_free_bytes{instance="two"} 50000000000x600
  emco_disk_reserve_bytes{instance="one"} 0x600
  emco_disk_reserve_bytes{instance="two"} 1000000000x600
  emco_audit_failed_total{instance="one"} 3x600
  emco_audit_trimmed_early_total{instance="one"} 9x600
  emco_clusters_silent{instance="one"} 0x600
  emco_pairs{instance="one", state="failed"} 0x600
  emco_pairs{instance="one", state="ready"} 5000x600
  emco_git_resting{instance="one"} 0x600
  emco_api_certificate_end_timestamp_seconds{instance="one"} 3600000x600
  emco_api_certificate_end_timestamp_seconds{instance="two"} Inf Inf Inf Inf
  emco_client_certificate_end_timestamp_seconds{instance="one", setting="etcd.cert"} 3600000x600
  emco_client_certificate_end_timestamp_seconds{instance="two", setting="etcd.cert"} 3600000x600
  emco_ca_certs_first_end_timestamp_seconds{instance="one"} 360000x600
  emco_ca_certs_first_end_timestamp_seconds{instance="two"} Inf Inf Inf Inf
  emco_ca_certs_renewals_failed_total{instance="one"} 0x300 1x300
  emco_clock_skew_seconds{instance="one"} 0.01x600
  emco_clock_skew_seconds{instance="two"} -0.01x600
  emco_settings_differing{instance="one"} 0x600
  emco_settings_differing{instance="two"} 0x600
  emco_git_push_duration_seconds_bucket{instance="one", le="1"} 0+10x600
  emco_git_push_duration_seconds_bucket{instance="one", le="60"} 0+10x600
  emco_git_push_duration_seconds_bucket{instance="one", le="+Inf"} 0+10x600
  emco_http_request_duration_seconds_count{instance="one", status="200"} 0+1000x600
  emco_http_request_duration_seconds_count{instance="one", status="503"} 0+10x600
  emco_render_duration_seconds_count{instance="one", result="ok"} 0+10x600
  emco_render_duration_seconds_count{instance="one", result="failed"} 0+1x600
  emco_fenced_total{instance="one"} 0x300 4x300
`

// ill says, for each alert, which samples come in the place of those of well, and after how many minutes it fires.
var ill = map[string]struct {
	samples string
	after   int
}{
	"EmcoDown":                  {`up{job="emco", instance="two"} 0x600`, 5},
	"EmcoNotReady":              {`emco_ready{instance="two"} 0x600`, 5},
	"EmcoEtcdFull":              {`emco_etcd_full{instance="one"} 1x600`, 0},
	"EmcoDiskLow":               {`emco_disk_free_bytes{instance="two"} 1900000000x600`, 0},
	"EmcoAuditFails":            {`emco_audit_failed_total{instance="one"} 3+1x600`, 1},
	"EmcoAuditTrimmedEarly":     {`emco_audit_trimmed_early_total{instance="one"} 9+1x600`, 1},
	"EmcoClustersSilent":        {`emco_clusters_silent{instance="one"} 2x600`, 10},
	"EmcoPairsFailed":           {`emco_pairs{instance="one", state="failed"} 1x600`, 15},
	"EmcoRepositoriesResting":   {`emco_git_resting{instance="one"} 1x600`, 15},
	"EmcoAPICertificateEnds":    {`emco_api_certificate_end_timestamp_seconds{instance="one"} 250000x600`, 0},
	"EmcoClientCertificateEnds": {`emco_client_certificate_end_timestamp_seconds{instance="two", setting="etcd.cert"} 0x600`, 0},
	"EmcoCertificateEnds":       {`emco_ca_certs_first_end_timestamp_seconds{instance="one"} 3000x600`, 0},
	"EmcoRenewalsFail":          {`emco_ca_certs_renewals_failed_total{instance="one"} 0+1x600`, 2},
	"EmcoClocksDiffer":          {`emco_clock_skew_seconds{instance="two"} -600x600`, 5},
	"EmcoSettingsDiffer":        {`emco_settings_differing{instance="two"} 1x600`, 15},
	"EmcoPushesSlow":            {`emco_git_push_duration_seconds_bucket{instance="one", le="1"} 0+1x600`, 16},
	"EmcoRequestsFail":          {`emco_http_request_duration_seconds_count{instance="one", status="503"} 0+100x600`, 11},
	"EmcoRenderingsFail":        {`emco_render_duration_seconds_count{instance="one", result="failed"} 0+20x600`, 31},
	"EmcoWritesFenced":          {`emco_fenced_total{instance="one"} 0+2x600`, 6},
}

// S-26: no alert fires while all is well, and each one fires when its reason has lasted for its time.
func TestF55EachAlertFiresWhenItMust(t *testing.T) {
	t.Parallel()
	groups, faults := rulefmt.ParseFile("../../deployments/prometheus/alerts.yaml", false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	tested := 0
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			c, known := ill[r.Alert]
			if !known {
				t.Errorf("no samples make %s fire", r.Alert)
				continue
			}
			tested++
			t.Run(r.Alert, func(t *testing.T) {
				t.Parallel()
				if at := fires(t, r, well); at >= 0 {
					t.Errorf("it fires after %d minutes while all is well", at)
				}
				if at := fires(t, r, replaced(t, c.samples)); at != c.after {
					t.Errorf("it fires after %d minutes, want %d", at, c.after)
				}
			})
		}
	}
	if tested != len(ill) {
		t.Errorf("%d alerts of %d exist", tested, len(ill))
	}
}

// replaced returns well with one series in the place of the one with its name and labels.
func replaced(t *testing.T, samples string) string {
	t.Helper()
	name, _, _ := strings.Cut(samples, "} ")
	var out []string
	found := false
	for line := range strings.Lines(well) {
		if strings.HasPrefix(strings.TrimSpace(line), name+"} ") {
			line, found = "  "+samples+"\n", true
		}
		out = append(out, line)
	}
	if !found {
		t.Fatalf("well has no %s}", name)
	}
	return strings.Join(out, "")
}

// fires returns the minute in which an alert fires first, of ten hours; -1 if it does not.
func fires(t *testing.T, r rulefmt.Rule, samples string) int {
	t.Helper()
	storage := promqltest.LoadedStorage(t, "load 1m"+samples)
	engine := promqltest.NewTestEngine(t, false, 0, promqltest.DefaultMaxSamplesPerQuery)
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(r.Expr)
	if err != nil {
		t.Fatal(err)
	}
	rule := rules.NewAlertingRule(r.Alert, expr, time.Duration(r.For), time.Duration(r.KeepFiringFor), labels.FromMap(r.Labels), labels.FromMap(r.Annotations), labels.EmptyLabels(), "", true, nil)
	for minute := range 600 {
		at := time.Unix(0, 0).Add(time.Duration(minute) * time.Minute)
		if _, err := rule.Eval(t.Context(), 0, at, rules.EngineQueryFunc(engine, storage), nil, 0); err != nil {
			t.Fatal(fmt.Errorf("minute %d: %w", minute, err))
		}
		for _, a := range rule.ActiveAlerts() {
			if a.State == rules.StateFiring {
				if text := a.Annotations.String(); strings.Contains(text, "<error") {
					t.Errorf("the annotations cannot be filled in: %s", text)
				}
				return minute
			}
		}
	}
	return -1
}
