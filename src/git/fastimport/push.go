package fastimport

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/transport"
)

// maxReport is how much the program may write about a push.
const maxReport = 1 << 20

// move is how a branch shall change: from where it is now, empty if it must not exist.
type move struct {
	branch   string
	from, to git.Hash
	guard    func(context.Context) error
}

// push moves a branch, if it is where it was. The condition is the old commit itself
// (--force-with-lease with its name), which is stricter than what a push refuses by itself:
// the branch must neither have grown nor have been taken back. What is pushed by Commit is on
// top of that, so nothing is ever lost by it.
func (j *job) push(m move) error {
	if m.guard != nil {
		if err := m.guard(j.ctx); err != nil {
			return asIs{err}
		}
	}
	ref := "refs/heads/" + m.branch
	out, err := j.remote(run{args: []string{
		"push", "--porcelain", "--no-verify", "--no-follow-tags", "--recurse-submodules=no",
		"--force-with-lease=" + ref + ":" + string(m.from), "origin", string(m.to) + ":" + ref,
	}, most: maxReport})
	flag, summary, told := report(out, ref)
	switch {
	case told && flag == "!":
		return j.refused(m, summary, err)
	case err != nil:
		return err
	case !told:
		return errs.E(errs.Unavailable, "", "", errors.New("the git program does not say what became of the push"))
	case flag == "=":
		return j.lost(m) // somebody else has made the very same commit
	}
	j.cache.known[m.to] = true
	return nil
}

// report finds what became of a reference in what git push --porcelain writes.
func report(out []byte, ref string) (flag, summary string, told bool) {
	for line := range strings.Lines(string(out)) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 3)
		if len(fields) == 3 && strings.HasSuffix(fields[1], ":"+ref) {
			return fields[0], fields[2], true
		}
	}
	return "", "", false
}

func (j *job) lost(m move) error {
	return errs.E(errs.Conflict, "push", j.repo.URL, fmt.Errorf("branch %s is not where it was expected", m.branch))
}

// refused tells why a branch was not moved. Servers word their refusals differently; so where
// one may mean that the race was lost, the branch itself is asked.
func (j *job) refused(m move, summary string, err error) error {
	words := summary
	if failed, ok := errors.AsType[*programError](err); ok {
		words += ": " + failed.said
	}
	switch {
	case strings.HasPrefix(summary, "[rejected]"):
		return j.lost(m)
	case strings.HasPrefix(summary, "[remote failure]"):
		return errs.E(errs.Unavailable, "push", j.repo.URL, errors.New("the server does not say what became of the push"))
	case transport.LostObjects(words):
		j.spoil() // what we built on is gone from the server
		return j.lost(m)
	case strings.Contains(summary, "unpacker error"), strings.Contains(words, "remote unpack failed"):
		return j.unpackRefused(words)
	case !transport.OfHook(words):
		at, err := j.head(m.branch)
		switch {
		case err == nil && at == m.to: // the program has sent it again when it got no answer
			return errs.E(errs.Unavailable, "push", j.repo.URL, errors.New("the answer to the push was lost; the branch is at the commit"))
		case transport.LostRace(words), err == nil && at != m.from:
			return j.lost(m)
		}
	}
	return errs.E(errs.Forbidden, "push", j.repo.URL, fmt.Errorf("the server refuses to move branch %s: %s", m.branch, transport.Scrub(j.repo, words)))
}

func (j *job) unpackRefused(words string) error {
	kind := transport.KindOfWords(words)
	if kind == errs.NotFound {
		kind = errs.Unavailable
	}
	return errs.E(kind, "push", j.repo.URL, errors.New("the server refuses the objects: "+transport.Scrub(j.repo, words)))
}
