package plain_test

import (
	"crypto/rand"
	"fmt"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/gittest"
	"github.com/emco-orchestrator/emco/src/git/plain"
)

var (
	_ git.LogReader    = (*plain.Host)(nil)
	_ git.LatestReader = (*plain.Host)(nil)
)

// A server sends the log since a commit, merges included, and omits the content of the
// commits if it supports filters.
func TestLogsOfMerges(t *testing.T) {
	t.Parallel()
	for _, filter := range []string{"true", "false"} {
		t.Run("filter="+filter, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			bare, repo := serve(t, "http")
			if err := bare.Config(ctx, "uploadpack.allowFilter", filter); err != nil {
				t.Fatal(err)
			}
			large := map[string]gittest.File{"large": {Content: rand.Text() + strings.Repeat(rand.Text(), 1<<15)}}
			first := foreign(t, ctx, bare, "main", large)
			second := foreign(t, ctx, bare, "main", map[string]gittest.File{"f": {Content: "2"}})
			if _, err := bare.Git(ctx, "", "branch", "side", string(first)); err != nil {
				t.Fatal(err)
			}
			side := foreign(t, ctx, bare, "side", map[string]gittest.File{"g": {Content: "side"}})
			merge, err := bare.Git(ctx, "", "commit-tree", "-p", string(second), "-p", string(side), "-m", "merge\n\nEmco-Fence: x:7", string(second)+"^{tree}")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := bare.Git(ctx, "", "update-ref", "refs/heads/main", merge); err != nil {
				t.Fatal(err)
			}
			host := newHost(t)
			for base, want := range map[git.Hash]string{
				first: "true: merge, foreign, foreign", second: "true: merge, foreign", side: "true: merge, foreign",
				git.Hash(merge): "true:", "": "true: merge, foreign, foreign, foreign",
				git.Hash(strings.Repeat("1", 40)): "false: merge, foreign, foreign, foreign",
			} {
				log, err := host.Since(ctx, repo, git.Hash(merge), base)
				if err != nil {
					t.Fatal(err)
				}
				if got := summary(log); got != want {
					t.Errorf("since %s: %s, want %s", base, got, want)
				}
			}
			if log, err := host.Since(ctx, repo, first, git.Hash(merge)); err != nil || summary(log) != "false:" {
				t.Errorf("since what came later: %s, %v", summary(log), err)
			}
			log, err := host.Since(ctx, repo, git.Hash(merge), second)
			if err != nil || log.Commits[0].Trailer("Emco-Fence") != "x:7" || log.Commits[1].Trailer("Emco-Fence") != "" {
				t.Errorf("got %+v, %v", log, err)
			}
			if _, err := host.Since(ctx, repo, git.Hash(strings.Repeat("2", 40)), second); !errs.Is(err, errs.NotFound) {
				t.Errorf("a log of no commit: %v, want NotFound", err)
			}
			if _, err := host.Since(ctx, repo, "main", second); !errs.Is(err, errs.Invalid) {
				t.Errorf("a log of no hash: %v, want Invalid", err)
			}
			for n, want := range map[int]string{1: "merge", 3: "merge, foreign, foreign", 9: "merge, foreign, foreign, foreign"} {
				newest, err := host.Latest(ctx, repo, git.Hash(merge), n)
				if got := strings.TrimPrefix(summary(git.Log{Commits: newest}), "false: "); err != nil || got != want {
					t.Errorf("the newest %d: %s, %v, want %s", n, got, err, want)
				}
			}
			if got := host.Stats().Received; filter == "true" && got > 16<<10 {
				t.Errorf("%d bytes came, want commits only", got)
			}
		})
	}
}

// summary writes a log as "true: title, title".
func summary(log git.Log) string {
	var titles []string
	for _, c := range log.Commits {
		title, _, _ := strings.Cut(c.Message, "\n")
		titles = append(titles, title)
	}
	return strings.TrimSpace(fmt.Sprintf("%v: %s", log.Grown, strings.Join(titles, ", ")))
}
