package plain_test

import (
	"slices"
	"testing"

	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/gittest"
	"github.com/emco-orchestrator/emco/src/git/plain"
)

var _ git.Differ = (*plain.Host)(nil)

// What differs is named by path, below a directory if that is asked for, and with the author
// of each commit in the log.
func TestWhatCommitsChangedIsNamed(t *testing.T) {
	t.Parallel()
	bare, repo := serve(t, "http")
	s := &stage{t: t, host: newHost(t), bare: bare, repo: repo}
	first := s.commit(nil, app("c0", "0"), app("c1", "1"))
	_, err := bare.CommitExternal(t.Context(), "shard", map[string]gittest.File{"clusters/p+c1/context/1/app/a/f.yaml": {Content: "mine"}, "clusters/p+c1/context/1/app/a/g.yaml": {Content: "new"}, "README": {Content: "hello"}})
	if err != nil {
		t.Fatal(err)
	}
	second := git.Hash(s.git("rev-parse", "shard"))
	host := newHost(t) // that knows nothing
	changed := func(d git.Difference) []string {
		t.Helper()
		out, err := host.Changed(t.Context(), repo, d)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for _, tt := range []struct {
		d    git.Difference
		want []string
	}{
		{git.Difference{Before: first.Commit, After: second, Limit: 10}, []string{"README", "clusters/p+c1/context/1/app/a/f.yaml", "clusters/p+c1/context/1/app/a/g.yaml"}},
		{git.Difference{Before: second, After: first.Commit, Under: "clusters", Limit: 10}, []string{"clusters/p+c1/context/1/app/a/f.yaml", "clusters/p+c1/context/1/app/a/g.yaml"}},
		{git.Difference{Before: first.Commit, After: second, Under: "clusters/p+c0", Limit: 10}, nil},
		{git.Difference{Before: first.Commit, After: second, Under: "nowhere", Limit: 10}, nil},
		{git.Difference{Before: first.Commit, After: second, Limit: 1}, []string{"README"}},
		{git.Difference{After: first.Commit, Limit: 10}, []string{"clusters/p+c0/context/1/app/a/f.yaml", "clusters/p+c1/context/1/app/a/f.yaml"}},
	} {
		if got := changed(tt.d); !slices.Equal(got, tt.want) {
			t.Errorf("%+v: %q, want %q", tt.d, got, tt.want)
		}
	}
	log, err := host.Since(t.Context(), repo, second, first.Commit)
	if err != nil || len(log.Commits) != 1 || log.Commits[0].Author == "" {
		t.Errorf("the log is %+v, %v", log, err)
	}
}
