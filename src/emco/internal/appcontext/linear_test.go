package appcontext

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// call is one call on a head by one client, with its answer, as a head is: a register
// that holds a revision of etcd, or 0 when there is no deployment.
type call struct {
	what      string
	from, to  int64 // from: what it must hold; to: what it holds afterwards, or was read
	rev       int64 // number of the revision that is published; 0 if none
	lost      bool  // another writer was faster
	call, ret int64
}

func (c call) String() string {
	return fmt.Sprintf("%d-%d %s from %d to %d, revision %d, lost %v", c.call, c.ret, c.what, c.from, c.to, c.rev, c.lost)
}

// register is what a sequence of calls leads to.
type register struct {
	mod  int64
	revs string // numbers of the revisions that exist
}

// after is the register after a call; false if the call cannot have been answered so.
func (r register) after(c call) (register, bool) {
	exists := strings.Contains(r.revs, fmt.Sprint(" ", c.rev, " "))
	switch c.what {
	case "read":
		return r, c.to == r.mod
	case "delete":
		return register{}, true
	}
	possible := c.from == r.mod && (c.rev == 0 || !exists)
	if c.lost {
		return r, !possible
	}
	r.mod = c.to
	if c.rev > 0 {
		r.revs += fmt.Sprint(" ", c.rev, " ")
	}
	return r, possible
}

// linear reports whether the calls are linearizable: some order explains all answers, and
// has each call after all calls that were answered before it was made.
func linear(calls []call) bool {
	seen := map[string]bool{}
	var search func(r register, left []call) bool
	search = func(r register, left []call) bool {
		if len(left) == 0 {
			return true
		}
		key := fmt.Sprint(r, left)
		if seen[key] {
			return false
		}
		seen[key] = true
		first := slices.MinFunc(left, func(a, b call) int { return int(a.ret - b.ret) }).ret
		for i, c := range left {
			if c.call > first {
				continue // another one was answered before it was made
			}
			if next, ok := r.after(c); ok && search(next, slices.Concat(left[:i], left[i+1:])) {
				return true
			}
		}
		return false
	}
	return search(register{}, calls)
}

func TestTheCheckerOfOrdersFindsFaults(t *testing.T) {
	t.Parallel()
	step := func(from, to, at int64) call { return call{what: "step", from: from, to: to, call: at, ret: at + 1} }
	lost := func(from, at int64) call { return call{what: "step", from: from, lost: true, call: at, ret: at + 1} }
	read := func(mod, at int64) call { return call{what: "read", to: mod, call: at, ret: at + 1} }
	long := func(c call, ret int64) call { c.ret = ret; return c }
	publish := func(from, to, rev, at int64) call { c := step(from, to, at); c.rev = rev; return c }
	for name, c := range map[string]struct {
		calls []call
		want  bool
	}{
		"one after the other":           {[]call{step(0, 5, 1), read(5, 3), step(5, 6, 5), lost(5, 7), read(6, 9)}, true},
		"a read of the past":            {[]call{step(0, 5, 1), step(5, 6, 3), read(5, 5)}, false},
		"a read at the same time":       {[]call{step(0, 5, 1), long(step(5, 6, 3), 9), read(5, 4), read(6, 6)}, true},
		"two winners":                   {[]call{step(0, 5, 1), step(5, 6, 3), step(5, 7, 5)}, false},
		"no winner":                     {[]call{step(0, 5, 1), lost(5, 3), read(5, 5)}, false},
		"a deletion in between":         {[]call{step(0, 5, 1), {what: "delete", call: 3, ret: 4}, read(0, 5), step(0, 9, 7)}, true},
		"a deletion that did nothing":   {[]call{step(0, 5, 1), {what: "delete", call: 3, ret: 4}, read(5, 5)}, false},
		"a revision twice":              {[]call{step(0, 5, 1), publish(5, 6, 1, 3), publish(6, 7, 1, 5)}, false},
		"a revision after the deletion": {[]call{step(0, 5, 1), publish(5, 6, 1, 3), {what: "delete", call: 5, ret: 6}, step(0, 8, 7), publish(8, 9, 1, 9)}, true},
	} {
		if got := linear(c.calls); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// Several clients step, publish, read and delete a deployment at the same time, each
// from what it read last: all answers are those of one register, in one order.
func TestHeadsAreLinearizable(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	var n atomic.Int64
	rapid.Check(t, func(t *rapid.T) {
		clients := rapid.SliceOfN(rapid.SliceOfN(rapid.SampledFrom([]string{"read", "step", "step", "publish", "delete"}), 1, 5), 2, 4).Draw(t, "clients")
		h := &history{s: s, uid: HeadID(fmt.Sprint("lin", n.Add(1)))}
		var wg sync.WaitGroup
		for _, script := range clients {
			wg.Go(func() { h.run(t.Context(), script) })
		}
		wg.Wait()
		if h.fault != nil {
			t.Fatal(h.fault)
		}
		if !linear(h.calls) {
			t.Fatalf("no order explains\n%v", h.calls)
		}
	})
}

// history records the calls of several clients.
type history struct {
	s     *Store
	uid   HeadID
	clock atomic.Int64

	mu    sync.Mutex
	calls []call
	fault error
}

// run carries out a client's script.
func (h *history) run(ctx context.Context, script []string) {
	last := Head{UID: h.uid}
	for _, what := range script {
		c := call{what: what, from: last.Mod, call: h.clock.Add(1)}
		next, err := h.do(ctx, &c, last)
		c.ret = h.clock.Add(1)
		c.lost = errs.Is(err, errs.Conflict)
		h.mu.Lock()
		if err != nil && !c.lost {
			h.fault = errors.Join(h.fault, err)
		}
		h.calls = append(h.calls, c)
		h.mu.Unlock()
		if !c.lost {
			last = next
		}
	}
}

func (h *history) do(ctx context.Context, c *call, last Head) (next Head, err error) {
	switch c.what {
	case "read":
		if next, err = h.s.Head(ctx, h.uid); errs.Is(err, errs.NotFound) {
			next, err = Head{UID: h.uid}, nil
		}
	case "delete":
		return Head{UID: h.uid}, h.s.Delete(ctx, h.uid)
	case "publish":
		if last.Mod == 0 {
			c.what = "step"
			next, err = h.s.ChangeHead(ctx, last, last, nil, nil)
			break
		}
		c.rev = last.LastRev + 1
		next, err = h.s.Publish(ctx, last, Revision{Number: c.rev}, slices.Values(places(1, "b")))
	default:
		next, err = h.s.ChangeHead(ctx, last, last, make([]HistoryEntry, 1), nil)
	}
	c.to = next.Mod
	return next, err
}
