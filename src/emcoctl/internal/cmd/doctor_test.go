package cmd_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
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

// A section that the configuration lacks is a failed check, and the others are made.
func TestDoctorWithoutASection(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v2/views/") {
			fmt.Fprint(w, `{"items":[],"faults":[]}`)
			return
		}
		fmt.Fprint(w, `{"version":"v1"}`)
	}))
	t.Cleanup(s.Close)
	section := ": {host: 127.0.0.1, port: " + s.URL[strings.LastIndex(s.URL, ":")+1:] + "}\n"
	for _, tt := range []struct {
		file, want string
		code       int
		checked    bool
	}{
		{"orchestrator" + section + "clm" + section + "dcm" + section, "", 0, true},
		{"orchestrator" + section + "clm" + section, "fail config       Fatal: No Dcm Information in Config File", 1, true},
		{"clm" + section, "fail config       Fatal: No Orchestrator Information in Config File", 1, false},
	} {
		file := filepath.Join(t.TempDir(), "emco.yaml")
		if err := os.WriteFile(file, []byte(tt.file), 0o600); err != nil {
			t.Fatal(err)
		}
		code, out, errs := run(t.Context(), nil, "--config", file, "doctor")
		if code != tt.code || !strings.Contains(out, tt.want) || strings.Contains(out, "ok   stores") != tt.checked {
			t.Errorf("with\n%sexit code %d\n%s%s", tt.file, code, out, errs)
		}
	}
}
