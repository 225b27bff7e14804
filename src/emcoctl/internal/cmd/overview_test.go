package cmd_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// An overview without rows says which filters have left none.
func TestAnOverviewWithoutRowsSaysWhy(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"items":[]}`))
	}))
	t.Cleanup(server.Close)
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"get", "clusters"}, "there are no clusters\n"},
		{[]string{"get", "clusters", "-l", "nope", "-l", "no", "--state", "failed"}, "no clusters match label nope or no and state failed\n"},
		{[]string{"get", "deployments", "--project", "p"}, "no deployments match project p\n"},
	} {
		code, out, errs := run(t.Context(), map[string]string{"EMCO_URL": server.URL}, tt.args...)
		if code != 0 || out != tt.want {
			t.Errorf("%v: exit code %d, printed %q %s; want %q", tt.args, code, out, errs, tt.want)
		}
	}
}

// A diff without differences says so, where it does not disturb a program that reads diffs.
func TestADiffWithoutDifferencesSaysSo(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			_, _ = w.Write([]byte(`{"action":"update","from":2,"revision":3,"summary":{"keep":4},"apps":[]}`))
			return
		}
		_, _ = w.Write([]byte(`{"name":"d","states":{"actions":[{"state":"Instantiated"}]}}`))
	}))
	t.Cleanup(server.Close)
	code, out, errs := run(t.Context(), map[string]string{"EMCO_URL": server.URL}, "diff", "p/a/v1/d")
	if code != 0 || out != "" || errs != "note: update would change nothing\n" {
		t.Errorf("exit code %d, output %q, error output %q", code, out, errs)
	}
}
