// Package demo shows the whole loop on one machine within a minute. It starts emco with embedded stores,
// a Git server on loopback, and three simulated clusters that pull from it and report. It deploys a
// composite app of two charts until all is Ready, plans and makes a change, breaks one app and repairs it,
// rolls back, and removes everything. It checks each result that it shows.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// Options say what a demonstration does.
type Options struct {
	Self string    // the program of simfleet
	Bin  string    // folder with emco and emcoctl; empty: that of Self, else the PATH
	Data string    // folder for everything, which must be new or empty, and stays; empty: a temporary folder
	Keep bool      // stop before the removal, print commands to try, and leave everything running until ctx ends
	Out  io.Writer // what happens, and what its programs report
}

// limit is the time limit of the demonstration. It ends hangs; a normal run takes a third of it.
const limit = 3 * time.Minute

// Run shows the demonstration. When it returns, all programs that it started have ended. It also ends when the
// terminal closes, or nobody reads the output any longer.
func Run(ctx context.Context, o Options) (err error) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP, syscall.SIGPIPE)
	defer stop()
	found, err := findPrograms(o)
	if err != nil {
		return err
	}
	dir, remove, err := folder(o.Data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	s, err := newStage(ctx, o, dir, found)
	if err != nil {
		return asked(ctx, err)
	}
	defer func() { err = errors.Join(err, s.close()) }()
	play, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the demonstration takes longer than %s", limit))
	defer cancel()
	if err := s.play(play, o.Keep); err != nil {
		return asked(ctx, errors.Join(err, context.Cause(play)))
	}
	if !o.Keep {
		s.farewell(o.Data != "")
		return nil
	}
	s.invite(o.Data != "")
	<-ctx.Done()
	return nil
}

// errAsked is the error of a demonstration that a signal ended.
var errAsked = errors.New("a signal ended the demonstration; its programs have ended too")

// asked is err, or errAsked if ctx has ended: what fails then fails for that reason.
func asked(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errAsked
	}
	return err
}

// folder returns the absolute path of the folder for everything, and a function that removes a temporary one.
func folder(data string) (dir string, remove func() error, err error) {
	if data == "" {
		dir, err = os.MkdirTemp("", "emco-demo-")
		return dir, func() error { return os.RemoveAll(dir) }, err
	}
	if dir, err = filepath.Abs(data); err != nil {
		return "", nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", nil, fmt.Errorf("-data: %w", err)
	}
	there, err := os.ReadDir(dir)
	if err != nil {
		return "", nil, fmt.Errorf("-data: %w", err)
	}
	if len(there) > 0 {
		return "", nil, fmt.Errorf("-data: the folder %s is not empty: it contains %s; name a folder that is new or empty", dir, there[0].Name())
	}
	return dir, func() error { return nil }, nil
}
