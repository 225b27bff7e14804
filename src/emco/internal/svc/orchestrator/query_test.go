package orchestrator

import (
	"net/url"
	"reflect"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

func TestQueriesAreRead(t *testing.T) {
	t.Parallel()
	none := map[string]bool{}
	for _, tt := range []struct {
		text string
		want query
	}{
		{"", query{legacy: true, output: "all", apps: none, clusters: none, resources: none}},
		{"type=rsync&output=", query{legacy: true, output: "all", apps: none, clusters: none, resources: none}},
		{"type=cluster", query{legacy: true, ready: true, output: "all", apps: none, clusters: none, resources: none}},
		{"status=deployed&type=cluster", query{output: "all", apps: none, clusters: none, resources: none}},
		{"status=ready&output=summary", query{ready: true, output: "summary", apps: none, clusters: none, resources: none}},
		{"output=detail&app=a&app=b&cluster=p%2Bc&resource=r.1_x", query{
			legacy: true, output: "detail", apps: map[string]bool{"a": true, "b": true},
			clusters: map[string]bool{"p+c": true}, resources: map[string]bool{"r.1_x": true},
		}},
	} {
		if got, err := parseQuery(values(t, tt.text)); err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%q: got %+v, %v\nwant %+v", tt.text, got, err, tt.want)
		}
	}
}

// The texts are EMCO's.
func TestQueriesAreRefused(t *testing.T) {
	t.Parallel()
	long := "a123456789012345678901234567890123456789012345678901234567890123"
	for text, want := range map[string]string{
		"type=Rsync":                "Invalid query type",
		"type=nope&status=deployed": "Invalid query type",
		"status=":                   "Invalid query status",
		"status=Ready":              "Invalid query status",
		"output=ALL":                "Invalid query output",
		"app=":                      "Invalid app query",
		"app=" + long:               "Invalid app query",
		"app=a%2Fb":                 "Invalid app query",
		"resource=-a":               "Invalid resources query",
		"cluster=p+c":               "Invalid cluster query: write provider%2Bcluster",
		"cluster=c":                 "Invalid cluster query: write provider%2Bcluster",
		"cluster=%2Bc":              "Invalid cluster query: write provider%2Bcluster",
		"cluster=p%2Bc%2Bd":         "Invalid cluster query: write provider%2Bcluster",
	} {
		if _, err := parseQuery(values(t, text)); !errs.Is(err, errs.Invalid) || err.Error() != want {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

func values(t *testing.T, text string) url.Values {
	t.Helper()
	v, err := url.ParseQuery(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
