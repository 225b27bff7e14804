// Package all knows every sync backend of this program.
package all

import (
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/flux"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/plaingit"
)

// Backends returns a fresh registry; adding a backend is adding a line here.
func Backends() *syncer.Registry {
	r := syncer.NewRegistry()
	syncer.Register(r, "fluxcd", flux.New, syncer.Options{
		"syncInterval": "30", "retryInterval": "15s", "timeOut": "2m", "secretRef": "emco-git", "serviceAccountName": "tenant",
	})
	syncer.Register(r, "git", plaingit.New, syncer.Options{"syncInterval": "30"})
	return r
}
