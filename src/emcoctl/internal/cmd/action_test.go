package cmd_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/emco-orchestrator/emco/src/emcoctl/internal/cmd"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/session"
)

// flakyServer is a server that breaks off the first answers, and notes the keys of requests.
type flakyServer struct {
	mu     sync.Mutex
	broken int
	keys   []string
}

func (u *flakyServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.keys = append(u.keys, r.Header.Get("Idempotency-Key"))
	if len(u.keys) <= u.broken {
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(http.StatusAccepted)
	fmt.Fprintln(w, 4)
}

func TestActionsAreRetriedWithTheSameKey(t *testing.T) {
	t.Parallel()
	u := &flakyServer{broken: 1}
	s := httptest.NewServer(u)
	t.Cleanup(s.Close)
	env := map[string]string{"EMCO_URL": s.URL}
	for range 2 {
		if code, out, errs := run(t.Context(), env, "update", "p/a/v1/d"); code != 0 || !strings.HasSuffix(out, "accepted, revision 4\n") {
			t.Fatalf("update: exit code %d\n%s%s", code, out, errs)
		}
	}
	if k := u.keys; len(k) != 3 || k[0] == "" || k[0] != k[1] || k[1] == k[2] {
		t.Errorf("the keys were %q; want the same one twice, then another", k)
	}
}

// Exit codes of plan and diff are above 1 for errors, since 1 says that there are changes.
func TestExitCodesOfPlans(t *testing.T) {
	t.Parallel()
	const dig = "p/a/v1/d"
	plan := func(summary string) string {
		return `{"name":"d","action":"update","revision":2,"apps":[],"summary":{` + summary + `}}`
	}
	for _, tt := range []struct {
		name   string
		status int
		answer string
		args   string
		code   int
	}{
		{"nothing changes", 200, plan(`"keep":3`), "plan --action update", 0},
		{"something changes", 200, plan(`"remove":1`), "plan --action update", 1},
		{"something changes", 200, plan(`"add":1`), "diff --action update", 1},
		{"something changes, as JSON", 200, plan(`"add":1`), "diff --action update -o json", 1},
		{"an app fails", 200, plan(`"change":1,"failed":1`), "plan --action update", 7},
		{"the documents are wrong", 400, "no such cluster", "plan --action update", 8},
		{"the server is broken", 500, "internal error", "diff --action update", 8},
		{"not found", 404, "not found", "plan --action update", 3},
		{"not in this state", 409, "not allowed", "plan --action update", 4},
		{"a server without dry runs", 202, "3", "plan --action update", 8},
		{"usage", 200, "", "plan --action explode", 2},
		{"a dry run", 200, plan(`"add":1`), "update --dry-run", 0},
		{"a dry run that is refused", 409, "not allowed", "update --dry-run", 4},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(tt.status)
			fmt.Fprint(w, tt.answer)
		}))
		t.Cleanup(s.Close)
		for _, legacy := range []string{"", "1"} {
			env := map[string]string{"EMCO_URL": s.URL, "EMCOCTL_LEGACY_EXIT": legacy}
			if code, out, errs := run(t.Context(), env, append(strings.Fields(tt.args), dig)...); code != tt.code {
				t.Errorf("%s: emcoctl %s: exit code %d, want %d\n%s%s", tt.name, tt.args, code, tt.code, out, errs)
			}
		}
	}
}

