package isolated

import (
	"sync"

	"github.com/emco-orchestrator/emco/src/emco/internal/fairshare"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
)

// generationSize bounds the packages of one generation of slowPackages.
const generationSize = 2048

// slowPackages remembers which packages took long, whatever their values were. It keeps those
// used since the last generation but one.
type slowPackages struct {
	mu         sync.Mutex
	young, old map[packageKey]fairshare.Rank // guarded by mu
}

// packageKey is a package of a project, with its profile.
type packageKey struct {
	project       string
	chart, values manifest.Digest
}

func packageOf(req render.Request) packageKey {
	return packageKey{project: req.Project, chart: req.Package.Digest, values: req.Profile.Digest}
}

// rank returns the rank of a package; Fresh if nothing is known.
func (s *slowPackages) rank(k packageKey) fairshare.Rank {
	s.mu.Lock()
	defer s.mu.Unlock()
	rank, ok := s.young[k]
	if !ok {
		if rank, ok = s.old[k]; ok {
			s.addLocked(k, rank)
		}
	}
	return rank
}

// remember sets the rank of a package.
func (s *slowPackages) remember(k packageKey, rank fairshare.Rank) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addLocked(k, rank)
}

func (s *slowPackages) addLocked(k packageKey, rank fairshare.Rank) {
	if s.young == nil || len(s.young) >= generationSize {
		s.old, s.young = s.young, map[packageKey]fairshare.Rank{}
	}
	s.young[k] = rank
}
