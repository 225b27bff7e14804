package mongo

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.mongodb.org/mongo-driver/v2/event"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// A call ends some seconds after the last server went away, and soon if it begins later. While a member of a replica set is known, calls wait, because
// it will elect a primary.
func TestCallsEndWhenAllServersAreAway(t *testing.T) {
	t.Parallel()
	const call = 8 * time.Second // of the client, which looks for a server so long
	at := func(r *reachability, when time.Duration, kinds ...string) {
		time.AfterFunc(when, func() {
			e := &event.TopologyDescriptionChangedEvent{}
			for _, k := range kinds {
				e.NewDescription.Servers = append(e.NewDescription.Servers, event.ServerDescription{Kind: k})
			}
			r.topologyChanged(e)
		})
	}
	for name, tt := range map[string]struct {
		servers func(r *reachability)
		begins  time.Duration
		most    time.Duration // that the call takes; 0: no limit
	}{
		"nothing is known yet":           {servers: func(*reachability) {}},
		"the only server goes away":      {func(r *reachability) { at(r, time.Second, "Unknown") }, 0, 4500 * time.Millisecond},
		"it was away before the call":    {func(r *reachability) { at(r, 0, "Unknown", "Unknown") }, 10 * time.Second, time.Second},
		"it is away again and again":     {func(r *reachability) { at(r, 0, "Unknown"); at(r, time.Second, "Unknown") }, time.Second, 3 * time.Second},
		"a server answers in time":       {func(r *reachability) { at(r, time.Second, "Unknown"); at(r, 3*time.Second, "Standalone") }, 0, 0},
		"one answers before a late call": {func(r *reachability) { at(r, 0, "Unknown"); at(r, 9*time.Second, "RSPrimary") }, 10 * time.Second, 0},
		"the primary steps down":         {func(r *reachability) { at(r, 0, "RSSecondary", "RSSecondary", "Unknown") }, time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := &reachability{}
				tt.servers(r)
				time.Sleep(tt.begins) // of the bubble's clock
				began := time.Now()
				err := r.within(t.Context(), "get", "a", func(ctx context.Context) error {
					select {
					case <-ctx.Done():
						return ctx.Err()
					case <-time.After(call):
						return nil
					}
				})
				took := time.Since(began)
				if tt.most == 0 && (err != nil || took != call) {
					t.Errorf("the call ends after %s: %v, want after %s", took, err, call)
				}
				if tt.most > 0 && (!errs.Is(err, errs.Unavailable) || !errors.Is(err, errAway) || took > tt.most) {
					t.Errorf("the call ends after %s: %v, want within %s", took, err, tt.most)
				}
			})
		})
	}
}

// The client reports that no server can be reached, so a call ends before the client's own timeout.
func TestTheClientSaysThatAllServersAreAway(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close() // nothing listens there now
	client, r, err := connect("mongodb://" + l.Addr().String() + "/")
	if err != nil {
		t.Fatal(err)
	}
	d, b := newDriver(client, "emco", true, r)
	defer d.Close()
	var calls sync.WaitGroup
	for name, call := range map[string]func(ctx context.Context) error{
		"get":       func(ctx context.Context) error { _, err := d.Get(ctx, "a"); return err },
		"put":       func(ctx context.Context) error { return d.Put(ctx, store.Doc{Key: "a", Tag: 1}, 0) },
		"remove":    func(ctx context.Context) error { return d.Remove(ctx, "a", 1) },
		"changes":   func(ctx context.Context) error { _, err := d.Changes(ctx, 0); return err },
		"announce":  func(ctx context.Context) error { return d.journal.announce(ctx, "a", 0, 1) },
		"put blob":  func(ctx context.Context) error { _, _, err := b.Put(ctx, strings.NewReader("x"), 10); return err },
		"open blob": func(ctx context.Context) error { _, err := b.Open(ctx, "d"); return err },
		"sweep blobs": func(ctx context.Context) error {
			return b.Sweep(ctx, time.Now(), func(manifest.Digest) bool { return true })
		},
		"list": func(ctx context.Context) error {
			for _, err := range d.List(ctx, "", store.Query{}) {
				return err
			}
			return nil
		},
	} {
		calls.Go(func() {
			err := call(t.Context())
			if !errs.Is(err, errs.Unavailable) || !errors.Is(err, errAway) || strings.Count(err.Error(), errAway.Error()) != 1 {
				t.Errorf("%s without a server: %v", name, err)
			}
		})
	}
	calls.Wait()
}
