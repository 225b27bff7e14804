package api_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/contexttest"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/gitstate"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/api"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

func TestHistoryIsAdoptedByRequest(t *testing.T) {
	t.Parallel()
	contexts, log := contexttest.New(t), slog.New(slog.DiscardHandler)
	router := web.NewRouter()
	api.Branches{Contexts: contexts, Log: log}.Mount(router)
	server := httptest.NewServer(web.Wrap(log, router))
	defer server.Close()
	for _, name := range []string{"side", "main"} {
		b := gitstate.Branch{URL: "https://git/fleet.git", Name: name, Commit: "c0ffee"}
		if _, err := contexts.PutBranch(t.Context(), appcontext.Fence{}, b); err != nil {
			t.Fatal(err)
		}
	}
	const adopt = "/v2/git/adopt"
	for _, tt := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "/v2/git/branches", "", 200, `[{"url":"https://git/fleet.git","branch":"main","commit":"c0ffee"},{"url":"https://git/fleet.git","branch":"side","commit":"c0ffee"}]`},
		{"POST", adopt, `{"url":"https://git/fleet.git","branch":"main"}`, 202, `{"url":"https://git/fleet.git","branch":"main"}`},
		{"POST", adopt, `{"url":"https://git/fleet.git","branch":"other"}`, 404, "nothing was written to it"},
		{"POST", adopt, `{"url":"https://git/fleet.git"}`, 400, "give url and branch"},
		{"POST", adopt, `{"url":"https://git/fleet.git","branch":"main","commit":"x"}`, 400, "nothing else"},
		{"POST", adopt, `{"repo":"x"}`, 422, "repo"},
		{"POST", adopt + "?dryRun=true", `{"url":"https://git/fleet.git","branch":"side"}`, 202, `{"url":"https://git/fleet.git","branch":"side"}`},
		{"POST", adopt + "?dryRun=true", `{"url":"https://git/fleet.git","branch":"other"}`, 404, "nothing was written to it"},
		{"GET", "/v2/git/branches", "", 200, `[{"url":"https://git/fleet.git","branch":"main"},{"url":"https://git/fleet.git","branch":"side","commit":"c0ffee"}]`},
	} {
		req, err := http.NewRequestWithContext(t.Context(), tt.method, server.URL+tt.path, strings.NewReader(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != tt.status || !strings.Contains(string(text), tt.want) {
			t.Errorf("%s %s %s: %d %s, want %d and %s", tt.method, tt.path, tt.body, res.StatusCode, text, tt.status, tt.want)
		}
	}
}
