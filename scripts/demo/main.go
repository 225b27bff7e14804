// Command demo shows the whole loop on one machine within a minute. It starts emco with embedded stores,
// a Git server on loopback, and three simulated clusters that pull from it and report. It deploys a
// composite app of two charts until all is Ready, plans and makes a change, breaks one app and repairs it,
// rolls back, and removes everything. It checks each result that it shows. With -keep it stops before
// the removal and leaves everything running.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// limit is the time limit of the demonstration. It ends hangs; a normal run takes a third of it.
const limit = 3 * time.Minute

func main() {
	bin := flag.String("bin", "../../bin", "folder with emco, emcoctl and simfleet")
	examples := flag.String("examples", "../../examples", "folder with the examples")
	keep := flag.Bool("keep", false, "leave everything running until Ctrl-C, and print commands to try")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *bin, *examples, *keep); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, bin, examples string, keep bool) (err error) {
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
	play, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := s.play(play, keep); err != nil {
		return err
	}
	if !keep {
		fmt.Printf("\nDone in %.1f s. Everything ran on 127.0.0.1 and is removed.\n", time.Since(s.began).Seconds())
		return nil
	}
	s.invite()
	<-ctx.Done()
	return nil
}