// Colours are for terminals, and for users who want them.
func TestColours(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"name":"d","action":"update","revision":2,"from":1,"apps":[{"name":"web","classes":[{"change":"change","clusters":[{"cluster":"e+c"}],
			"objects":[{"GVK":{"Version":"v1","Kind":"ConfigMap"},"name":"c","change":"change","before":{"a":"--","b":"\u001b[2J"},"after":{"a":"++"}}]}]}],"summary":{"change":1}}`)
	}))
	t.Cleanup(s.Close)
	for _, tt := range []struct {
		env      map[string]string
		terminal bool
		want     bool
	}{
		{nil, true, true},
		{nil, false, false},
		{map[string]string{"NO_COLOR": "1"}, true, false},
		{map[string]string{"TERM": "dumb"}, true, false},
	} {
		var out, errs bytes.Buffer
		code := cmd.Run(t.Context(), []string{"diff", "--action", "update", "p/a/v1/d", "--server", s.URL}, session.System{
			In: strings.NewReader(""), Out: &out, Err: &errs, Terminal: tt.terminal, Getenv: func(key string) string { return tt.env[key] },
		})
		text := out.String()
		if got := strings.Contains(text, "\x1b[31m-a: --\x1b[0m\n"); code != 1 || got != tt.want || strings.Contains(text, "[2J") && strings.Contains(text, "\x1b[2J") {
			t.Errorf("terminal %v, env %v: exit code %d, coloured %v, want %v:\n%q%s", tt.terminal, tt.env, code, got, tt.want, text, errs.String())
		}
	}
}

// A stream that breaks off is asked for again from the last event on, and what the server
// repeats is not printed again.
func TestFollowReconnects(t *testing.T) {
	t.Parallel()
	var asked []string
	event := func(second int) string {
		return fmt.Sprintf(`{"time":"2026-11-21T12:00:%02dZ","type":"Normal","reason":"R%d","message":"m"}`+"\n", second, second)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Query().Get("since"))
		w.Header().Set("Content-Type", "application/x-ndjson")
		fmt.Fprint(w, event(len(asked)), event(len(asked)+1))
		if len(asked) == 1 {
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
	}))
	t.Cleanup(s.Close)
	code, out, errs := run(t.Context(), map[string]string{"EMCO_URL": s.URL}, "events", "p/a/v1/d", "--follow", "--lines", "3", "--timeout", "1m")
	want := "2026-11-21 12:00:01Z  Normal  R1  m\n2026-11-21 12:00:02Z  Normal  R2  m\n2026-11-21 12:00:03Z  Normal  R3  m\n"
	if code != 0 || out != want || !strings.Contains(errs, "reconnecting") {
		t.Errorf("exit code %d, got\n%swant\n%s%s", code, out, want, errs)
	}
	if got := strings.Join(asked, " "); got != " 2026-11-21T12:00:02Z" {
		t.Errorf("asked since %q", got)
	}
}

// planServer answers plans with a digest, and notes the If-Plan of actions.
func planServer(t *testing.T, bound *[]string, status int) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("dryRun") == "true" {
			confirm := ""
			if strings.HasSuffix(r.URL.Path, "/migrate") {
				confirm = "app web would have 0 instead of 3 objects"
			}
			fmt.Fprintf(w, `{"name":"d","plan":"sha256:abc","action":"update","revision":2,"confirm":%q,"apps":[],"summary":{"add":1}}`, confirm)
			return
		}
		if r.Method == http.MethodGet {
			fmt.Fprint(w, `{"name":"d","deployedCounts":{"Applied":2,"Failed":1,"Deleted":4}}`)
			return
		}
		*bound = append(*bound, r.Header.Get("If-Plan"))
		w.WriteHeader(status)
		fmt.Fprintln(w, 2)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// A plan with apps that fail says so where it offers to carry out the rest.
func TestAPlanWithFailuresOffersTheRest(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"name":"d","plan":"sha256:abc","action":"update","revision":2,"apps":[],"summary":{"add":1,"failed":1}}`)
	}))
	t.Cleanup(s.Close)
	_, out, errs := run(t.Context(), map[string]string{"EMCO_URL": s.URL}, "plan", "p/a/v1/d", "--action", "update")
	if want := "apps that fail stay as they are; carry out the rest with: emcoctl update p/a/v1/d --plan sha256:abc\n"; !strings.HasSuffix(out, want) {
		t.Errorf("got\n%s%s\nwant %s at the end", out, errs, want)
	}
}

func TestF25ActionsAreBoundToTheirPlans(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name        string
		args        string
		interactive bool
		reply       string
		status      int
		code        int
		bound       string // If-Plan of the actions; "none" without an action
		out         string
	}{
		{"a plan prints its digest", "plan --action update", false, "", 202, 1, "none", "carry it out with: emcoctl update p/a/v1/d --plan sha256:abc\n"},
		{"the digest is sent", "update --plan sha256:abc", false, "", 202, 0, "sha256:abc", "accepted, revision 2"},
		{"the plan has changed", "update --plan sha256:abc", false, "", 412, 4, "sha256:abc", "see: emcoctl plan"},
		{"a pipe is not asked", "update", false, "", 202, 0, "", "accepted"},
		{"a person agrees", "update", true, "y\n", 202, 0, "sha256:abc", "update now? [y/N]"},
		{"a person declines", "update", true, "\n", 202, 1, "none", "nothing was done"},
		{"a person has gone", "rollback --revision 1", true, "", 202, 1, "none", "nothing was done"},
		{"a person must confirm", "migrate --to v2/d", true, "y\n", 202, 1, "none", "nothing was done: repeat the command with --force, if that is meant"},
		{"a person confirms", "migrate --to v2/d --force", true, "y\n", 202, 0, "sha256:abc", "needs --force: app web would have 0 instead of 3 objects"},
		{"a person knows", "update -y", true, "", 202, 0, "", "accepted"},
		{"an action without a plan", "stop", true, "", 202, 0, "", "accepted"},
		{"a person terminates", "terminate", true, "y\n", 202, 0, "", "This removes p/a/v1/d from its clusters, with 3 objects.\nterminate now? [y/N] "},
		{"a person does not terminate", "terminate", true, "n\n", 202, 1, "none", "nothing was done"},
		{"a person knows what ends", "terminate -y", true, "", 202, 0, "", "accepted"},
		{"a pipe terminates", "terminate", false, "", 202, 0, "", "accepted"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var bound []string
			var out bytes.Buffer
			args := append(strings.Fields(tt.args), "p/a/v1/d", "--server", planServer(t, &bound, tt.status))
			code := cmd.Run(t.Context(), args, session.System{
				In: strings.NewReader(tt.reply), Out: &out, Err: &out, Interactive: tt.interactive, Getenv: func(string) string { return "" },
			})
			if got := strings.Join(bound, " "); code != tt.code || tt.bound == "none" && bound != nil || tt.bound != "none" && (len(bound) != 1 || got != tt.bound) || !strings.Contains(out.String(), tt.out) {
				t.Errorf("exit code %d, want %d; If-Plan %q, want %q\n%s", code, tt.code, bound, tt.bound, out.String())
			}
		})
	}
}
