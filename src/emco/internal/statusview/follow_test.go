package statusview

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// answerStream is a stream of answers that a test takes one by one.
type answerStream struct {
	*testGroup
	answers chan v2.Status
	end     context.CancelFunc
	ended   chan error
}

func (g *testGroup) follow(query string) *answerStream {
	ctx, cancel := context.WithCancel(g.Context())
	f := &answerStream{testGroup: g, answers: make(chan v2.Status), end: cancel, ended: make(chan error, 1)}
	read := func(context.Context) (Answer, error) { return g.ask(query) }
	go func() {
		f.ended <- g.reader.Follow(ctx, Feed{g.doc, read}, func(a Answer) error {
			select {
			case f.answers <- a.Status():
			case <-ctx.Done():
			}
			return nil
		})
	}()
	g.Cleanup(func() { cancel() })
	return f
}

func (f *answerStream) next(what string) v2.Status {
	f.Helper()
	select {
	case st := <-f.answers:
		return st
	case err := <-f.ended:
		f.Fatalf("%s: it ended with %v", what, err)
	case <-time.After(10 * time.Second):
		f.Fatalf("%s: no answer came", what)
	}
	return v2.Status{}
}

// until takes answers until one is as wanted.
func (f *answerStream) until(what string, ok func(v2.Status) bool) (n int) {
	f.Helper()
	for n = 1; !ok(f.next(what)); n++ {
	}
	return n
}

func TestFollowSendsAnAnswerAtOnceAndOnChanges(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	g, o := s.group("7"), s.configMap("one", "hello")
	b := s.bundle(o)
	f := g.follow("status=ready")
	if st := f.next("the first answer"); len(st.States.Actions) != 1 {
		t.Errorf("before anything was done: got %+v", st)
	}
	g.publish(placedApps{"a": {c1: b}})
	f.until("instantiated", func(st v2.Status) bool { return st.DeployedStatus == "Instantiating" && len(st.Apps) == 1 })
	g.applied("a", c1, b, "c0ffee")
	f.until("applied", func(st v2.Status) bool { return st.DeployedStatus == "Instantiated" })
	g.report("a", c1, appcontext.Report{Seq: 1, At: noon.Add(time.Millisecond - 3*time.Minute), Resources: []appcontext.ResourceStatus{objectStatus(o, "Current", "")}})
	f.until("ready", func(st v2.Status) bool { return st.ReadyStatus == "Ready" })
	s.at(noon.Add(time.Second)) // without a write: time alone changes the answer
	f.until("silent", func(st v2.Status) bool { return st.ReadyStatus == "Unknown" && st.Apps[0].Clusters[0].Stale })
	word := appcontext.Report{Seq: 2, At: s.clock(), Resources: []appcontext.ResourceStatus{objectStatus(o, "Current", "")}}
	g.report("a", c1, word) // the same report with a later time
	f.until("reported again", func(st v2.Status) bool { return st.ReadyStatus == "Ready" })
	word.Seq, word.At = 3, s.clock().Add(time.Second)
	g.report("a", c1, word) // this is no change
	word.Resources = []appcontext.ResourceStatus{objectStatus(o, "InProgress", "")}
	g.report("a", c1, word)
	if st := f.next("not ready"); st.ReadyStatus != "NotReady" || st.Apps[0].Clusters[0].LastReport != nil {
		t.Errorf("after a sign of life and a change: got %s, %+v", st.ReadyStatus, st.Apps[0].Clusters)
	}
	f.end()
	if err := <-f.ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
}

