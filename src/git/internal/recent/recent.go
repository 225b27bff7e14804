// Package recent is a cache with a value for each repository and credential. It drops those that were not used for longest.
package recent

import (
	"sync"

	"github.com/emco-orchestrator/emco/src/git"
)

// Values holds one value for each repository, up to a limit. It allows concurrent use.
type Values[V any] struct {
	limit int
	make  func() V

	mu    sync.Mutex
	repos map[git.Repo]*entry[V] // guarded by mu; credentials are part of the key, so that each reads by its own right
	clock uint64                 // order of use; guarded by mu
}

type entry[V any] struct {
	value V
	used  uint64 // guarded by Values.mu
}

// New returns values for at most limit repositories, which makeValue makes.
func New[V any](limit int, makeValue func() V) *Values[V] {
	return &Values[V]{limit: limit, make: makeValue, repos: map[git.Repo]*entry[V]{}}
}

// Get returns the value of a repository. A new one may replace the least recently used.
func (v *Values[V]) Get(r git.Repo) V {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.clock++
	e, ok := v.repos[r]
	if !ok {
		v.makeRoomLocked()
		e = &entry[V]{value: v.make()}
		v.repos[r] = e
	}
	e.used = v.clock
	return e.value
}

func (v *Values[V]) makeRoomLocked() {
	for len(v.repos) >= v.limit {
		var oldest git.Repo
		least := ^uint64(0)
		for r, e := range v.repos {
			if e.used < least {
				oldest, least = r, e.used
			}
		}
		delete(v.repos, oldest)
	}
}
