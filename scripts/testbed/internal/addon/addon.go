// Package addon runs additions to a cluster of a bed: the controllers of one built part.
package addon

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/emco-orchestrator/emco/scripts/testbed/cluster"
	"github.com/emco-orchestrator/emco/scripts/testbed/internal/poll"
	"github.com/emco-orchestrator/emco/scripts/testbed/internal/process"
)

// startTimeout limits the start of an add-on, without the builds before it.
const startTimeout = 5 * time.Minute

// Addon is a built part, and its programs that run against a cluster.
type Addon struct {
	cluster   *cluster.Cluster
	name      string
	dir       string // working folder of the programs
	part      string // folder of the built part
	processes []*process.Process
}

// Start builds the part if the cache lacks it and calls start, which installs and runs the add-on and
// must return when it is ready. The caller stops the add-on before its cluster. When Start fails
// nothing is left running.
func Start(ctx context.Context, c *cluster.Cluster, name string, start func(context.Context, *Addon) error) (*Addon, error) {
	part, err := c.Bed().Part(ctx, name)
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	a := &Addon{cluster: c, name: name, dir: filepath.Join(c.Dir(), name), part: part}
	if err := a.start(ctx, start); err != nil {
		a.Stop()
		return nil, fmt.Errorf("%s of cluster %s: %w", name, c.Name(), err)
	}
	c.Bed().Say(c.Name(), "%s ready in %.1f s", name, time.Since(begin).Seconds())
	return a, nil
}

// Cluster returns the cluster of the add-on.
func (a *Addon) Cluster() *cluster.Cluster { return a.cluster }

// Dir returns the working folder of the programs.
func (a *Addon) Dir() string { return a.dir }

// Part returns the folder of the built part.
func (a *Addon) Part() string { return a.part }

// PIDs returns the process ids by program.
func (a *Addon) PIDs() map[string]int {
	ids := map[string]int{}
	for _, p := range a.processes {
		ids[p.Name()] = p.PID()
	}
	return ids
}

// Check returns nil while all programs run, otherwise the reason of the first end.
func (a *Addon) Check() error { return process.FirstExited(a.processes) }

// Stop ends the programs; the objects in the cluster stay. A second call does nothing.
func (a *Addon) Stop() { process.StopAll(a.processes) }

func (a *Addon) start(ctx context.Context, start func(context.Context, *Addon) error) error {
	if err := os.MkdirAll(filepath.Join(a.dir, "tmp"), 0o700); err != nil {
		return err
	}
	return start(ctx, a)
}

// Define creates custom resource definitions, files of the part, in the cluster, and returns when the
// cluster knows them.
func (a *Addon) Define(ctx context.Context, files ...string) error {
	for _, file := range files {
		path := filepath.Join(a.part, file)
		if _, err := a.cluster.Kubectl(ctx, "apply", "--server-side", "--force-conflicts", "-f", path); err != nil {
			return err
		}
		if err := a.established(ctx, path); err != nil {
			return err
		}
	}
	return nil
}

// established waits until the cluster knows the definitions of a file. kubectl's wait fails on a definition that is so new
// that it has no conditions.
func (a *Addon) established(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return poll.Until(ctx, 200*time.Millisecond, func(ctx context.Context) error {
		_, err := a.cluster.Kubectl(ctx, "wait", "--for=condition=Established", "--timeout=60s", "-f", path)
		return err
	})
}

// Program is a program of an add-on.
type Program struct {
	Name  string // name of its file in the part
	Args  []string
	Env   []string                    // in addition to the variables of all programs: the cluster, and a place for files
	Ready func(context.Context) error // nil when it is ready, otherwise the reason
}

// Run starts a program and waits until it is ready. It removes a program that ended before that, so the
// caller can run it again, with other ports.
func (a *Addon) Run(ctx context.Context, program Program) error {
	p, err := process.Start(process.Spec{
		Name: program.Name, Path: filepath.Join(a.part, program.Name), Dir: a.dir, Args: program.Args, Env: append(a.env(), program.Env...),
	})
	if err != nil {
		return err
	}
	if err := p.Ready(ctx, program.Ready); err != nil {
		p.Stop()
		return err
	}
	a.processes = append(a.processes, p)
	return nil
}

// env names the cluster, for controllers without a flag, and keeps files in the bed.
func (a *Addon) env() []string {
	return []string{"KUBECONFIG=" + a.cluster.Kubeconfig(), "HOME=" + a.dir, "TMPDIR=" + filepath.Join(a.dir, "tmp")}
}
