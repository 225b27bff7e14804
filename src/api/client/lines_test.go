package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/api/errs"
)

func TestLinesArriveAsTheyAreSent(t *testing.T) {
	t.Parallel()
	seen := make(chan struct{})
	c := dial(t, client.Options{BaseURL: serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/x-ndjson; charset=utf-8")
		fmt.Fprintf(w, "%s\n\n", r.Header.Get("Idempotency-Key"))
		_ = http.NewResponseController(w).Flush()
		<-seen // the second line is sent when the first one was read
		fmt.Fprintln(w, "two")
	})})
	var got []string
	res, err := c.Lines(t.Context(), client.Request{Method: "GET", Path: "events", Key: "one"}, func(line []byte) error {
		if got = append(got, string(line)); len(got) == 1 {
			close(seen)
		}
		return nil
	})
	if err != nil || !res.Streamed() || !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("got %q, %+v, %v", got, res, err)
	}
}

func TestLinesEnd(t *testing.T) {
	t.Parallel()
	stop := errors.New("enough")
	for _, tt := range []struct {
		name   string
		answer http.HandlerFunc
		each   func([]byte) error
		check  func(*client.Response, error) bool
	}{
		{"with an error of the caller", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "x") }, func([]byte) error { return stop }, func(_ *client.Response, err error) bool { return errors.Is(err, stop) }},
		{"with a line that is too long", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, strings.Repeat("x", 2000)) }, nil, func(_ *client.Response, err error) bool { return errs.Is(err, errs.TooLarge) }},
		{"with a refusal", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no such group", 404) }, nil, func(r *client.Response, err error) bool {
			return err == nil && errs.Is(r.Err("GET", "x"), errs.NotFound) && !r.Streamed()
		}},
		{"before they begin, if the answer is no stream", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, "{\n}")
		}, func([]byte) error { return stop }, func(r *client.Response, err error) bool {
			return err == nil && r.OK() && !r.Streamed() && string(r.Body) == "{\n}"
		}},
		{"with a connection that breaks", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintln(w, "x")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, nil, func(_ *client.Response, err error) bool { return errs.Is(err, errs.Unavailable) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			each := tt.each
			if each == nil {
				each = func([]byte) error { return nil }
			}
			c := dial(t, client.Options{BaseURL: serve(t, streaming(tt.answer)), MaxBytes: 1000})
			if res, err := c.Lines(t.Context(), client.Request{Method: "GET", Path: "x"}, each); !tt.check(res, err) {
				t.Errorf("Lines: %+v, %v", res, err)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	c := dial(t, client.Options{BaseURL: serve(t, streaming(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "x")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))})
	_, err := c.Lines(ctx, client.Request{Method: "GET", Path: "x"}, func([]byte) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("after its context Lines gives %v", err)
	}
}

// streaming sets the content type of a stream of lines.
func streaming(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", client.LinesType)
		h(w, r)
	}
}
