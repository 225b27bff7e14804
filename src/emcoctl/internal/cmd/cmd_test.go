package cmd_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/cmd"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/session"
)

// answering is a server that answers with the number that ends a path, or precedes /status or /update:
// projects/404 is not found, and so on. Status queries of other deployments answer "state".
func answering(t *testing.T, state string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		group, isStatus := strings.CutSuffix(r.URL.Path, "/status")
		group, isAction := strings.CutSuffix(group, "/update")
		status := 200
		if _, err := fmt.Sscanf(filepath.Base(group), "%d", &status); err == nil && (isStatus || isAction) {
			w.WriteHeader(status)
			return
		}
		if isStatus {
			fmt.Fprintf(w, `{"name":"d","states":{"actions":[]},"deployedStatus":%q}`, state)
			return
		}
		if _, err := fmt.Sscanf(filepath.Base(r.URL.Path), "%d", &status); err != nil && r.Method == http.MethodPost {
			status = http.StatusAccepted
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// run executes a command line and returns its exit code and outputs.
func run(ctx context.Context, env map[string]string, args ...string) (code int, out, errs string) {
	var stdout, stderr bytes.Buffer
	code = cmd.Run(ctx, args, session.System{
		In: strings.NewReader(""), Out: &stdout, Err: &stderr, Getenv: func(key string) string { return env[key] },
	})
	return code, stdout.String(), stderr.String()
}

// Who lists the roles, or needs one, is told those that are built in. Programs are not.
func TestBuiltInRolesAreNamed(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "[]") }))
	t.Cleanup(s.Close)
	env := map[string]string{"EMCO_URL": s.URL}
	all := strings.Join(v2.BuiltInRoles(), ", ")
	if code, out, errs := run(t.Context(), env, "get", "roles"); code != 0 || out != "none\n" || errs != "built in, and not listed: "+all+"\n" {
		t.Errorf("get roles: exit code %d\n%s%s", code, out, errs)
	}
	if code, out, errs := run(t.Context(), env, "get", "roles", "-o", "json"); code != 0 || strings.Contains(out+errs, "viewer") {
		t.Errorf("get roles -o json: exit code %d\n%s%s", code, out, errs)
	}
	for _, args := range [][]string{{"get", "--help"}, {"auth", "token", "create", "--help"}} {
		if _, out, _ := run(t.Context(), env, args...); !strings.Contains(out, all) {
			t.Errorf("%v does not name %s:\n%s", args, all, out)
		}
	}
}

func TestAllFormsOfHelpSucceed(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-help"}, {"--help"}, {"-h"}, {"help"}, {"status", "-help"}, {"status", "--help"}, {"status", "-h"}, {"auth", "token", "-help"}} {
		if code, out, errs := run(t.Context(), nil, args...); code != 0 || errs != "" || !strings.Contains(out, "Usage:") {
			t.Errorf("%v: exit code %d\n%s%s", args, code, out, errs)
		}
	}
	if code, _, _ := run(t.Context(), nil, "status", "--", "-help"); code != 2 {
		t.Errorf("-help after --: exit code %d, want 2", code)
	}
}

