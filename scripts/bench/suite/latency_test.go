package suite

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A server that stops for a second delays all requests due in that second.
func TestTimesRunFromWhenARequestWasDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		r := requestKind{do: func(context.Context, int) error {
			time.Sleep(time.Until(began.Add(time.Second))) // of the bubble's clock
			return nil
		}}
		s := atRate(t.Context(), r, 100, 0, period)
		if s.Failed != "" || s.Note != "" || s.Values["p99"] < 900 || s.Values["p50"] > 100 {
			t.Errorf("sample is %+v", s)
		}
	})
}

// A rate that is too high ends soon, and has no times that would look good.
func TestTooHighARateIsNoFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var sent atomic.Int64
		r := requestKind{do: func(ctx context.Context, _ int) error {
			if sent.Add(1) < 10 {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}}
		began := time.Now()
		s := atRate(t.Context(), r, 100, 0, period)
		if _, timed := s.Values["p99"]; timed || s.Failed != "" || s.Note == "" || time.Since(began) > 2*patience {
			t.Errorf("after %s the sample is %+v", time.Since(began), s)
		}
	})
}

func TestRefusalsAreFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := atRate(t.Context(), requestKind{do: func(context.Context, int) error { return errors.New("409 Conflict") }}, 10, 0, period)
		if s.Failed == "" || s.Values["errors"] == 0 {
			t.Errorf("sample is %+v", s)
		}
	})
}

// A load that was called off ends at once, whatever is not due yet.
func TestALoadEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		began, sent := time.Now(), 0
		atRate(ctx, requestKind{do: func(context.Context, int) error { sent++; return nil }}, 1, 0, period)
		if took := time.Since(began); sent != 1 || took != time.Second/2 {
			t.Errorf("%d requests were sent in %s", sent, took)
		}
	})
}
