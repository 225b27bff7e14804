package web

import (
	"net/http"
	"strconv"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// AsksDryRun reports whether a request asks what an action would do rather than for the
// action: by ?dryRun=true, or =server as Kubernetes has it. Other values but false are
// Invalid.
func AsksDryRun(r *http.Request) (bool, error) {
	switch v := r.URL.Query().Get("dryRun"); v {
	case "", "false":
		return false, nil
	case "true", "server":
		return true, nil
	default:
		return false, errs.New(errs.Invalid, "Invalid query dryRun: "+strconv.Quote(v)+" is neither true nor false")
	}
}

// NoDryRun refuses a dry run of an action that has none: it must not be carried out instead.
func NoDryRun(act HandlerFunc) HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) error {
		dry, err := AsksDryRun(r)
		if err == nil && dry {
			err = errs.New(errs.Invalid, "this action has no dry run; leave dryRun out to carry it out")
		}
		if err != nil {
			return err
		}
		return act(w, r)
	}
}
