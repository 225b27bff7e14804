// Package all lists the Git hosts. Only composition roots and tests import it.
package all

import (
	"log/slog"
	"time"

	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/plain"
)

// Options are what all hosts have in common.
type Options struct {
	AllowFile bool          // bare repositories of this machine, for tests and demos
	Timeout   time.Duration // for one call; the host's own when zero
	Log       *slog.Logger
}

// Hosts returns a fresh set of hosts by name; adding a host is adding a line here.
// "git" is the one for every gitType that no other line names.
func Hosts(o Options) map[string]git.Host {
	return map[string]git.Host{
		"git": plain.New(plain.Options{AllowFile: o.AllowFile, Timeout: o.Timeout, Log: o.Log}),
	}
}
