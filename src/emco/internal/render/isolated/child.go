package isolated

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/confined"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
)

// Main is the child: it reads one request from stdin, renders it with r and writes the
// answer to stdout. Its error means that it could not read the request or write the answer;
// a request that cannot be rendered is an answer.
//
// It silences the process's standard logger, because libraries below r log values of
// charts.
func Main(r render.Renderer, stdin io.Reader, stdout io.Writer) error {
	log.SetOutput(io.Discard)
	var q renderRequest
	if err := json.NewDecoder(stdin).Decode(&q); err != nil {
		return fmt.Errorf("read the request: %w", err)
	}
	defer confined.Heed(q.Work)()
	res, err := r.Render(context.Background(), render.Request{
		App: q.App, Package: q.Package.archive(), Profile: q.Profile.archive(), Overrides: q.Overrides,
		Release: q.Release, Namespace: q.Namespace, Labels: q.Labels,
	})
	a := renderAnswer{Result: res}
	if err != nil {
		a = renderAnswer{Kind: errs.KindOf(err), Error: err.Error()}
		if f, ok := errors.AsType[*render.Fault](err); ok {
			a.Fault = f
		}
	}
	return json.NewEncoder(stdout).Encode(a)
}
