// Package calibrate measures the current speed of the machine at the basic work of a Git writer: making
// bytes durable, hashing and compressing them, and pushing.
package calibrate

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/plain"

	"github.com/emco-orchestrator/emco/scripts/bench/figures"
	"github.com/emco-orchestrator/emco/scripts/bench/site"
	"github.com/emco-orchestrator/emco/scripts/bench/world"
)

const (
	syncs  = 64
	pushes = 7
	hashed = 8 << 20
)

// Measure fills in a calibration. dir is on the file system of the benchmark.
func Measure(ctx context.Context, dir string) (c figures.Calibration, err error) {
	if c.FsyncMS, err = fsync(dir); err != nil {
		return c, err
	}
	if c.HashMBs, err = hash(); err != nil {
		return c, err
	}
	c.PushMS, err = push(ctx, filepath.Join(dir, "calibrate"))
	return c, err
}

func fsync(dir string) (float64, error) {
	f, err := os.CreateTemp(dir, "fsync")
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	block := bytes.Repeat([]byte("x"), 4096)
	return medianMillis(syncs, func(int) error {
		_, err := f.Write(block)
		return errors.Join(err, f.Sync())
	})
}

// hash returns megabytes per second, in pieces of a manifest's size.
func hash() (float64, error) {
	text := world.Manifest(world.Text{App: "calibration", Bytes: hashed})
	var out bytes.Buffer
	w, err := zlib.NewWriterLevel(&out, zlib.BestSpeed)
	began := time.Now()
	for part := range slices.Chunk(text, 1024) {
		if err != nil {
			break
		}
		sha1.Sum(part)
		out.Reset()
		w.Reset(&out)
		_, err = w.Write(part)
		err = errors.Join(err, w.Close())
	}
	return float64(len(text)) / 1e6 / time.Since(began).Seconds(), err
}

// push returns the duration of a commit of one small file.
func push(ctx context.Context, dir string) (millis float64, err error) {
	s, err := site.Open(ctx, dir)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	host := plain.New(plain.Options{})
	defer host.Close()
	head, err := host.Head(ctx, s.Repo(), site.Branch)
	if err != nil {
		return 0, err
	}
	return medianMillis(pushes, func(i int) error {
		edit := []git.Edit{{Path: "file", File: fmt.Append(nil, i)}}
		head, err = host.Commit(ctx, s.Repo(), site.Branch, head, edit, git.Message{Title: "calibrate"})
		return err
	})
}

func medianMillis(n int, do func(int) error) (float64, error) {
	var all []float64
	for i := range n {
		began := time.Now()
		if err := do(i); err != nil {
			return 0, err
		}
		all = append(all, time.Since(began).Seconds()*1000)
	}
	return figures.Median(all), nil
}
