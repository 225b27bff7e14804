// Package execplugin is the sync backend "exec": an executable outside of this program
// says which files a target has. It reads one question as JSON from stdin and writes one
// answer as JSON to stdout; docs/backends/exec.md describes both.
//
// Which executables there are is for the operator's configuration to say; a cluster names
// one of them. They run without a shell, without arguments and without environment, and
// are bounded in time, memory and what they may say. What they answer goes through the
// same guard as every backend's plan: they cannot write outside of what a target owns.
package execplugin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/gitops"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
)

// Options are read from the cluster's sync objects.
type Options struct {
	// Plugin is the name of an executable in the operator's configuration.
	Plugin   string          `json:"plugin,omitempty"`
	Timeout  gitops.Duration `json:"timeOut,omitempty"`       // passed to the executable; default 60 s
	Interval gitops.Duration `json:"syncInterval,omitempty"`  // passed to the executable; default 60 s
	Retry    gitops.Duration `json:"retryInterval,omitempty"` // passed to the executable; default 60 s
	// Rest are all other keys; EMCO passes them to the executable.
	Rest map[string]string `json:"*,omitempty"`
}

// Limits bound one run of an executable.
type Limits struct {
	Time     time.Duration // from its start to its answer
	Memory   uint64        // bytes of data that it may have
	Output   int64         // bytes of an answer
	Parallel int           // runs at a time; others wait
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

// Find makes Programs of entries "name=/path", as the configuration has them. It is an
// error if a path is not that of an executable file, since nobody would notice before a
// cluster needs it.
func Find(entries []string, l Limits) (*Programs, error) {
	p := &Programs{paths: map[string]string{}, limits: l, slots: make(chan struct{}, max(1, l.Parallel))}
	for _, e := range entries {
		name, path, split := strings.Cut(e, "=")
		switch {
		case !split || name == "" || strings.ContainsAny(name, " /\\"):
			return nil, fmt.Errorf("%q is not of the form name=/path", e)
		case !filepath.IsAbs(path):
			return nil, fmt.Errorf("%s: %s is no absolute path", name, path)
		case p.paths[name] != "":
			return nil, fmt.Errorf("%s is given twice", name)
		}
		if err := executable(path); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		p.paths[name] = path
	}
	return p, nil
}

func executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0:
		return fmt.Errorf("%s is no executable file", path)
	}
	return nil
}

// Names returns the names of the executables, sorted; none for nil.
func (p *Programs) Names() []string {
	if p == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(p.paths))
}

// New returns the backend. The executable is asked at once which files beside a
// deployment's folder it writes, and whether it takes the options.
func (p *Programs) New(o Options) (syncer.Backend, error) {
	path, known := p.paths[o.Plugin]
	if !known {
		return nil, errs.E(errs.Invalid, "open", "sync backend exec",
			fmt.Errorf("key plugin must name one of the executables that the operator has configured: %s", strings.Join(p.Names(), ", ")))
	}
	r := runner{name: o.Plugin, path: path, limits: p.limits, slots: p.slots, options: handed(o)}
	a, err := r.ask(context.Background(), request{Ask: askDescribe})
	if err != nil {
		return nil, err
	}
	for _, prefix := range a.Pointers {
		if strings.ContainsAny(prefix, "/\\") || len(prefix) > maxPrefix {
			return nil, r.broken(fmt.Errorf("pointer prefix %q is no part of a file name", prefix))
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

// handed returns what of the options the executable gets to see.
func handed(o Options) map[string]string {
	out := map[string]string{
		"timeOut":       o.Timeout.Or(gitops.DefaultInterval).String(),
		"syncInterval":  o.Interval.Or(gitops.DefaultInterval).String(),
		"retryInterval": o.Retry.Or(gitops.DefaultInterval).String(),
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

// Pointers returns the files that the executable has announced.
func (p pointerBackend) Pointers(t syncer.Target) []string {
	var out []string
	for _, prefix := range p.prefixes {
		out = append(out, t.Pointer(prefix))
	}
	return out
}

// Plan asks the executable. That it does not answer as it should is Unavailable: it may
// do so later, or when the operator has mended it.
func (b backend) Plan(t syncer.Target, apps []syncer.App) (syncer.Change, error) {
	q, err := b.question(t, apps)
	if err != nil {
		return syncer.Change{}, err
	}
	a, err := b.runner.ask(context.Background(), q)
	if err != nil {
		return syncer.Change{}, err
	}
	change, err := a.change()
	if err != nil {
		return syncer.Change{}, b.runner.broken(err)
	}
	return change, nil
}

// broken is an error about an executable that did not do its part.
func (r runner) broken(err error) error {
	return errs.E(errs.Unavailable, "run", "sync plugin "+r.name, errors.New(r.scrub(err.Error())))
}
