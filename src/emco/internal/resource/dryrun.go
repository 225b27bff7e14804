package resource

import (
	"context"
	"net/http"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// maxTrials bounds the dry runs of uploads at the same time: their files are in memory.
const maxTrials = 4

type dryRunKey struct{}

// DryRun reports whether a check runs for a dry run: it must leave nothing behind, not even
// in memory.
func DryRun(ctx context.Context) bool {
	dry, _ := ctx.Value(dryRunKey{}).(bool)
	return dry
}

// orDryRun serves a write. If the request asks for a dry run, all checks run on a trial of the
// store, and the answer is that of the write without an ETag. params are the parameters of the
// write.
func (h *handler[T, P]) orDryRun(write func(*handler[T, P], http.ResponseWriter, *http.Request) error, params ...string) web.HandlerFunc {
	trials := make(chan struct{}, maxTrials)
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := web.CheckQuery(r.URL.Query(), params...); err != nil {
			return err
		}
		dry, err := web.AsksDryRun(r)
		if err != nil {
			return err
		}
		if !dry {
			return write(h, w, r)
		}
		select {
		case trials <- struct{}{}:
			defer func() { <-trials }()
		default:
			return &errs.Error{Kind: errs.Throttled, Err: errs.New(errs.Throttled, "too many dry runs are under way; try again later"), After: time.Second}
		}
		trial := *h
		trial.dry, trial.db = true, h.db.Trial()
		return write(&trial, w, r.WithContext(context.WithValue(r.Context(), dryRunKey{}, true)))
	}
}
