package gitlabtest

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/emco-orchestrator/emco/src/git/gittest"
)

// gitlabProject is a repository and its records in GitLab; guarded by the server's lock.
type gitlabProject struct {
	id       int64
	path     string
	branch   string // the default one
	url      string // for people
	bare     gittest.Bare
	rules    []branchRule
	forward  bool // takes merge requests by fast-forward only
	requests []*mergeRequest
	statuses map[string][]commitStatus // by commit, oldest first
}

// branchRule holds the roles that may push to and merge into branches of a pattern.
type branchRule struct {
	pattern     string
	push, merge Level
}

// protectHook refuses pushes to protected branches. It reads lines "level pattern".
const protectHook = `while read -r old new ref; do
  branch=${ref#refs/heads/}
  while read -r level pattern; do
    case "$branch" in $pattern) ;; *) continue;; esac
    if [ "$GL_LEVEL" -lt "$level" ]; then
      echo "GitLab: You are not allowed to push code to protected branches on this project." >&2
      exit 1
    fi
    case "$old$new" in *0000000000000000000000000000000000000000*) continue;; esac
    if ! git merge-base --is-ancestor "$old" "$new"; then
      echo "GitLab: You are not allowed to force push code to a protected branch on this project." >&2
      exit 1
    fi
  done < gitlab-protected
done`

// protect adds a rule, or replaces that of the same pattern.
func (p *gitlabProject) protect(r branchRule) error {
	rules := []branchRule{r}
	for _, old := range p.rules {
		if old.pattern != r.pattern {
			rules = append(rules, old)
		}
	}
	p.rules = rules
	var lines strings.Builder
	for _, r := range rules {
		fmt.Fprintf(&lines, "%d %s\n", r.push, r.pattern)
	}
	return os.WriteFile(filepath.Join(p.bare.Dir, "gitlab-protected"), []byte(lines.String()), 0o644)
}

// ruleOf returns the strictest rule of a branch, and whether there is one.
func (p *gitlabProject) ruleOf(branch string) (strictest branchRule, protected bool) {
	for _, r := range p.rules {
		if ok, _ := path.Match(r.pattern, branch); ok {
			protected = true
			strictest.push, strictest.merge = max(strictest.push, r.push), max(strictest.merge, r.merge)
		}
	}
	return strictest, protected
}

// head returns where a branch is, "" if it is not there.
func (p *gitlabProject) head(branch string) string {
	id, _ := p.bare.Ref("refs/heads/" + branch)
	return id
}

// hasCommit reports whether the repository holds a commit.
func (p *gitlabProject) hasCommit(ctx context.Context, id string) bool {
	kind, err := p.bare.Git(ctx, "", "cat-file", "-t", id)
	return err == nil && kind == "commit"
}
