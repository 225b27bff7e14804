package cmd_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Each service of the server that is not ready is a failed check on a line of its own.
func TestDoctorOfAServerThatIsNotReady(t *testing.T) {
	t.Parallel()
	const lost = "write the stores: other processes do not know of this one"
	for _, tt := range []struct {
		unready, level string
		want           []string
	}{
		{"level: " + lost, "not ready: " + lost, []string{"fail ready        not ready: level: " + lost, "warn level        not ready: " + lost, "error: 1 check failed"}},
		{"level: " + lost + "\netcd: no answer", "ready; stores at 1", []string{
			"fail ready        not ready: level: " + lost, "fail ready        not ready: etcd: no answer", "ok   level        stores at 1", "error: 2 checks failed",
		}},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path != "/readyz":
				fmt.Fprint(w, `{"version":"v1"}`)
			case r.URL.Query().Has("verbose"):
				w.WriteHeader(http.StatusServiceUnavailable)
				fmt.Fprintf(w, "level: %s\n", tt.level)
			default:
				w.WriteHeader(http.StatusServiceUnavailable)
				fmt.Fprintln(w, tt.unready)
			}
		}))
		t.Cleanup(s.Close)
		code, out, errs := run(t.Context(), map[string]string{"EMCO_URL": s.URL}, "doctor")
		for _, want := range tt.want {
			if code != 1 || !strings.Contains(out+errs, want+"\n") {
				t.Errorf("exit code %d; %q is not in\n%s%s", code, want, out, errs)
			}
		}
	}
}
