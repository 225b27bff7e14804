package statusview

import (
	"net/url"
	"reflect"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

func TestQueriesAreRead(t *testing.T) {
	t.Parallel()
	none := map[string]bool{}
	everywhere := map[v2.ClusterKey]bool{}
	for _, tt := range []struct {
		text string
		want Query
	}{
		{"", Query{Legacy: true, Output: "all", Apps: none, Clusters: everywhere, Resources: none}},
		{"type=rsync&output=", Query{Legacy: true, Output: "all", Apps: none, Clusters: everywhere, Resources: none}},
		{"type=cluster", Query{Legacy: true, Ready: true, Output: "all", Apps: none, Clusters: everywhere, Resources: none}},
		{"status=deployed&type=cluster", Query{Output: "all", Apps: none, Clusters: everywhere, Resources: none}},
		{"status=ready&output=summary", Query{Ready: true, Output: "summary", Apps: none, Clusters: everywhere, Resources: none}},
		{"status=ready&instance=7&watch=true", Query{Ready: true, Output: "all", Instance: "7", Watch: true, Apps: none, Clusters: everywhere, Resources: none}},
		{"resources&clusters&apps&output=summary", Query{Legacy: true, Output: "all", List: "apps", Apps: none, Clusters: everywhere, Resources: none}},
		{"resources=&clusters", Query{Legacy: true, Output: "all", List: "clusters", Apps: none, Clusters: everywhere, Resources: none}},
		{"output=detail&app=a&app=b&cluster=p%2Bc&resource=r.1_x&watch=false", Query{
			Legacy: true, Output: "detail", Apps: map[string]bool{"a": true, "b": true},
			Clusters: map[v2.ClusterKey]bool{"p+c": true}, Resources: map[string]bool{"r.1_x": true},
		}},
	} {
		if got, err := ParseGroup(values(t, tt.text)); err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%q: got %+v, %v\nwant %+v", tt.text, got, err, tt.want)
		}
	}
}

func TestQueriesForCloudsAreRead(t *testing.T) {
	t.Parallel()
	none := map[string]bool{}
	everywhere := map[v2.ClusterKey]bool{}
	for _, tt := range []struct {
		text string
		want Query
	}{
		{"", Query{Ready: true, Output: "all", Clusters: everywhere, Resources: none}},
		{"type=nope", Query{Ready: true, Output: "all", Clusters: everywhere, Resources: none}},
		{"status=deployed&app=a", Query{Output: "all", Clusters: everywhere, Resources: none}},
		{"apps&resources", Query{Ready: true, Output: "all", List: "resources", Clusters: everywhere, Resources: none}},
	} {
		if got, err := ParseCloud(values(t, tt.text)); err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%q: got %+v, %v\nwant %+v", tt.text, got, err, tt.want)
		}
	}
}

// The texts are upstream's.
func TestQueriesAreRefused(t *testing.T) {
	t.Parallel()
	long := "a123456789012345678901234567890123456789012345678901234567890123"
	for text, want := range map[string]string{
		"type=Rsync":                "Invalid query type",
		"type=nope&status=deployed": "Invalid query type",
		"status=":                   "Invalid query status",
		"status=Ready":              "Invalid query status",
		"output=ALL":                "Invalid query output",
		"instance=":                 "Invalid query instance",
		"watch=maybe":               "Invalid query watch",
		"app=":                      "Invalid app query",
		"app=" + long:               "Invalid app query",
		"app=a%2Fb":                 "Invalid app query",
		"resource=-a":               "Invalid resources query",
		"cluster=p+c":               "Invalid cluster query",
		"cluster=c":                 "Invalid cluster query",
		"cluster=%2Bc":              "Invalid cluster query",
		"cluster=p%2Bc%2Bd":         "Invalid cluster query",
	} {
		_, err := ParseGroup(values(t, text))
		if !errs.Is(err, errs.Invalid) || err.Error() != want {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
		if want == "Invalid query type" {
			continue
		}
		if _, err := ParseCloud(values(t, text)); !errs.Is(err, errs.Invalid) || err.Error() != want {
			t.Errorf("%q for a cloud: got %v, want %q", text, err, want)
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
