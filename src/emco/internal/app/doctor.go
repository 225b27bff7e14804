package app

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/gitstate"
	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
	"github.com/emco-orchestrator/emco/src/emco/internal/doctor"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
	"github.com/emco-orchestrator/emco/src/git"
)

const (
	maxDoctorFaults = 500 // in an answer
	doctorBranches  = 5   // that a request looks at
)

// doctorRoutes serve the checks of package doctor, one at a time: they read all documents and heads, or whole branches.
type doctorRoutes struct {
	stores   doctor.Stores
	branches *doctor.Branches // nil without rsync
	busy     chan struct{}    // of size 1; full while a check runs
}

func (d doctorRoutes) mount(r *mux.Router) {
	need := authz.Permission{Verb: authz.List, Type: "doctor"}
	web.Handle(r, http.MethodGet, "/v2/views/doctor", need, d.compare)
	if d.branches != nil {
		web.Handle(r, http.MethodGet, "/v2/views/doctor/branches", need, d.checkBranches)
	}
}

func (d doctorRoutes) compare(w http.ResponseWriter, r *http.Request) error {
	if err := web.CheckQuery(r.URL.Query()); err != nil {
		return err
	}
	return d.answer(w, r, func(ctx context.Context, report doctor.Report) (string, error) {
		return "", doctor.Compare(ctx, d.stores, report)
	})
}

func (d doctorRoutes) checkBranches(w http.ResponseWriter, r *http.Request) error {
	values := r.URL.Query()
	if err := web.CheckQuery(values, "continue"); err != nil {
		return err
	}
	return d.answer(w, r, func(ctx context.Context, report doctor.Report) (string, error) {
		return d.branches.Check(ctx, values.Get("continue"), doctorBranches, report)
	})
}

// answer runs a check, unless another one runs.
func (d doctorRoutes) answer(w http.ResponseWriter, r *http.Request, check func(context.Context, doctor.Report) (string, error)) error {
	select {
	case d.busy <- struct{}{}:
		defer func() { <-d.busy }()
	default:
		return errs.Throttle("check", "the stores", 5*time.Second, errors.New("another check runs"))
	}
	out := v2.DoctorAnswer{Faults: []v2.DoctorFault{}}
	var err error
	out.Continue, err = check(r.Context(), func(subject, fault string) {
		if len(out.Faults) == maxDoctorFaults {
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

// doctorOf returns the check of branches.
func doctorOf(stores doctor.Stores, host doctor.Host, routes *route.Resolver) *doctor.Branches {
	return &doctor.Branches{Stores: stores, Host: host, Repo: func(ctx context.Context, b gitstate.Branch) (git.Repo, error) {
		return routes.Lookup().Repo(ctx, route.Branch{URL: b.URL, Name: b.Name})
	}}
}
