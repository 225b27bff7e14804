package pair

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"pgregory.net/rapid"
)

var (
	noon  = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	retry = Retry{First: time.Second, Longest: 5 * time.Minute}
	key   = appcontext.PairKey{Cluster: "edge+c1", Deployment: "7", App: "web"}
)

func digests(d ...appcontext.Digest) []appcontext.Digest { return d }

// wants is what is desired of one app on one cluster.
func wants(bundle appcontext.Digest) Desired {
	return Desired{Deployment: "7", Rev: 2, Places: map[v2.ClusterKey]map[string]appcontext.Digest{"edge+c1": {"web": bundle}}}
}

func TestDiff(t *testing.T) {
	t.Parallel()
	applied := appcontext.Pair{Key: key, Rev: 1, Desired: "a", Applied: "a", Held: digests("a"), Phase: appcontext.Applied, Commit: "c"}
	failed := appcontext.Pair{
		Key: key, Rev: 1, Desired: "a", Held: digests("a"), Phase: appcontext.Failed,
		Attempt: 5, Error: "refused", NextRetry: noon.Add(time.Hour),
	}
	tests := []struct {
		name string
		wish Desired
		have []appcontext.Pair
		want []appcontext.Pair
	}{
		{
			"a new pair is pending, and what will be there is held before anything is done", wants("a"), nil,
			[]appcontext.Pair{{Key: key, Rev: 2, Desired: "a", Held: digests("a"), Phase: appcontext.Pending, At: noon, Change: appcontext.Install}},
		},
		{"a pair that holds what is desired stays", wants("a"), []appcontext.Pair{applied}, nil},
		{
			"a changed bundle keeps hold of the one that is there", wants("b"),
			[]appcontext.Pair{applied},
			[]appcontext.Pair{{Key: key, Rev: 2, Desired: "b", Applied: "a", Held: digests("a", "b"), Phase: appcontext.Pending, Commit: "c", At: noon, Change: appcontext.Upgrade, From: "a"}},
		},
		{
			"a failed pair is tried again at once when it is desired again", wants("a"),
			[]appcontext.Pair{failed},
			[]appcontext.Pair{{Key: key, Rev: 2, Desired: "a", Held: digests("a"), Phase: appcontext.Pending, At: noon, Change: appcontext.Install}},
		},
		{
			"what is no longer desired is removed",
			Desired{Deployment: "7", Rev: 2},
			[]appcontext.Pair{applied},
			[]appcontext.Pair{{Key: key, Rev: 2, Applied: "a", Held: digests("a"), Phase: appcontext.Deleting, Commit: "c", At: noon, Change: appcontext.Remove, From: "a"}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := Diff(tt.wish, tt.have, noon); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("Diff:\n got %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

func TestDiffDoesNotChangeItsInput(t *testing.T) {
	t.Parallel()
	held := make([]appcontext.Digest, 1, 4)
	held[0] = "a"
	have := []appcontext.Pair{{Key: key, Desired: "a", Held: held, Phase: appcontext.Applied}}
	Diff(wants("b"), have, noon)
	if got := held[:2][1]; got != "" {
		t.Errorf("the spare capacity of Held holds %q now", got)
	}
}

func TestApply(t *testing.T) {
	t.Parallel()
	pending := appcontext.Pair{Key: key, Rev: 2, Desired: "b", Applied: "a", Held: digests("a", "b"), Phase: appcontext.Pending, Attempt: 3, Error: "x"}
	deleting := appcontext.Pair{Key: key, Rev: 2, Applied: "a", Held: digests("a"), Phase: appcontext.Deleting}
	tests := []struct {
		name  string
		pair  appcontext.Pair
		o     Result
		want  appcontext.Pair
		stays bool
	}{
		{
			"proof of what is desired", pending,
			Result{Key: key, Bundle: "b", Commit: "c"},
			appcontext.Pair{Key: key, Rev: 2, Desired: "b", Applied: "b", Held: digests("b"), Commit: "c", Phase: appcontext.Applied, At: noon},
			true,
		},
		{
			"proof of what was desired before: still due, and both may be on the cluster", pending,
			Result{Key: key, Bundle: "a", Commit: "c"},
			appcontext.Pair{Key: key, Rev: 2, Desired: "b", Applied: "a", Held: digests("a", "b"), Commit: "c", Phase: appcontext.Pending, At: noon},
			true,
		},
		{
			"proof of a removal", deleting,
			Result{Key: key},
			appcontext.Pair{Key: key, Rev: 2, Held: digests("a"), Phase: appcontext.Deleting, At: noon},
			false,
		},
		{
			"proof of a removal that is no longer desired", pending,
			Result{Key: key},
			appcontext.Pair{Key: key, Rev: 2, Desired: "b", Held: digests("a", "b"), Phase: appcontext.Pending, At: noon},
			true,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, stays := Apply(tt.pair, tt.o, noon)
			if !reflect.DeepEqual(got, tt.want) || stays != tt.stays {
				t.Errorf("Apply:\n got %+v, %v\nwant %+v, %v", got, stays, tt.want, tt.stays)
			}
		})
	}
}

func TestBackoffDoubles(t *testing.T) {
	t.Parallel()
	p, transient := appcontext.Pair{Key: key, Desired: "b", Phase: appcontext.Pending}, errs.E(errs.Unavailable, "push", "repo", errors.New("no route"))
	for attempt := 1; attempt <= 12; attempt++ {
		p = retry.Fail(p, transient, noon, 0.5)
		least := min(retry.First<<(attempt-1), retry.Longest)
		if in := p.NextRetry.Sub(noon); in < least || in > least+least/4+1 {
			t.Errorf("attempt %d: tried again in %v, want %v and a quarter at most", attempt, in, least)
		}
		want := appcontext.Retrying
		if attempt >= MaxAttempts {
			want = appcontext.Failed
		}
		if p.Phase != want || p.Attempt != attempt || p.Error != "push repo: no route" {
			t.Errorf("attempt %d: got %+v, want phase %s", attempt, p, want)
		}
	}
}

func TestPermanentFailuresFailAtOnce(t *testing.T) {
	t.Parallel()
	for _, kind := range []errs.Kind{errs.Invalid, errs.Forbidden, errs.Unauthorized, errs.NotFound, errs.TooLarge} {
		p := retry.Fail(appcontext.Pair{Key: key}, errs.New(kind, "no"), noon, 0.5)
		if p.Phase != appcontext.Failed || p.NextRetry.Sub(noon) < retry.Longest {
			t.Errorf("%s: got %s, again in %v", kind, p.Phase, p.NextRetry.Sub(noon))
		}
	}
}

func TestRetryAfterIsObeyed(t *testing.T) {
	t.Parallel()
	p := retry.Fail(appcontext.Pair{Key: key}, errs.Throttle("push", "repo", time.Hour, errors.New("slow down")), noon, 0.5)
	if p.Phase != appcontext.Retrying || p.NextRetry.Sub(noon) < time.Hour {
		t.Errorf("got %s, again in %v", p.Phase, p.NextRetry.Sub(noon))
	}
}

// midway is a pair on an upgrade with several steps; the current one is delivered.
func midway() appcontext.Pair {
	return appcontext.Pair{
		Key: key, Rev: 2, Desired: "b", Applied: "a", From: "a", Change: appcontext.Upgrade, Held: digests("a", "b"),
		Phase: appcontext.Pending, Step: 2, Sent: true, Blocked: "waits for a hook", At: noon.Add(-time.Hour),
	}
}

func TestAChangeContinuesForTheSameRevision(t *testing.T) {
	t.Parallel()
	stoppedOne, halted := midway(), midway()
	stoppedOne.Blocked = Stopped
	halted.Halted, halted.Phase, halted.Error, halted.Blocked = true, appcontext.Failed, "hook failed", ""
	goesOn := midway()
	goesOn.Blocked = ""
	again := midway()
	again.Rev, again.At, again.Step, again.Sent, again.Blocked = 3, noon, 0, false, ""
	back := again
	back.Change = appcontext.RollBack
	gone := again
	gone.Rev, gone.Desired, gone.Change, gone.Phase = 2, "", appcontext.Remove, appcontext.Deleting
	next := wants("b")
	next.Rev = 3
	removing, removed := halted, gone // a hook of the removal failed
	removing.Desired, removing.Change = "", appcontext.Remove
	rolled := next
	rolled.Rollback = true
	tests := []struct {
		name string
		wish Desired
		have appcontext.Pair
		want appcontext.Pair
	}{
		{"one that waits goes on waiting", wants("b"), midway(), midway()},
		{"one that was stopped goes on where it was", wants("b"), stoppedOne, goesOn},
		{"one whose hook failed stays as it is", wants("b"), halted, halted},
		{"another revision begins again", next, midway(), again},
		{"also after a failed hook", next, halted, again},
		{"a rollback is one", rolled, midway(), back},
		{"a removal begins from what is there", Desired{Deployment: "7", Rev: 2}, midway(), gone},
		{"a removal whose hook failed stays as it is", Desired{Deployment: "7", Rev: 2, Removed: true}, removing, removing},
		{"F05: it begins again when it is asked for again", Desired{Deployment: "7", Rev: 2, Removed: true, Again: true}, removing, removed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := Diff(tt.wish, []appcontext.Pair{tt.have}, noon); len(got) != 1 || !reflect.DeepEqual(got[0], tt.want) {
				t.Errorf("got\n%+v\nwant\n%+v", got, tt.want)
			}
		})
	}
}

func TestApplyStepByStep(t *testing.T) {
	t.Parallel()
	at := func(step int) appcontext.Pair {
		p := midway()
		p.Step, p.Sent, p.Blocked, p.Findings = step, false, "", []string{"early"}
		return p
	}
	delivered := at(1)
	delivered.Sent, delivered.Commit, delivered.At, delivered.Findings = true, "c", noon, []string{"early", "late"}
	main := delivered
	main.Applied, main.Findings = "b", []string{"early"}
	end := appcontext.Pair{Key: key, Rev: 2, Desired: "b", Applied: "b", Held: digests("b"), Phase: appcontext.Applied, Commit: "c", At: noon, Findings: []string{"early"}}
	overtaken, install := at(0), at(0)
	overtaken.Rev, overtaken.Desired, overtaken.At = 3, "d", noon
	after := overtaken
	after.Applied, after.From, after.Commit, after.Findings = "b", "b", "c", nil
	install.Change, install.From, install.Applied = appcontext.Install, "", ""
	upgrade := install
	upgrade.Change, upgrade.From, upgrade.Applied, upgrade.Commit, upgrade.At, upgrade.Findings = appcontext.Upgrade, "a", "a", "c", noon, nil
	halted := at(1)
	halted.Halted, halted.Phase, halted.Error = true, appcontext.Failed, "hook failed"
	cleaned := halted
	cleaned.Sent, cleaned.Commit, cleaned.At = true, "c", noon
	tests := []struct {
		name string
		pair appcontext.Pair
		o    Result
		want appcontext.Pair
	}{
		{"a step before the last waits for a report", at(1), Result{Bundle: "b", Rev: 2, Step: 1, moreSteps: true, Findings: []string{"late"}}, delivered},
		{"the main one proves what is on the cluster", at(1), Result{Bundle: "b", Rev: 2, Step: 1, moreSteps: true, mainStep: true}, main},
		{"the last one ends the way", at(3), Result{Bundle: "b", Rev: 2, Step: 3}, end},
		{"a way that was overtaken counts for the next one", overtaken, Result{Bundle: "b", Rev: 2, Step: 1, moreSteps: true, mainStep: true}, after},
		{"an installation that finds itself upgrading", install, Result{Bundle: "a", Rev: 1}, upgrade},
		{"cleaning up after a hook heals nothing", halted, Result{Bundle: "b", Rev: 2, Step: 1, moreSteps: true}, cleaned},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.o.Key, tt.o.Commit = key, "c"
			if got, stays := Apply(tt.pair, tt.o, noon); !stays || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got\n%+v\nwant\n%+v", got, tt.want)
			}
		})
	}
}

