package fastimport

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/tree"
)

// How many commits back are fetched: more, if that does not lead to where the log begins.
var depths = []int{100, 1000, 5000}

// Since returns what was committed since base. The commits are fetched into a repository of
// their own, which is thrown away: what is kept of repositories has no past.
func (h *Host) Since(ctx context.Context, r git.Repo, commit, base git.Hash) (git.Log, error) {
	_, err := tree.ParseID(commit)
	if err == nil && base != "" {
		_, err = tree.ParseID(base)
	}
	if err != nil || commit == base {
		return git.Log{Grown: true}, err
	}
	j, done, err := h.begin(ctx, r, "log")
	if err != nil {
		return git.Log{}, err
	}
	defer done()
	j.cache = &cache{} // not the one that is kept
	defer j.cache.drop()
	log, err := j.since(commit, base)
	return log, j.fail(err)
}

func (j *job) since(commit, base git.Hash) (git.Log, error) {
	if err := j.ready(); err != nil {
		return git.Log{}, err
	}
	for _, depth := range depths {
		what := string(commit)
		_, err := j.remote(run{args: fetching(fmt.Sprintf("--depth=%d", depth), "--filter=tree:0", what), file: j.h.opt.MaxDisk})
		if errs.Is(err, errs.NotFound) {
			what = "+refs/heads/*:refs/emco/heads/*"
			_, err = j.remote(run{args: fetching(fmt.Sprintf("--depth=%d", depth), "--filter=tree:0", what), file: j.h.opt.MaxDisk})
		}
		if err != nil {
			return git.Log{}, err
		}
		found, err := j.commits(commit, base)
		if err != nil {
			return git.Log{}, err
		}
		if base == "" || j.holds(base) || j.whole() {
			return git.NewLog(commit, base, found), nil
		}
	}
	return git.Log{}, errs.E(errs.TooLarge, "", "", errors.New("too many commits to tell"))
}

// holds says whether a commit is here.
func (j *job) holds(commit git.Hash) bool {
	_, err := j.local(run{args: []string{"rev-list", "--no-walk", "--quiet", string(commit)}})
	return err == nil
}

// whole says whether all of the past is here.
func (j *job) whole() bool {
	cut, err := os.ReadFile(filepath.Join(j.cache.dir, "shallow"))
	return errors.Is(err, os.ErrNotExist) || err == nil && len(strings.TrimSpace(string(cut))) == 0
}

// commits reads those that are here, and that base has not in its history.
func (j *job) commits(commit, base git.Hash) (map[git.Hash]git.Commit, error) {
	args := []string{"rev-list", string(commit)}
	if base != "" && j.holds(base) {
		args = append(args, "^"+string(base))
	}
	out, err := j.local(run{args: args, most: maxListing})
	if err != nil {
		return nil, errs.E(errs.NotFound, "", "", errors.New("not a commit"))
	}
	b, err := j.batch()
	if err != nil {
		return nil, err
	}
	defer b.close()
	found := map[git.Hash]git.Commit{}
	for _, line := range slices.Sorted(strings.Lines(string(out))) {
		id, err := tree.ParseID(git.Hash(strings.TrimSuffix(line, "\n")))
		if err != nil {
			return nil, err
		}
		raw, err := b.read(id, "commit") // as it is: what git lists has no parents where the past is cut
		if err != nil {
			return nil, err
		}
		found[id.Hash()] = git.ReadCommit(id.Hash(), raw)
	}
	return found, nil
}
