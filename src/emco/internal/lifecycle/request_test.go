package lifecycle

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/contexttest"
	"github.com/emco-orchestrator/emco/src/emco/internal/resource/resourcetest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

const groupKey = "projects/p"

// desk is one over real stores, with a document that has no head yet.
func desk(t *testing.T) (Executor, store.Doc) {
	t.Helper()
	d := Executor{DB: resourcetest.DB(t), Contexts: contexttest.New(t)}
	doc, err := d.DB.Create(t.Context(), store.Write{Key: groupKey})
	if err != nil {
		t.Fatal(err)
	}
	return d, doc
}

// approval decides for an approval, and counts.
func approval(ask Request, decided *atomic.Int64) func(context.Context, Snapshot) ([]appcontext.HeadChange, error) {
	return func(_ context.Context, c Snapshot) ([]appcontext.HeadChange, error) {
		decided.Add(1)
		to := c.Head
		to.State, to.LastRev = appcontext.Approved, to.LastRev+1
		return []appcontext.HeadChange{c.Change(to, ask.NewEntry(to.State, "", to.LastRev))}, nil
	}
}

func TestARequestWithAKeyIsCarriedOutOnce(t *testing.T) {
	t.Parallel()
	d, doc := desk(t)
	ask, decided := Request{Action: Approve, Key: "k", Actor: "ada", Reason: "why not"}, atomic.Int64{}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if act, err := d.Execute(t.Context(), doc, ask, approval(ask, &decided)); err != nil || act.Revision != 1 || act.Actor != "ada" {
				t.Errorf("got %+v, %v", act, err)
			}
		})
	}
	all.Wait()
	c, err := d.Load(t.Context(), doc)
	if err != nil || len(c.History) != 2 || c.History[1].Key != "k" || c.History[1].Reason != "why not" {
		t.Errorf("history %+v, %v; want one approval", c.History, err)
	}
	other := ask
	other.Action, other.Argument = Rollback, "3"
	if _, err = d.Execute(t.Context(), doc, other, approval(other, &decided)); !errs.Is(err, errs.Malformed) || !strings.Contains(err.Error(), "another request, approve") {
		t.Errorf("the key for something else: got %v", err)
	}
	ask.Key = ""
	if act, err := d.Execute(t.Context(), doc, ask, approval(ask, &decided)); err != nil || act.Revision != 2 {
		t.Errorf("without a key: got %+v, %v; want a second approval", act, err)
	}
}

func TestARefusalLeavesTheKeyFree(t *testing.T) {
	t.Parallel()
	d, doc := desk(t)
	ask, decided := Request{Action: Approve, Key: "k"}, atomic.Int64{}
	no := errs.New(errs.Conflict, "no")
	if _, err := d.Execute(t.Context(), doc, ask, func(context.Context, Snapshot) ([]appcontext.HeadChange, error) { return nil, no }); !errors.Is(err, no) {
		t.Errorf("got %v, want the refusal", err)
	}
	if act, err := d.Execute(t.Context(), doc, ask, approval(ask, &decided)); err != nil || act.Revision != 1 {
		t.Errorf("got %+v, %v", act, err)
	}
}

// A change by others makes the request be decided again, on the new state.
func TestAnOvertakenRequestIsDecidedAgain(t *testing.T) {
	t.Parallel()
	d, doc := desk(t)
	ask, decided := Request{Action: Approve}, atomic.Int64{}
	decide := approval(ask, &decided)
	act, err := d.Execute(t.Context(), doc, ask, func(ctx context.Context, c Snapshot) ([]appcontext.HeadChange, error) {
		changes, err := decide(ctx, c)
		if decided.Load() <= 3 {
			to := c.Head
			to.LastRev += 10
			if _, err := d.Contexts.ChangeHeads(ctx, c.Change(to)); err != nil {
				return nil, err
			}
		}
		return changes, err
	})
	if err != nil || act.Revision != 31 || decided.Load() != 4 {
		t.Errorf("got %+v, %v after %d decisions; want revision 31 after 4", act, err, decided.Load())
	}
	_, err = d.Execute(t.Context(), doc, ask, func(ctx context.Context, c Snapshot) ([]appcontext.HeadChange, error) {
		changes, err := decide(ctx, c)
		if _, err := d.Contexts.ChangeHeads(ctx, c.Change(c.Head)); err != nil {
			return nil, err
		}
		return changes, err
	})
	if !errors.Is(err, appcontext.ErrOvertaken) || decided.Load() != 4+maxAttempts {
		t.Errorf("got %v after %d more decisions, want it given up after %d", err, decided.Load()-4, maxAttempts)
	}
}

// A deletion that is past its questions must not leave the head of an approval behind.
func TestAHeadOfADeletedDocumentIsRemoved(t *testing.T) {
	t.Parallel()
	d, doc := desk(t)
	ask, decided := Request{Action: Approve}, atomic.Int64{}
	err := d.DB.Delete(t.Context(), doc.Key, func(ctx context.Context, _ store.Doc) error {
		_, err := d.Execute(ctx, doc, ask, approval(ask, &decided))
		if !errs.Is(err, errs.NotFound) {
			t.Errorf("while it is deleted: got %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Execute(t.Context(), doc, ask, approval(ask, &decided)); !errs.Is(err, errs.NotFound) {
		t.Errorf("after it was deleted: got %v", err)
	}
	if _, err := d.Contexts.Head(t.Context(), appcontext.HeadID(doc.UID)); !errs.Is(err, errs.NotFound) {
		t.Errorf("a head is left: %v", err)
	}
}

func TestRequestsSayWhoAndWhy(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	read := func(query, key string) (Request, error) {
		r := httptest.NewRequest(http.MethodPost, "/v2/x?"+query, nil)
		if key != "" {
			r.Header.Set("Idempotency-Key", key)
		}
		return ReadRequest(r, Update, noon)
	}
	ask, err := read("reason=a+fix+for+%23+4", "k")
	if want := (Request{Action: Update, Actor: "anonymous", Reason: "a fix for # 4", Key: "k", At: noon}); err != nil || ask != want {
		t.Errorf("got %+v, %v; want %+v", ask, err, want)
	}
	if e := ask.NewEvent("Updated", "revision 3", 3); e.Message != "revision 3: a fix for # 4" || e.Actor != "anonymous" || e.Type != "Normal" {
		t.Errorf("event %+v", e)
	}
	for _, query := range []string{"reason=" + strings.Repeat("x", 1025), "reason=" + url.QueryEscape("a\nb"), "reason=%ff"} {
		if _, err := read(query, ""); !errs.Is(err, errs.Invalid) {
			t.Errorf("%.30s: got %v", query, err)
		}
	}
	if _, err := read("", strings.Repeat("k", 129)); !errs.Is(err, errs.Invalid) {
		t.Errorf("a long key: got %v", err)
	}
}
