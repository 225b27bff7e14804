package isolated

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"runtime"
	"sync/atomic"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/childproc"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
)

// Main is the child: it reads requests from stdin until its end, renders them with r and writes the
// answers to stdout. Its error means that it could not read a request or write an answer;
// a request that cannot be rendered is an answer.
//
// If stdin ends while it renders, the parent was killed and no process waits for the answer: then Main ends the
// process at once.
//
// It silences the process's standard logger, because libraries below r log values of
// charts.
func Main(r render.Renderer, stdin io.Reader, stdout io.Writer) error {
	log.SetOutput(io.Discard)
	var rendering atomic.Bool
	for q := range readRequests(stdin, &rendering) {
		if errors.Is(q.err, io.EOF) {
			return nil
		}
		if q.err != nil {
			return fmt.Errorf("read the request: %w", q.err)
		}
		stop := childproc.Heed(q.Work)
		a := answer(r, q.renderRequest)
		a.Fit = memoryInUse() <= q.Keep
		var text bytes.Buffer
		err := json.NewEncoder(&text).Encode(a)
		stop() // a child that has answered must not end as if the chart took too long
		rendering.Store(false)
		if err == nil {
			_, err = text.WriteTo(stdout)
		}
		if err != nil || !a.Fit {
			return err
		}
	}
	return nil
}

// readResult is a request, or why there are no more.
type readResult struct {
	renderRequest
	err error
}

// readRequests reads requests in a goroutine, which ends with stdin. It sets rendering with each request that it hands over, and
// ends the process if stdin ends while it is set.
func readRequests(stdin io.Reader, rendering *atomic.Bool) <-chan readResult {
	out := make(chan readResult, 1)
	go func() {
		defer close(out)
		questions := json.NewDecoder(stdin)
		for {
			var q readResult
			if q.err = questions.Decode(&q.renderRequest); q.err != nil {
				if rendering.Load() {
					os.Exit(1)
				}
				out <- q
				return
			}
			rendering.Store(true)
			out <- q
		}
	}()
	return out
}

// answer renders a request.
func answer(r render.Renderer, q renderRequest) renderAnswer {
	res, err := r.Render(context.Background(), render.Request{
		App: q.App, Package: q.Package.archive(), Profile: q.Profile.archive(), Overrides: q.Overrides,
		Release: q.Release, Namespace: q.Namespace, Labels: q.Labels,
	})
	if err == nil {
		return renderAnswer{Result: res}
	}
	a := renderAnswer{Kind: errs.KindOf(err), Error: err.Error()}
	if f, ok := errors.AsType[*render.Fault](err); ok {
		a.Fault = f
	}
	return a
}

// memoryInUse returns the bytes of memory that the run time has from the system.
func memoryInUse() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Sys - m.HeapReleased
}
