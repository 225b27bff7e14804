package intake

import (
	"context"
	"maps"

	"github.com/emco-orchestrator/emco/src/git"
)

const (
	historyDepth = 300     // commits that are fetched at once
	maxHistory   = 100_000 // commits of one repository that are remembered
)

// history is what is known of the commits of repositories: their parents.
type history map[git.Repo]map[git.Hash][]git.Hash

// contains says whether commit is ancestor or came after it. A commit that is not known
// is fetched with those before it; one that is further back than that is not found.
func (h *history) contains(ctx context.Context, g git.HistoryReader, r git.Repo, commit, ancestor git.Hash) (bool, error) {
	if commit == ancestor {
		return true, nil
	}
	if *h == nil {
		*h = history{}
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

// reaches walks from a commit to those before it.
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
