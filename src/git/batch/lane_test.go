package batch_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/batch"
)

// only returns the one lane that there is.
func only(t *testing.T, w *batch.Writers) batch.Lane {
	t.Helper()
	all := w.Lanes()
	if len(all) != 1 {
		t.Fatalf("there are %d lanes: %+v", len(all), all)
	}
	return all[0]
}

func TestLanesTellWhatWaitsAndWhatFailed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &breaking{memory: newMemory(time.Second), why: map[git.Repo]error{}, tries: map[git.Repo]int{}}
		w := batch.New(h, batch.Options{})
		defer w.Close()
		commit, err := w.Submit(t.Context(), job(file("f", "x")))
		if err != nil {
			t.Fatal(err)
		}
		pushed := time.Now()
		if l := only(t, w); l.Commit != commit || !l.Pushed.Equal(pushed) || l.Err != nil || l.Queued != 0 || l.Branch != "main" || l.URL != repo.URL {
			t.Errorf("after a commit: %+v", l)
		}
		began := time.Now()
		for range 3 {
			go func() { _, _ = w.Submit(t.Context(), job(file("g", "x"))) }()
		}
		synctest.Wait()
		go func() { _, _ = w.Submit(t.Context(), job(file("h", "y"))) }()
		synctest.Wait()
		if l := only(t, w); l.Queued == 0 || !l.Oldest.Equal(began) {
			t.Errorf("while jobs wait: %+v", l)
		}
		time.Sleep(time.Minute) //nolint:forbidigo // of the bubble's clock: the queue ends, and the next one reads the head
		failed := time.Now()
		h.why[repo] = errs.New(errs.Unauthorized, "401")
		if _, err := w.Submit(t.Context(), job(file("f", "z"))); err == nil {
			t.Fatal("a refused credential was accepted")
		}
		l := only(t, w)
		if !errs.Is(l.Err, errs.Unauthorized) || l.Since.Before(failed) || !l.CoolingUntil.After(time.Now()) || l.Queued != 0 || l.Commit == "" {
			t.Errorf("after a refusal: %+v", l)
		}
		delete(h.why, repo)
		time.Sleep(time.Until(l.CoolingUntil)) //nolint:forbidigo // of the bubble's clock
		if _, err := w.Submit(t.Context(), job(file("f", "z"))); err != nil {
			t.Fatal(err)
		}
		if l := only(t, w); l.Err != nil || !l.CoolingUntil.IsZero() || l.Since.Before(failed) {
			t.Errorf("when it works again: %+v", l)
		}
	})
}
