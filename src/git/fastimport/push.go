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
const maxReport = 8 << 20

// move is how a branch shall change: from where it is now, empty if it must not exist, to a
// commit that is here, empty if it is to be removed.
type move struct {
	branch   string
	from, to git.Hash
	dir      string // that a view shows; empty for other branches
}

func (m move) ref() string { return heads + m.branch }

// guard is asked right before branches are moved; nil: nobody is.
type guard func(context.Context) error

// errNotAtomic says that the server cannot move several branches or none.
var errNotAtomic = errors.New("the server does not move branches all or nothing")

// pushWith moves a branch and its views at once, or the branch before where the server cannot
// do that.
func (j *job) pushWith(own move, views []move, g guard) error {
	err := j.push(append([]move{own}, views...), g, atomic(len(views))...)
	if !errors.Is(err, errNotAtomic) {
		return err
	}
	if err := j.push([]move{own}, g); err != nil {
		return err
	}
	return j.push(views, g)
}

// atomic is how a branch and its views are pushed.
func atomic(views int) []string {
	if views == 0 {
		return nil
	}
	return []string{"--atomic"}
}

// push moves branches, each if it is where it was. The condition is the old commit itself
// (--force-with-lease with its name), which is stricter than what a push refuses by itself:
// the branch must neither have grown nor have been taken back. What is pushed by Commit is on
// top of that, so nothing is ever lost by it.
func (j *job) push(moves []move, g guard, how ...string) error {
	if g != nil {
		if err := g(j.ctx); err != nil {
			return asIs{err}
		}
	}
	args := append([]string{"push", "--porcelain", "--no-verify", "--no-follow-tags", "--recurse-submodules=no"}, how...)
	for _, m := range moves {
		args = append(args, "--force-with-lease="+m.ref()+":"+string(m.from))
	}
	args = append(args, "origin")
	for _, m := range moves {
		args = append(args, string(m.to)+":"+m.ref())
	}
	out, err := j.remote(run{args: args, most: maxReport})
	if err = j.judge(moves, report(out), err); err != nil {
		return err
	}
	for _, m := range moves {
		if m.dir == "" && m.to != "" {
			j.cache.known[m.to] = true
		}
	}
	return nil
}

// judge says what became of a push.
func (j *job) judge(moves []move, told map[string]verdict, err error) error {
	failed, ok := errors.AsType[*programError](err)
	switch m, v := refused(moves, told); {
	case errs.RetryAfter(err) > 0, errs.Is(err, errs.TooLarge):
		return err // the answer says more than what the program makes of it
	case ok && strings.Contains(failed.said, "does not support --atomic"):
		return errNotAtomic
	case v.flag == "!":
		return j.refused(m, v.summary, err)
	case err != nil:
		return err
	case v.flag == "=":
		return j.lost(m) // somebody else has made the very same commit
	case v.flag == "":
		return errs.E(errs.Unavailable, "", "", errors.New("the git program does not say what became of the push"))
	}
	return nil
}

// verdict is what became of a reference: "!" is a refusal, "=" nothing, "" is not told.
type verdict struct{ flag, summary string }

// report reads what git push --porcelain writes, by reference.
func report(out []byte) map[string]verdict {
	told := map[string]verdict{}
	for line := range strings.Lines(string(out)) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 3)
		if len(fields) != 3 {
			continue
		}
		if _, ref, ok := strings.Cut(fields[1], ":"); ok {
			told[ref] = verdict{fields[0], fields[2]}
		}
	}
	return told
}

// refused returns the move that was refused, rather than left undone because of another one;
// if there is none, one of which nothing good is told, or the first.
func refused(moves []move, told map[string]verdict) (move, verdict) {
	worst, at := 0, moves[0]
	for _, m := range moves {
		if n := badness(told[m.ref()]); n > worst {
			worst, at = n, m
		}
	}
	return at, told[at.ref()]
}

func badness(v verdict) int {
	switch {
	case v.flag == "!" && !strings.Contains(v.summary, "atomic push fail"):
		return 4
	case v.flag == "!":
		return 3
	case v.flag == "":
		return 2
	case v.flag == "=":
		return 1
	}
	return 0
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
	case !transport.HookDeclined(words):
		at, err := j.head(m.branch)
		switch {
		case err == nil && at == m.to: // the program has sent it again when it got no answer
			return errs.E(errs.Unavailable, "push", j.repo.URL, errors.New("the answer to the push was lost; the branch is at the commit"))
		case transport.LostRace(words), err == nil && at != m.from:
			return j.lost(m)
		}
	}
	cause := fmt.Errorf("the server refuses to move branch %s: %s", m.branch, transport.Redact(j.repo, words))
	if m.dir != "" {
		cause = &git.PathError{Path: m.dir, Err: cause}
	}
	return errs.E(errs.Forbidden, "push", j.repo.URL, cause)
}

func (j *job) unpackRefused(words string) error {
	kind := transport.KindOfMessage(words)
	if kind == errs.NotFound {
		kind = errs.Unavailable
	}
	return errs.E(kind, "push", j.repo.URL, errors.New("the server refuses the objects: "+transport.Redact(j.repo, words)))
}