// A server whose certificate is not trusted has been started, also if each service has an address.
func TestAServiceWithAnUnknownAuthority(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	file := filepath.Join(t.TempDir(), "emco.yaml")
	port := s.URL[strings.LastIndex(s.URL, ":")+1:]
	if err := os.WriteFile(file, []byte("orchestrator: {host: https://127.0.0.1, port: "+port+"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := run(t.Context(), nil, "--config", file, "get", "projects"); code != 1 || !strings.Contains(errs, "next:  name the authority of the server's certificate with --ca-file FILE") {
		t.Errorf("exit code %d\n%s", code, errs)
	}
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	mixed := filepath.Join(t.TempDir(), "mixed.yaml")
	if err := os.WriteFile(mixed, []byte("resourceContext: {anchor: projects}\nmetadata: {name: '404'}\n---\nresourceContext: {anchor: projects}\nmetadata: {name: '401'}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(t.TempDir(), "broken.yaml")
	if err := os.WriteFile(broken, []byte("a: [\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const (
		groups = "projects/p/composite-apps/a/v1/deployment-intent-groups/"
		dig    = groups + "d"
		gone   = groups + "404"
		hidden = groups + "403"
	)
	for _, tt := range []struct {
		name   string
		state  string
		args   string
		code   int
		legacy int
	}{
		{"all is well", "", "get projects/200", 0, 0},
		{"the server's fault", "", "get projects/500", 1, 0},
		{"a bad request", "", "get projects/400", 1, 0},
		{"not found", "", "get projects/404", 3, 0},
		{"conflict", "", "delete projects/409", 4, 0},
		{"a failed precondition", "", "delete projects/412", 4, 0},
		{"unauthorised", "", "get projects/401", 5, 0},
		{"forbidden", "", "get projects/403", 5, 0},
		{"different reasons", "", "get -f " + mixed, 1, 0},
		{"unknown command", "", "frobnicate", 2, 1},
		{"unknown flag", "", "get --frobnicate", 2, 1},
		{"nothing to do", "", "apply", 2, 1},
		{"both manners at once", "", "get projects -f x", 2, 1},
		{"a wrong format", "", "get projects -o xml", 2, 1},
		{"a broken file", "", "apply -f " + broken, 1, 1},
		{"no such file", "", "apply -f /does/not/exist", 1, 1},
		{"a deployment that failed", "InstantiateFailed", "wait " + dig, 7, 7},
		{"a deployment that is late", "Instantiating", "wait --timeout 30ms " + dig, 6, 6},
		{"an action whose deployment failed", "InstantiateFailed", "apply --wait-for-status " + dig + "/instantiate", 7, 0},
		{"help", "", "help exit-codes", 0, 0},
		{"an overview that is refused", "", "get clusters --project p", 2, 2},
		{"the status of a deployment that does not exist", "", "status " + gone, 3, 3},
		{"a wait for a deployment that does not exist", "", "wait " + gone, 3, 3},
		{"an action on a deployment that does not exist", "", "update " + gone, 3, 3},
		{"a tree without access", "", "tree " + hidden, 5, 5},
		{"an unknown flag of a command that upstream lacks", "", "wait --frobnicate " + dig, 2, 2},
		{"an unknown flag of version", "", "version --frobnicate", 2, 2},
		{"no argument for a command that upstream lacks", "", "status", 2, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			env := map[string]string{"EMCO_URL": answering(t, tt.state)}
			if code, out, errs := run(t.Context(), env, strings.Fields(tt.args)...); code != tt.code {
				t.Errorf("emcoctl %s: exit code %d, want %d\n%s%s", tt.args, code, tt.code, out, errs)
			}
			env["EMCOCTL_LEGACY_EXIT"] = "1"
			if code, _, _ := run(t.Context(), env, strings.Fields(tt.args)...); code != tt.legacy {
				t.Errorf("EMCOCTL_LEGACY_EXIT=1 emcoctl %s: exit code %d, want %d", tt.args, code, tt.legacy)
			}
		})
	}
}

func TestPauseEndsWithTheContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // enough for the answer, also on a busy machine
	defer cancel()
	env := map[string]string{"EMCO_URL": answering(t, "")}
	code, out, _ := run(ctx, env, "-o", "emco", "-w", "3600", "apply", "projects/p/logical-clouds/l/instantiate")
	if code != 6 || !strings.Contains(out, "API Response code 202. Waiting...") {
		t.Errorf("exit code %d, want 6 when the context ends\n%s", code, out)
	}
}

func TestHelpNeedsNoServer(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("help requests %s", r.URL)
	}))
	t.Cleanup(server.Close)
	code, out, _ := run(t.Context(), map[string]string{"EMCO_URL": server.URL}, "--help")
	if code != 0 || !strings.Contains(out, "emcoctl <command> -f file") {
		t.Errorf("help: exit code %d\n%s", code, out)
	}
}