// Answers that a slow client does not take are skipped, and no other client waits.
func TestFollowSkipsAnswersForSlowClients(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	g, b := s.group("7"), s.bundle(s.configMap("one", "hello"))
	g.publish(placedApps{"a": {c1: b}})
	slow, quick := g.follow("status=deployed"), g.follow("status=deployed")
	slow.next("the first answer of the slow one")
	quick.next("the first answer of the quick one")
	const changes = 60
	for i := range changes {
		g.pair("a", c1, appcontext.Pair{Rev: 1, Desired: b, Phase: appcontext.Retrying, Attempt: i, Error: "away", At: noon.Add(time.Duration(i) * time.Second)})
		at := noon.Add(time.Duration(i) * time.Second)
		quick.until("a change", func(st v2.Status) bool { return since(st).Equal(at) })
	}
	last := noon.Add((changes - 1) * time.Second)
	n := slow.until("the last change", func(st v2.Status) bool { return since(st).Equal(last) })
	if n > 3 { // one that was already made, and one in transit
		t.Errorf("the slow client got %d answers for %d changes", n, changes)
	}
}

// since is when the one pair reached its phase; zero before that.
func since(st v2.Status) (at time.Time) {
	if p := st.Apps[0].Clusters[0].Since; p != nil {
		at = *p
	}
	return at
}

func TestFollowEndsWhenThereIsNothingToFollow(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	gone := errs.New(errs.NotFound, "gone")
	doc, calls := store.Doc{UID: "7"}, 0
	read := func(context.Context) (Answer, error) {
		if calls++; calls > 3 {
			return Answer{}, gone
		}
		if calls > 1 {
			return Answer{}, errs.New(errs.Unavailable, "etcd is away") // it comes back
		}
		return Answer{topics: topicsOf(doc), Expires: noon}, nil
	}
	told := 0
	err := s.reader.Follow(t.Context(), Feed{doc, read}, func(Answer) error { told++; return nil })
	if !errors.Is(err, gone) || told != 1 {
		t.Errorf("got %v after %d answers", err, told)
	}
	calls = 1
	if err := s.reader.Follow(t.Context(), Feed{doc, read}, nil); !errs.Is(err, errs.Unavailable) {
		t.Errorf("a store that is away from the beginning: got %v", err)
	}
	full := errors.New("the client is gone")
	calls = 0
	if err := s.reader.Follow(t.Context(), Feed{doc, read}, func(Answer) error { return full }); !errors.Is(err, full) {
		t.Errorf("a client that is gone: got %v", err)
	}
}

// The stream of a document that is deleted is complete; one that fails is not.
func TestStreamsEndAsTheirReasonIs(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	doc := store.Doc{UID: "7"}
	for _, c := range []struct{ why, want error }{{errs.New(errs.NotFound, "gone"), nil}, {errs.New(errs.Internal, "damaged"), io.ErrUnexpectedEOF}} {
		calls := 0
		read := func(context.Context) (Answer, error) {
			if calls++; calls > 1 {
				return Answer{}, c.why
			}
			return Answer{topics: topicsOf(doc), Expires: noon}, nil
		}
		server := httptest.NewServer(web.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
			return s.reader.Serve(w, r, Query{Watch: true}, Feed{doc, read})
		}))
		t.Cleanup(server.Close)
		a, err := server.Client().Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(a.Body)
		if bytes.Count(text, []byte("\n")) != 1 || !errors.Is(err, c.want) {
			t.Errorf("after %v the stream is %q, %v", c.why, text, err)
		}
		_ = a.Body.Close()
	}
}

// A group that takes over another one's deployment gets the changes of its pairs from then on.
func TestFollowGoesWithADeploymentThatMoves(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	b := s.bundle(s.configMap("one", "hello"))
	g := s.group("8")
	f := g.follow("status=deployed")
	f.next("the first answer")
	g.step(func(h *appcontext.Head) { h.Inherited = "7" })
	g.publish(placedApps{"a": {c1: b}})
	f.until("a revision", func(st v2.Status) bool { return st.DeployedStatus == "Instantiating" && len(st.Apps) == 1 })
	g.applied("a", c1, b, "")
	f.until("a pair with the other id", func(st v2.Status) bool { return st.DeployedStatus == "Instantiated" })
}
