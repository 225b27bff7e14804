package intake

import (
	"context"
	"maps"

	"github.com/emco-orchestrator/emco/src/git"
)

const (
	historyDepth = 300     // commits in one fetch
	maxHistory   = 100_000 // commits of one repository in memory
)

// commitHistory caches the parents of commits, by repository.
type commitHistory map[git.Repo]map[git.Hash][]git.Hash

// contains reports whether commit is ancestor or a descendant of it. It fetches unknown
// commits with up to historyDepth ancestors; it does not find an ancestor further back.
func (h *commitHistory) contains(ctx context.Context, g git.HistoryReader, r git.Repo, commit, ancestor git.Hash) (bool, error) {
	if commit == ancestor {
		return true, nil
	}
	if *h == nil {
		*h = commitHistory{}
	}
	known := (*h)[r]
	if _, ok := known[commit]; !ok {
		more, err := g.History(ctx, r, commit, historyDepth)
		if err != nil {
			return false, err
		}
		if known == nil || len(known)+len(more) > maxHistory {
			known = map[git.Hash][]git.Hash{}
			(*h)[r] = known
		}
		maps.Copy(known, more)
	}
	return reaches(known, commit, ancestor), nil
}

// reaches walks the parents of a commit until it finds ancestor.
func reaches(parents map[git.Hash][]git.Hash, commit, ancestor git.Hash) bool {
	seen := map[git.Hash]bool{commit: true}
	for todo := []git.Hash{commit}; len(todo) > 0; {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, p := range parents[at] {
			if p == ancestor {
				return true
			}
			if !seen[p] {
				seen[p] = true
				todo = append(todo, p)
			}
		}
	}
	return false
}
