package rsync

import (
	"bytes"
	"cmp"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/gitops"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// maxAdopt bounds the body of a request, in bytes.
const maxAdopt = 16 << 10

// History serves what operators decide on branches whose history was rewritten. Whichever
// process answers, the one that writes to the branch acts on it.
type History struct {
	Contexts *appcontext.Store
	DB       *store.DB
	Rules    gitops.Rules
	Git      RestoringHost
	Log      *slog.Logger
}

// Mount adds the routes.
func (h History) Mount(r *mux.Router) {
	web.Handle(r, http.MethodGet, "/v2/git/branches", h.list)
	web.Handle(r, http.MethodPost, "/v2/git/adopt", web.NoDryRun(h.adopt))
	web.Handle(r, http.MethodPost, "/v2/git/restore", web.NoDryRun(h.restore))
}

// list answers all branches that were written to, in order.
func (h History) list(w http.ResponseWriter, r *http.Request) error {
	out := []v2.GitBranch{}
	for b, err := range h.Contexts.Branches(r.Context()) {
		if err != nil {
			return err
		}
		out = append(out, shown(b))
	}
	slices.SortFunc(out, func(a, b v2.GitBranch) int {
		return cmp.Or(cmp.Compare(a.URL, b.URL), cmp.Compare(a.Branch, b.Branch))
	})
	return web.JSON(w, http.StatusOK, out)
}

func shown(b appcontext.Branch) v2.GitBranch {
	return v2.GitBranch{URL: b.URL, Branch: b.Name, Commit: b.Commit}
}

// asked reads which branch a request is about.
func asked(w http.ResponseWriter, r *http.Request) (ask v2.GitBranch, err error) {
	body, err := web.Body(w, r, maxAdopt)
	if err != nil {
		return ask, err
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&ask); err != nil {
		return ask, errs.New(errs.Malformed, "the body is not as {\"url\": …, \"branch\": …}: "+err.Error())
	}
	if ask.URL == "" || ask.Branch == "" || ask.Commit != "" {
		return ask, errs.New(errs.Invalid, "give url and branch, as GET /v2/git/branches lists them, and nothing else")
	}
	return ask, nil
}

// adopt takes the history of a branch as it is.
func (h History) adopt(w http.ResponseWriter, r *http.Request) error {
	ask, err := asked(w, r)
	if err != nil {
		return err
	}
	if held, err := h.held(r.Context(), ask); err != nil || held {
		return h.judge(w, r, ruling{ask, true}, err)
	}
	b, err := h.Contexts.Adopt(r.Context(), ask.URL, ask.Branch)
	if err != nil {
		return err
	}
	h.Log.Info("history of a branch adopted", "repo", b.URL, "branch", b.Name, "actor", web.Actor(r.Context()))
	return web.JSON(w, http.StatusAccepted, shown(b))
}
