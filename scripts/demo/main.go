// Command demo shows the whole loop on one machine within a minute: it starts emco with embedded stores
// and a Git server on loopback, registers three Git clusters, deploys a composite app of two charts,
// shows the result, and removes everything.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// limit is the time limit of the demonstration.
const limit = 2 * time.Minute

func main() {
	bin := flag.String("bin", "../../bin", "folder with emco and emcoctl")
	examples := flag.String("examples", "../../examples", "folder with the examples")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := run(ctx, *bin, *examples); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, bin, examples string) (err error) {
	dir, err := os.MkdirTemp("", "emco-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := newStage(ctx, dir, bin, examples)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	return s.play(ctx)
}

// play runs the demonstration.
func (s *demoStage) play(ctx context.Context) error {
	clusters, app, deployment := s.file("00-clusters.yaml"), s.file("01-app.yaml"), s.file("02-deployment.yaml")
	all := []string{"-f", clusters, "-f", app, "-f", deployment}
	steps := []struct {
		title string
		do    func(context.Context) error
	}{
		{"Register a provider with three clusters that pull from Git", s.ctl("apply", "-f", clusters)},
		{"Onboard a composite app of two charts", s.ctl("apply", "-f", app)},
		{"Select clusters for each app, and instantiate", s.ctl("apply", "-f", deployment)},
		{"Wait until it is deployed", s.wait("instantiated")},
		{"Placements of the apps", s.plain("status", group)},
		{"The Git tree that the clusters pull", s.tree},
		{"The Git log", s.log},
		{"A second apply changes nothing", s.again(all...)},
		{"Terminate", s.plain("apply", group+"/terminate", "-o", "human")},
		{"Wait until it is removed", s.wait("terminated")},
		{"The Git tree is empty again: only the foreign README is left", s.empty},
	}
	for i, step := range steps {
		fmt.Printf("\n── %d. %s ──\n", i+1, step.title)
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.title, err)
		}
	}
	fmt.Printf("\nDone in %.1f s. Everything ran on 127.0.0.1 and is removed.\n", time.Since(s.began).Seconds())
	return nil
}

func (s *demoStage) file(name string) string {
	return filepath.Join(s.examples, "01-git-fleet", name)
}
