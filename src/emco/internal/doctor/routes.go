package doctor

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

const (
	maxFaults    = 500 // in an answer
	pageBranches = 5   // that a request looks at
)

// Routes serve the checks that are right while EMCO runs, one at a time: they read all documents and heads, or whole
// branches. Make them with NewRoutes.
type Routes struct {
	stores   Stores
	branches *Branches
	busy     chan struct{} // of size 1; full while a check runs
}

// NewRoutes returns the routes of the checks. Without branches, which may be nil, there is no check of branches.
func NewRoutes(s Stores, b *Branches) Routes {
	return Routes{stores: s, branches: b, busy: make(chan struct{}, 1)}
}

// Mount adds the routes.
func (d Routes) Mount(r *mux.Router) {
	need := authz.Permission{Verb: authz.List, Type: "doctor"}
	web.Handle(r, http.MethodGet, "/v2/views/doctor", need, d.compare)
	if d.branches != nil {
		web.Handle(r, http.MethodGet, "/v2/views/doctor/branches", need, d.checkBranches)
	}
}

func (d Routes) compare(w http.ResponseWriter, r *http.Request) error {
	if err := web.CheckQuery(r.URL.Query()); err != nil {
		return err
	}
	return d.answer(w, r, func(ctx context.Context, report Report) (string, error) {
		return "", Compare(ctx, d.stores, report)
	})
}

func (d Routes) checkBranches(w http.ResponseWriter, r *http.Request) error {
	values := r.URL.Query()
	if err := web.CheckQuery(values, "continue"); err != nil {
		return err
	}
	return d.answer(w, r, func(ctx context.Context, report Report) (string, error) {
		return d.branches.Check(ctx, values.Get("continue"), pageBranches, report)
	})
}

// answer runs a check, unless another one runs.
func (d Routes) answer(w http.ResponseWriter, r *http.Request, check func(context.Context, Report) (string, error)) error {
	select {
	case d.busy <- struct{}{}:
		defer func() { <-d.busy }()
	default:
		return errs.Throttle("check", "the stores", 5*time.Second, errors.New("another check runs"))
	}
	out := v2.DoctorAnswer{Faults: []v2.DoctorFault{}}
	var err error
	out.Continue, err = check(r.Context(), func(subject, fault string) {
		if len(out.Faults) == maxFaults {
			out.More++
			return
		}
		out.Faults = append(out.Faults, v2.DoctorFault{Subject: subject, Fault: fault})
	})
	if err != nil {
		return err
	}
	return web.JSON(w, http.StatusOK, out)
}
