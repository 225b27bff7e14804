package shard

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// collect returns the events that a shard gets: "uid revision", "-uid" and "synced".
func collect(ctx context.Context, f *HeadFeed) <-chan string {
	out := make(chan string, 100)
	go func() {
		defer close(out)
		for e, err := range f.WatchHeads(ctx) {
			switch {
			case err != nil:
				out <- err.Error()
			case e.Synced:
				out <- "synced"
			case e.Deleted:
				out <- "-" + string(e.Head.UID)
			default:
				out <- fmt.Sprint(e.Head.UID, " ", e.Head.Rev)
			}
		}
	}()
	return out
}

func head(uid appcontext.HeadID, rev int64) appcontext.HeadEvent {
	return appcontext.HeadEvent{Head: appcontext.Head{UID: uid, Rev: rev}}
}

func TestShardsShareOneHeadFeed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		f := NewHeadFeed(slog.New(slog.DiscardHandler))
		hears := func(who string, c <-chan string, want ...string) {
			t.Helper()
			synctest.Wait()
			for _, w := range want {
				select {
				case got := <-c:
					if got != w {
						t.Errorf("%s gets %q, want %q", who, got, w)
					}
				default:
					t.Errorf("%s gets nothing, want %q", who, w)
				}
			}
			if len(c) > 0 {
				t.Errorf("%s also gets %q", who, <-c)
			}
		}
		early := collect(ctx, f)
		f.handle(head("2", 1))
		hears("the early one", early, "2 1")
		f.handle(head("1", 1))
		f.handle(appcontext.HeadEvent{Synced: true})
		hears("the early one", early, "1 1", "synced")
		late := collect(ctx, f)
		hears("the late one", late, "1 1", "2 1", "synced")
		f.handle(head("1", 2))
		f.handle(head("1", 3))
		f.handle(appcontext.HeadEvent{Head: appcontext.Head{UID: "2"}, Deleted: true})
		for _, c := range []<-chan string{early, late} {
			synctest.Wait()
			var last string
			for len(c) > 0 {
				last += <-c + ", "
			}
			if last != "1 3, -2, " && last != "1 2, 1 3, -2, " {
				t.Errorf("got %q, want the last of each head", last)
			}
		}
		if h, err := f.Head(ctx, "1"); err != nil || h.Rev != 3 {
			t.Errorf("the newest head is %+v, %v", h, err)
		}
		if _, err := f.Head(ctx, "2"); !errs.Is(err, errs.NotFound) {
			t.Errorf("a head that is gone: %v, want NotFound", err)
		}
		cancel()
		for range early {
		}
		for range late {
		}
		if len(f.inboxes) > 0 {
			t.Errorf("%d inboxes are left", len(f.inboxes))
		}
	})
}
