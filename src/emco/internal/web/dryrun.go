package web

import (
	"net/http"
	"regexp"
	"strconv"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// Headers that bind an action to its plan.
const (
	// HeaderPlan carries the digest of a plan, in the answer of a dry run.
	HeaderPlan = "Plan"
	// HeaderIfPlan carries the digest of the plan that an action must carry out, or nothing.
	HeaderIfPlan = "If-Plan"
)

var planPattern = regexp.MustCompile(`^sha256:[0-9a-f]+$`)

// planLength is the length of a plan's digest.
const planLength = len("sha256:") + 64

// IfPlan returns the digest of the plan that a request insists on; empty if it insists on
// none. Other values than a digest are Invalid.
func IfPlan(r *http.Request) (string, error) {
	values, given := r.Header[HeaderIfPlan]
	if !given {
		return "", nil
	}
	if len(values) > 1 || len(values[0]) != planLength || !planPattern.MatchString(values[0]) {
		return "", errs.New(errs.Invalid, "Invalid header If-Plan: give the member plan of a dry run's answer, sha256: and 64 hexadecimal digits")
	}
	return values[0], nil
}

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

// IsDryRun reports whether a request is a dry run, so that it changes nothing. Routes whose method is one of reads know no dry runs; nor do
// those of reports of agents and providers, which declare their effect.
func IsDryRun(r *http.Request) bool {
	dry, err := AsksDryRun(r)
	return dry && err == nil && r.Method != http.MethodGet && r.Method != http.MethodHead
}

// WithDryRun has act know whether a request asks for a dry run: it must then check all and
// change nothing. It refuses a plan, which may not be ignored.
func WithDryRun(act func(w http.ResponseWriter, r *http.Request, dry bool) error) HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) error {
		dry, err := AsksDryRun(r)
		if err == nil && r.Header.Get(HeaderIfPlan) != "" {
			err = errs.New(errs.Invalid, "this action has no plan; leave the header "+HeaderIfPlan+" out")
		}
		if err != nil {
			return err
		}
		return act(w, r, dry)
	}
}
