package arm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// State is how far Azure is with what was asked for.
type State string

// Ended reports whether nothing more will happen; Azure has more words for what is under way
// than anybody lists.
func (s State) Ended() bool {
	return s.Is("Succeeded") || s.Failed()
}

// Failed reports whether it ended without success.
func (s State) Failed() bool { return s.Is("Failed") || s.Is("Canceled") }

// Is compares without regard to case, as Azure asks clients to.
func (s State) Is(name string) bool { return strings.EqualFold(string(s), name) }

// await follows what an answer began until it ends. When ctx ends first, the error is
// Unavailable and says that Azure goes on.
func (a *Account) await(ctx context.Context, r answer) error {
	began := r
	for {
		next, err := a.next(r)
		if err != nil || next == nil {
			return err
		}
		if err := wait(ctx, retryAfter(r.header)); err != nil {
			return errs.Throttle(began.call.verb(), began.call.subject(), retryAfter(r.header), errors.New("the operation is not done yet"))
		}
		polled, err := a.send(ctx, call{method: http.MethodGet, url: next})
		switch {
		case errs.Is(err, errs.NotFound) && began.call.method == http.MethodDelete:
			return nil
		case ctx.Err() != nil:
			return errs.E(errs.Unavailable, began.call.verb(), began.call.subject(), errors.New("the operation is not done yet"))
		case err != nil:
			return err
		}
		carry(&polled, r)
		if done, err := judge(began, polled); done {
			return err
		}
		r = polled
	}
}

// next returns where to ask how far Azure is; nil if it is done.
func (a *Account) next(r answer) (*url.URL, error) {
	for _, name := range []string{"Azure-AsyncOperation", "Location"} {
		text := r.header.Get(name)
		if text == "" || name == "Location" && r.status != http.StatusAccepted {
			continue
		}
		u, err := url.Parse(text)
		if err != nil || u.Scheme != a.client.manager.Scheme || u.Host != a.client.manager.Host {
			return nil, errs.E(errs.Unavailable, "follow", r.call.subject(), errors.New("it is to be followed on another host, which is not done"))
		}
		return u, nil
	}
	return nil, nil
}

// carry keeps the addresses that a later answer does not repeat.
func carry(to *answer, from answer) {
	for _, name := range []string{"Azure-AsyncOperation", "Location"} {
		if to.header.Get(name) == "" && from.header.Get(name) != "" {
			to.header.Set(name, from.header.Get(name))
		}
	}
}

// judge says whether an answer to a question about an operation is the last one.
func judge(began, r answer) (done bool, err error) {
	if began.header.Get("Azure-AsyncOperation") == "" { // Location: 202 until it is over
		return r.status != http.StatusAccepted, nil
	}
	var body struct {
		Status State
		Error  fault
	}
	if err := json.Unmarshal(r.body, &body); err != nil {
		return true, errs.E(errs.Unavailable, "follow", began.call.subject(), errors.New("the answer is no JSON"))
	}
	if body.Status.Failed() {
		why := fmt.Errorf("the operation ended as %s: %s", body.Status, body.Error)
		return true, errs.E(errs.Conflict, began.call.verb(), began.call.subject(), why)
	}
	return body.Status.Ended(), nil
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
