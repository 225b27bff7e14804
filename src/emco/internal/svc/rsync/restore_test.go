package rsync

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/api"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
	"github.com/emco-orchestrator/emco/src/git/gittest"
	"github.com/emco-orchestrator/emco/src/git/plain"
)

// history serves what operators decide. It returns a function that asks for something on
// the branch of a repository and wants an answer.
func (w *works) history() func(what, repository string, status int, want string) {
	log, router := slog.New(slog.DiscardHandler), web.NewRouter()
	host := plain.New(plain.Options{})
	api.Branches{Contexts: w.contexts, DB: w.db, Git: host, Log: log}.Mount(router)
	server := httptest.NewServer(web.Wrap(log, router))
	w.Cleanup(func() { server.Close(); _ = host.Close() })
	return func(what, repository string, status int, want string) {
		w.Helper()
		body := `{"url":"` + w.git.URL(repository) + `","branch":"main"}`
		req, err := http.NewRequestWithContext(w.Context(), "POST", server.URL+"/v2/git/"+what, strings.NewReader(body))
		w.must(err)
		res, err := http.DefaultClient.Do(req)
		w.must(err)
		text, err := io.ReadAll(res.Body)
		w.must(err)
		_ = res.Body.Close()
		if res.StatusCode != status || !strings.Contains(string(text), want) || strings.Contains(string(text), "secret") {
			w.Errorf("%s %s: %d %s, want %d and %q", what, repository, res.StatusCode, text, status, want)
		}
	}
}

// Others rewrite a branch, and an operator restores it: the branch holds again what was
// written, and the pairs continue at once. If the server refuses, the request fails with
// that reason.
func TestH49RewrittenHistoryIsRestored(t *testing.T) {
	t.Parallel()
	w := newWorks(t, 1)
	ask := w.history()
	ask("restore", "r0", 404, "nothing was written to it")
	w.start(w.process("one", nil))
	w.wish("7", "green", "edge+c0")
	w.applied(1, 1)
	ask("restore", "r0", 409, "its history was not rewritten")
	bare := w.git.Bare("r0")
	_, err := bare.Git(t.Context(), "", "update-ref", "refs/heads/main", "main~1")
	w.must(err)
	_, err = bare.CommitExternal(t.Context(), "main", map[string]gittest.File{"README.md": {Content: "another way"}})
	w.must(err)
	w.wish("7", "red", "edge+c0")
	w.until("the refusal", func(pairs map[string]appcontext.Pair) bool { return pairs["edge+c0 7"].Reason == pair.HistoryRewritten })
	ask("restore", "r0", 403, "non-fast-forward")
	w.must(bare.Config(t.Context(), "receive.denyNonFastForwards", "false"))
	ask("restore", "r0", 202, `"commit":`)
	w.applied(1, 2)
	w.holds("r0", "c0", "7", "red")
	if got := w.log("r0"); got != "+edge+c0 +edge+c0 foreign" {
		t.Errorf("history is %q, want both commits of ours on the one before", got)
	}
}

// A commit that the server has thrown away cannot be put back.
func TestH49ARestoreOfWhatIsGone(t *testing.T) {
	t.Parallel()
	w := newWorks(t, 1)
	ask := w.history()
	stop := w.start(w.process("one", nil))
	w.wish("7", "green", "edge+c0")
	w.applied(1, 1)
	stop()
	bare := w.git.Bare("r0")
	_, err := bare.Git(t.Context(), "", "update-ref", "refs/heads/main", "main~1")
	w.must(err)
	_, err = bare.Git(t.Context(), "", "gc", "-q", "--prune=now")
	w.must(err)
	ask("restore", "r0", 409, "no longer has commit")
	ask("adopt", "r0", 202, "")
	ask("restore", "r0", 409, "was adopted")
}