// Pairs that hold what is desired may be left out of a comparison: the result is the same.
func TestAComparisonWithoutWhatHoldsIsTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		digest := rapid.SampledFrom([]appcontext.Digest{"a", "b"})
		w := Desired{Deployment: "7", Rev: 2, Places: map[v2.ClusterKey]map[string]appcontext.Digest{}, Registrations: map[v2.ClusterKey]string{}}
		var all, rest []appcontext.Pair
		held := map[appcontext.PairKey]bool{}
		for _, c := range []v2.ClusterKey{"e+a", "e+b", "e+c"} {
			if rapid.Bool().Draw(r, "registered") {
				w.Registrations[c] = rapid.SampledFrom([]string{"1", "2"}).Draw(r, "registration")
			}
			w.Places[c] = map[string]appcontext.Digest{}
			for _, app := range []string{"db", "web"} {
				if rapid.Bool().Draw(r, "wanted") {
					w.Places[c][app] = digest.Draw(r, "bundle")
				}
				if rapid.IntRange(0, 3).Draw(r, "exists") == 0 {
					continue
				}
				p := appcontext.Pair{
					Key: appcontext.PairKey{Cluster: c, Deployment: "7", App: app}, Desired: digest.Draw(r, "desired"), Applied: digest.Draw(r, "applied"),
					Registration: rapid.SampledFrom([]string{"", "1", "2"}).Draw(r, "registration"), Rev: rapid.Int64Range(1, 2).Draw(r, "rev"),
					Phase: rapid.SampledFrom([]appcontext.Phase{appcontext.Applied, appcontext.Applied, appcontext.Pending}).Draw(r, "phase"),
				}
				all = append(all, p)
				common := p
				common.Key, common.Registration = appcontext.PairKey{}, ""
				if w.Holds(p.Key, p.Registration, &common) {
					held[p.Key] = true
				} else {
					rest = append(rest, p)
				}
			}
		}
		want := Diff(w, all, noon)
		got := DiffUnsettled(w, rest, func(k appcontext.PairKey) bool { return held[k] }, noon)
		if !reflect.DeepEqual(got, want) {
			r.Fatalf("got %+v, want %+v", got, want)
		}
	})
}
