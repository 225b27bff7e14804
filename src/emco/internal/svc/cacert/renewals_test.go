package cacert_test

import (
	"context"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/mirror"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/shards"
	"github.com/emco-orchestrator/emco/src/emco/internal/lifecycle"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/cacert"
)

const (
	theAuthority    = store.Key("cluster-providers/edge/ca-certs/ca")
	theEnrollment   = store.Key("cluster-providers/edge/ca-cert-enrollments/ca")
	theDistribution = store.Key("cluster-providers/edge/ca-cert-distributions/ca")
)

// renewals returns renewals that the test runs, and their clock.
func (f stageFixture) renewals() (*cacert.Renewals, *time.Time) {
	r, now, _ := f.countedRenewals()
	return r, now
}

// countedRenewals returns renewals with their clock and the number of those that failed.
func (f stageFixture) countedRenewals() (r *cacert.Renewals, now *time.Time, failed *int) {
	now, failed = new(time.Time), new(int)
	*now = time.Now().UTC()
	f.authorities.SetClock(func() time.Time { return *now })
	me := shards.Member{Holder: "me", TTL: time.Minute}
	return cacert.NewRenewals(f.authorities, me, slog.New(slog.DiscardHandler), func() { *failed++ }), now, failed
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

// renewAt has the certificates of the enrollment's revision renewed at a time.
func (f stageFixture) renewAt(at time.Time) {
	f.t.Helper()
	doc, err := f.DB.Get(f.t.Context(), theEnrollment)
	if err == nil {
		body := regexp.MustCompile(`"renewAt":"[^"]*"`).ReplaceAll(doc.Body, []byte(`"renewAt":"`+at.Format(time.RFC3339Nano)+`"`))
		_, err = f.DB.Replace(f.t.Context(), store.Write{Key: doc.Key, Parent: doc.Parent, UID: doc.UID, Body: body}, doc.Rev)
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// Certificates last three hours, so they are renewed after two.
func TestCertificatesAreRenewedInTime(t *testing.T) {
	t.Parallel()
	f := newStageFixture(t)
	r, now, failed := f.countedRenewals()
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
	f.renewAt(now.Add(40 * time.Second)) // the issuer shortens certificates to a minute
	*now = now.Add(40 * time.Second)
	look("soon after a renewal that helped", 10*time.Minute, true)
	f.publish()
	if *failed != 0 {
		t.Errorf("%d renewals failed, want none", *failed)
	}

	// What is refused is tried again after a while, and the status has the reason.
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
	if *failed != 1 {
		t.Errorf("%d renewals failed, want the one that was refused", *failed)
	}
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

// heads changes heads after a test did something.
type heads struct {
	lifecycle.HeadWriter
	before func() error // once; nil: nothing
}

func (h *heads) ChangeHeads(ctx context.Context, changes ...appcontext.HeadChange) ([]appcontext.Head, error) {
	if before := h.before; before != nil {
		h.before = nil
		if err := before(); err != nil {
			return nil, err
		}
	}
	return h.HeadWriter.ChangeHeads(ctx, changes...)
}

// A store that is away for a moment is no refusal: the renewal comes as soon as the store answers.
func TestAnOutageDelaysNoRenewal(t *testing.T) {
	t.Parallel()
	f := newStageFixture(t)
	r, now := f.renewals()
	away := &heads{HeadWriter: f.contexts, before: func() error { return errs.New(errs.Unavailable, "etcd is away") }}
	f.authorities.SetHeads(away)
	f.Run(t, step{Do: "POST " + enrollment + "/instantiate", Status: 202})
	f.publish()
	*now = now.Add(2 * time.Hour)
	if _, err := r.Look(t.Context(), theAuthority); !errs.Is(err, errs.Unavailable) || f.operation() != nil {
		t.Errorf("during the outage: %v, and the operation %+v", err, f.operation())
	}
	if a := f.Do(t, step{Do: "GET " + enrollment + "/status"}); a.Status != 200 || strings.Contains(a.Body, "problem") {
		t.Errorf("an outage is a problem of the renewal: %+v", a)
	}
	if _, err := r.Look(t.Context(), theAuthority); err != nil || f.operation() == nil {
		t.Errorf("after the outage: %v, and no operation", err)
	}
}

// An update by another caller, between the look and the renewal, does not change the problem of the last renewal.
func TestAFasterUpdateKeepsTheProblem(t *testing.T) {
	t.Parallel()
	f := newStageFixture(t)
	r, now := f.renewals()
	others := &heads{HeadWriter: f.contexts}
	f.authorities.SetHeads(others)
	f.Run(t, step{Do: "POST " + enrollment + "/instantiate", Status: 202})
	f.publish()
	f.Run(t, step{Do: "DELETE " + ofProvider + "/ca/clusters/g", Status: 204})
	*now = now.Add(2 * time.Hour)
	if _, err := r.Look(t.Context(), theAuthority); err != nil {
		t.Fatal(err)
	}
	f.Run(t, step{Do: "POST " + ofProvider + "/ca/clusters", Body: group("name", "edge", "c2"), Status: 201})
	*now = now.Add(10 * time.Minute)
	others.before = func() error {
		f.Run(t, step{Do: "POST " + enrollment + "/update", Status: 202})
		return nil
	}
	if next, err := r.Look(t.Context(), theAuthority); err != nil || !next.IsZero() {
		t.Errorf("look again at %s (%v), want when the head changes", next, err)
	}
	if op := f.operation(); op == nil || op.Actor == "emco" {
		t.Errorf("the operation is %+v", op)
	}
	f.Run(t, step{Do: "GET " + enrollment + "/status", Status: 200, Text: `"problem":"the certificate authority has no clusters`})
}

// What is remembered of an authority is forgotten when no renewal needs it.
func TestRenewalsForget(t *testing.T) {
	t.Parallel()
	f := newStageFixture(t)
	r, now := f.renewals()
	look := func(what string, wantWaiting, wantAsked int) {
		t.Helper()
		if _, err := r.Look(t.Context(), theAuthority); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if waiting, asked := r.Known(); waiting != wantWaiting || asked != wantAsked {
			t.Errorf("%s: %d authorities wait, and %d stages were renewed, want %d and %d", what, waiting, asked, wantWaiting, wantAsked)
		}
	}
	f.Run(t, step{Do: "POST " + enrollment + "/instantiate", Status: 202})
	f.publish()
	held, err := f.DB.Create(t.Context(), store.Write{Key: theDistribution, Parent: "cluster-providers/edge", Body: []byte("{}")})
	if err != nil {
		t.Fatal(err)
	}
	distributed, err := f.contexts.ChangeHead(t.Context(), appcontext.Head{}, appcontext.Head{UID: appcontext.HeadID(held.UID), Document: string(held.Key), State: appcontext.Instantiated}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	look("the distribution is due, and the issuer has signed nothing", 1, 0)
	f.Run(t, step{Do: "POST " + enrollment + "/update", Status: 202})
	look("the enrollment is updated", 0, 0)
	f.publish()
	look("it waits for the issuer again", 1, 0)
	doc, err := f.DB.Get(t.Context(), theEnrollment)
	if err != nil {
		t.Fatal(err)
	}
	r.HeadChanged(appcontext.HeadID(doc.UID), nil)
	if waiting, _ := r.Known(); waiting != 0 {
		t.Errorf("%d authorities wait for enrollments that are gone", waiting)
	}
	if err := f.contexts.Remove(t.Context(), distributed); err != nil {
		t.Fatal(err)
	}
	*now = now.Add(2 * time.Hour)
	look("the enrollment is due", 0, 1)
	f.publish()
	f.Run(t, step{Do: "POST " + enrollment + "/terminate", Status: 202})
	look("the enrollment is terminated", 0, 0)
}

// A renewal that was accepted and brought no new certificates has failed. It counts once.
func TestARenewalWithoutEffectIsCounted(t *testing.T) {
	t.Parallel()
	f := newStageFixture(t)
	r, now, failed := f.countedRenewals()
	f.Run(t, step{Do: "POST " + enrollment + "/instantiate", Status: 202})
	f.publish()
	*now = now.Add(2 * time.Hour)
	for i, pause := range []time.Duration{10 * time.Minute, 20 * time.Minute, 40 * time.Minute} {
		if next, err := r.Look(t.Context(), theAuthority); err != nil || !next.Equal(now.Add(pause)) {
			t.Fatalf("renewal %d: look again at %s (%v), want in %s", i, next, err, pause)
		}
		if *failed != i {
			t.Errorf("renewal %d: %d have failed", i, *failed)
		}
		f.publish()
		f.renewAt(now.Add(-time.Hour)) // the certificates are the old ones
		*now = now.Add(pause)
	}
}

// The first end is that of the certificates on clusters, also while they are updated.
func TestTheFirstEndIsThatOfCertificatesOnClusters(t *testing.T) {
	t.Parallel()
	f := newStageFixture(t)
	r, now := f.renewals()
	end := now.Add(3 * time.Hour)
	look := func(what string, want time.Time) {
		t.Helper()
		if _, err := r.Look(t.Context(), theAuthority); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if got := r.FirstEnd(); !got.Equal(want) {
			t.Errorf("%s: the first end is %s, want %s", what, got, want)
		}
	}
	f.Run(t, step{Do: "POST " + enrollment + "/instantiate", Status: 202})
	f.publish()
	look("without a distribution", time.Time{})
	body := `{"renewAt":"` + now.Add(2*time.Hour).Format(time.RFC3339Nano) + `","notAfter":"` + end.Format(time.RFC3339Nano) + `"}`
	held, err := f.DB.Create(t.Context(), store.Write{Key: theDistribution, Parent: "cluster-providers/edge", Body: []byte(body)})
	if err != nil {
		t.Fatal(err)
	}
	distributed, err := f.contexts.ChangeHead(t.Context(), appcontext.Head{}, appcontext.Head{UID: appcontext.HeadID(held.UID), Document: string(held.Key), State: appcontext.Instantiated}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	look("distributed", end)
	f.Run(t, step{Do: "POST " + enrollment + "/update", Status: 202})
	look("while the enrollment is updated", end)
	f.publish()
	next := `{"rev":1,"renewAt":"` + now.Add(4*time.Hour).Format(time.RFC3339Nano) + `","notAfter":"` + end.Add(3*time.Hour).Format(time.RFC3339Nano) + `"}`
	if _, err := f.DB.Replace(t.Context(), store.Write{Key: held.Key, Parent: held.Parent, UID: held.UID, Body: []byte(next)}, held.Rev); err != nil {
		t.Fatal(err)
	}
	look("after an update that failed when its schedule was written", end)
	if err := f.contexts.Remove(t.Context(), distributed); err != nil {
		t.Fatal(err)
	}
	look("the distribution is gone", time.Time{})
}

// A process that starts renews what became due before, without a request.
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
