package cacert_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/shards"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/cacert"
)

const (
	theAuthority  = store.Key("cluster-providers/edge/ca-certs/ca")
	theEnrollment = store.Key("cluster-providers/edge/ca-cert-enrollments/ca")
)

// renewals returns renewals that the test runs, and their clock.
func (f stageFixture) renewals() (*cacert.Renewals, *time.Time) {
	now := time.Now().UTC()
	f.authorities.SetClock(func() time.Time { return now })
	return cacert.NewRenewals(f.authorities, shards.Member{Holder: "me", TTL: time.Minute}, slog.New(slog.DiscardHandler)), &now
}

// operation returns the operation of the enrollment that waits; nil if there is none.
func (f stageFixture) operation() *appcontext.Operation {
	f.t.Helper()
	doc, err := f.DB.Get(f.t.Context(), theEnrollment)
	if err != nil {
		f.t.Fatal(err)
	}
	head, err := f.contexts.Head(f.t.Context(), appcontext.HeadID(doc.UID))
	if err != nil {
		f.t.Fatal(err)
	}
	return head.Op
}

// Certificates last three hours, so they are renewed after two.
func TestCertificatesAreRenewedInTime(t *testing.T) {
	t.Parallel()
	f := newStageFixture(t)
	r, now := f.renewals()
	look := func(what string, want time.Duration, renewed bool) {
		t.Helper()
		next, err := r.Look(t.Context(), theAuthority)
		if err != nil || want == 0 && !next.IsZero() || want > 0 && !next.Equal(now.Add(want)) {
			t.Errorf("%s: look again at %s (%v), want in %s from %s", what, next, err, want, now)
		}
		if op := f.operation(); (op != nil) != renewed || renewed && (op.Actor != "emco" || op.Kind != "update" || op.Reason == "") {
			t.Errorf("%s: the operation is %+v, want one: %v", what, op, renewed)
		}
	}
	if next, err := r.Look(t.Context(), theAuthority); err != nil || !next.IsZero() {
		t.Errorf("before the enrollment: %s %v", next, err)
	}
	f.Run(t, step{Do: "POST " + enrollment + "/instantiate", Status: 202})
	if next, err := r.Look(t.Context(), theAuthority); err != nil || !next.IsZero() {
		t.Errorf("during the enrollment: %s %v", next, err)
	}
	first := f.publish()
	f.Run(t, step{Do: "GET " + enrollment + "/status", Status: 200, Text: `"renewal":{"at":"` + now.Add(2*time.Hour).Format(time.RFC3339Nano) + `"}`})
	look("enrolled", 2*time.Hour, false)
	*now = now.Add(2*time.Hour - time.Second)
	look("shortly before", time.Second, false)
	*now = now.Add(time.Second)
	look("in time", 10*time.Minute, true)
	look("while it is renewed", 0, true)
	if again := f.publish(); len(again) != 1 || again[0] == first[0] {
		t.Errorf("the request %v became %v", first, again)
	}
	look("renewed", 2*time.Hour, false)

	// What is refused is tried again after a while, and the status says why.
	f.Run(t, step{Do: "DELETE " + ofProvider + "/ca/clusters/g", Status: 204})
	*now = now.Add(2 * time.Hour)
	look("without clusters", 10*time.Minute, false)
	f.Run(t, step{Do: "GET " + enrollment + "/status", Status: 200, Text: `"problem":"the certificate authority has no clusters`})
	f.Run(t, step{Do: "POST " + ofProvider + "/ca/clusters", Body: group("name", "edge", "c2"), Status: 201})
	*now = now.Add(5 * time.Minute)
	look("too early", 5*time.Minute, false)
	*now = now.Add(5 * time.Minute)
	look("again", 20*time.Minute, true)
	f.publish()
	f.Run(t, step{Do: "GET " + enrollment + "/status", Status: 200, Text: `"renewal":{"at":"` + now.Add(2*time.Hour).Format(time.RFC3339Nano) + `"}`})

	f.Run(t, step{Do: "POST " + enrollment + "/terminate", Status: 202})
	look("terminated", 0, false)
	if a := f.Do(t, step{Do: "GET " + enrollment + "/status"}); a.Status != 200 || strings.Contains(a.Body, "renewal") {
		t.Errorf("the status of a terminated enrollment is %+v", a)
	}
}

// Enrollments of older versions have no schedule; their keys have the time.
func TestOlderEnrollmentsAreRenewed(t *testing.T) {
	t.Parallel()
	f := newStageFixture(t)
	r, now := f.renewals()
	f.Run(t, step{Do: "POST " + enrollment + "/instantiate", Status: 202})
	f.publish()
	doc, err := f.DB.Get(t.Context(), theEnrollment)
	if err == nil {
		_, err = f.DB.Replace(t.Context(), store.Write{Key: doc.Key, Parent: doc.Parent, UID: doc.UID, Body: []byte("{}")}, doc.Rev)
	}
	if err != nil {
		t.Fatal(err)
	}
	if next, err := r.Look(t.Context(), theAuthority); err != nil || !next.Equal(now.Add(2*time.Hour)) {
		t.Errorf("look again at %s (%v)", next, err)
	}
}

// A process that starts renews what became due before, without being told.
func TestWhatIsDueAtTheStartIsRenewed(t *testing.T) {
	t.Parallel()
	f := newStageFixture(t)
	r, now := f.renewals()
	f.Run(t, step{Do: "POST " + enrollment + "/instantiate", Status: 202})
	f.publish()
	*now = now.Add(3 * time.Hour)
	seen := mirror.New(f.contexts, slog.New(slog.DiscardHandler))
	seen.Observe(r)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, run := range []func(context.Context) error{seen.Run, r.Run} {
		running.Go(func() {
			if err := run(ctx); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		})
	}
	defer running.Wait()
	defer stop()
	for op, err := range f.contexts.WatchOperations(ctx) {
		if err != nil || op.Actor != "emco" || op.Kind != "update" {
			t.Errorf("the operation is %+v (%v)", op, err)
		}
		break
	}
}
