package arm

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/pause"
)

// State is the state of a resource or an operation.
type State string

// Ended reports whether the state is final. Azure has many words for what is under way.
func (s State) Ended() bool {
	return s.Is("Succeeded") || s.Failed()
}

// Failed reports whether it ended without success.
func (s State) Failed() bool { return s.Is("Failed") || s.Is("Canceled") }

// Is compares without regard to case, as Azure asks clients to.
func (s State) Is(name string) bool { return strings.EqualFold(string(s), name) }

var errUnderWay = errors.New("the operation is not done yet")

// finish sends a request and polls the operation that it starts until that ends. When ctx
// ends first, Azure goes on: the error is Throttled or Unavailable.
func (a *Account) finish(ctx context.Context, req *policy.Request) error {
	began := req.Raw()
	resp, err := a.pipeline.Do(req)
	if err != nil {
		return err
	}
	poller, err := runtime.NewPoller[json.RawMessage](resp, a.pipeline, nil)
	if err != nil {
		return unreadable(began, err)
	}
	for !poller.Done() {
		wait := retryAfter(resp.Header)
		if pause.For(ctx, wait) != nil {
			return errs.Throttle(verb(began), subject(began), wait, errUnderWay)
		}
		resp, err = poller.Poll(ctx)
		switch {
		case ctx.Err() != nil:
			return errs.E(errs.Unavailable, verb(began), subject(began), errUnderWay)
		case err != nil:
			return unreadable(began, err)
		}
	}
	return failed(began, resp)
}

// failed returns why an operation ended without success, by its last answer. The poller's
// own result is not used: for it the poller reads the resource again.
func failed(began *http.Request, last *http.Response) error {
	var body struct {
		Status     State // of an operation
		Error      errorBody
		Properties struct {
			State State `json:"provisioningState"` // of a resource
		}
	}
	text, err := runtime.Payload(last)
	if err != nil || json.Unmarshal(text, &body) != nil {
		return nil // the poller needed no state
	}
	state := cmp.Or(body.Status, body.Properties.State)
	if state == "" || state.Is("Succeeded") || state.Is("Completed") {
		return nil
	}
	return errs.E(errs.Conflict, verb(began), subject(began), fmt.Errorf("the operation ended as %s: %s", state, body.Error))
}

// unreadable is the error of an answer that the poller does not understand. Errors of the
// guard stay as they are.
func unreadable(began *http.Request, err error) error {
	if errs.KindOf(err) != errs.Internal {
		return err
	}
	return errs.E(errs.Unavailable, "follow", subject(began), err)
}
