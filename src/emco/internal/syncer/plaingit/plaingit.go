// Package plaingit is the sync backend "git": it writes the files of a target and nothing
// else, for a reconciler that is configured elsewhere.
package plaingit

import (
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncobjects"
	"github.com/emco-orchestrator/emco/src/git"
)

// Options are the timings that every sync object may hold. This backend does not use them,
// but reports mistakes in them.
type Options struct {
	Timeout  syncobjects.Duration `json:"timeOut,omitempty"`       // validated, but not used
	Interval syncobjects.Duration `json:"syncInterval,omitempty"`  // validated, but not used
	Retry    syncobjects.Duration `json:"retryInterval,omitempty"` // validated, but not used
}

// New returns the backend.
func New(Options) (syncer.Backend, error) {
	return backend{syncer.NewWriter(syncer.Keep())}, nil
}

type backend struct{ writer *syncer.Writer }

// Plan makes the target's directory hold the files of the apps.
func (b backend) Plan(t syncer.Target, apps []syncer.App) (syncer.Change, error) {
	files, err := b.writer.Tree(apps)
	if err != nil {
		return syncer.Change{}, err
	}
	return syncer.Change{Edits: []git.Edit{syncer.EditDir(t.Dir(), files)}}, nil
}
