// Package execplugin is the sync backend "exec": an executable outside of this program
// plans the files of a target. It reads one request as JSON from stdin and writes one
// response as JSON to stdout; docs/backends/exec.md describes both.
//
// The operator configures the executables; a cluster names one of them. They run without a
// shell, arguments or environment, with limits on time, memory and output. Their plans pass
// the same guard as those of every backend: they cannot write outside of what a target
// owns.
package execplugin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/childproc"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncobjects"
)

// Options are read from the cluster's sync objects.
type Options struct {
	// Plugin is the name of an executable in the operator's configuration.
	Plugin   string               `json:"plugin,omitempty"`
	Timeout  syncobjects.Duration `json:"timeOut,omitempty"`       // passed to the executable; default 60 s
	Interval syncobjects.Duration `json:"syncInterval,omitempty"`  // passed to the executable; default 60 s
	Retry    syncobjects.Duration `json:"retryInterval,omitempty"` // passed to the executable; default 60 s
	// Rest are all other keys; EMCO passes them to the executable.
	Rest map[string]string `json:"*,omitempty"`
}

// Limits bound one run of an executable.
type Limits struct {
	Time     time.Duration // from its start to its answer
	Memory   uint64        // bytes of data that it may have
	Output   int64         // bytes of an answer
	Parallel int           // concurrent runs; others wait
}

// DefaultLimits fit deployments with hundreds of objects.
func DefaultLimits() Limits {
	return Limits{Time: 10 * time.Second, Memory: 256 << 20, Output: 32 << 20, Parallel: runtime.GOMAXPROCS(0)}
}

// Programs are the executables that clusters may name.
type Programs struct {
	paths  map[string]string
	limits Limits
	slots  chan struct{}
}

// Find returns the Programs of the configuration's entries "name=/path". A path that is not
// an executable file is an error, so that it is noticed before a cluster needs it.
func Find(entries []string, l Limits) (*Programs, error) {
	paths, err := childproc.FindPrograms(entries)
	if err != nil {
		return nil, err
	}
	return &Programs{paths: paths, limits: l, slots: make(chan struct{}, max(1, l.Parallel))}, nil
}

// Names returns the names of the executables, sorted; none for nil.
func (p *Programs) Names() []string {
	if p == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(p.paths))
}

// New returns the backend. It runs the executable once, which lists its pointer files and
// validates the options.
func (p *Programs) New(o Options) (syncer.Backend, error) {
	path, known := p.paths[o.Plugin]
	if !known {
		return nil, errs.E(errs.Invalid, "open", "sync backend exec",
			fmt.Errorf("key plugin must name one of the executables that the operator has configured: %s", strings.Join(p.Names(), ", ")))
	}
	r := runner{name: o.Plugin, path: path, limits: p.limits, slots: p.slots, options: passedOptions(o)}
	a, err := r.call(context.Background(), request{Kind: requestDescribe})
	if err != nil {
		return nil, err
	}
	for _, prefix := range a.Pointers {
		if strings.ContainsAny(prefix, "/\\") || len(prefix) > maxPrefix {
			return nil, r.broken(fmt.Errorf("pointer prefix %q cannot be part of a file name", prefix))
		}
	}
	b := backend{runner: r, writer: syncer.NewWriter(syncer.Keep())}
	if len(a.Pointers) == 0 {
		return b, nil
	}
	slices.Sort(a.Pointers)
	return pointerBackend{b, slices.Compact(a.Pointers)}, nil
}

// maxPrefix bounds the prefix of a pointer file, in bytes.
const maxPrefix = 100

// passedOptions returns the options that the executable receives.
func passedOptions(o Options) map[string]string {
	out := map[string]string{
		"timeOut":       o.Timeout.Or(syncobjects.DefaultInterval).String(),
		"syncInterval":  o.Interval.Or(syncobjects.DefaultInterval).String(),
		"retryInterval": o.Retry.Or(syncobjects.DefaultInterval).String(),
	}
	maps.Copy(out, o.Rest)
	return out
}

type backend struct {
	runner runner
	writer *syncer.Writer
}

// pointerBackend is a backend whose executable writes pointer files.
type pointerBackend struct {
	backend
	prefixes []string
}

// Pointers returns the pointer files that the executable listed.
func (p pointerBackend) Pointers(t syncer.Target) []string {
	var out []string
	for _, prefix := range p.prefixes {
		out = append(out, t.Pointer(prefix))
	}
	return out
}

// Plan runs the executable. A wrong response is Unavailable: the executable may respond
// correctly later, or after a repair by the operator.
func (b backend) Plan(t syncer.Target, apps []syncer.App) (syncer.Change, error) {
	q, err := b.planRequest(t, apps)
	if err != nil {
		return syncer.Change{}, err
	}
	a, err := b.runner.call(context.Background(), q)
	if err != nil {
		return syncer.Change{}, err
	}
	change, err := a.change()
	if err != nil {
		return syncer.Change{}, b.runner.broken(err)
	}
	return change, nil
}

// broken returns the error of an executable without a valid response.
func (r runner) broken(err error) error {
	return errs.E(errs.Unavailable, "run", "sync plugin "+r.name, errors.New(r.scrub(err.Error())))
}
