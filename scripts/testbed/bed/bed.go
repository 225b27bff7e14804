// Package bed contains the common parts of a test's clusters: a folder, the built programs and one
// etcd.
package bed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/scripts/testbed/build"
	"github.com/emco-orchestrator/emco/scripts/testbed/etcd"
)

// Options place a bed.
type Options struct {
	// Dir contains all files of the bed: logs, keys, kubeconfigs, the store. Open creates it if it is
	// missing, and Close does not remove it. Open drops the store of an earlier run.
	Dir string
	// Progress receives one line per step; nil drops them.
	Progress io.Writer
}

// Bed is a running etcd and the folder around it.
type Bed struct {
	dir      string
	progress io.Writer
	builder  *build.Builder
	etcd     *etcd.Cluster // one member
}

// Open builds etcd if necessary, starts it and waits until it is healthy. The caller closes the bed,
// after stopping its clusters.
func Open(ctx context.Context, o Options) (*Bed, error) {
	if o.Dir == "" {
		return nil, errors.New("a bed needs a folder: set Dir")
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	progress := &lineWriter{to: o.Progress}
	builder, err := build.New(progress)
	if err != nil {
		return nil, err
	}
	b := &Bed{dir: dir, progress: progress, builder: builder}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := b.start(ctx); err != nil {
		return nil, err
	}
	return b, nil
}

// Close stops etcd. A second call does nothing.
func (b *Bed) Close() {
	if b.etcd != nil {
		b.etcd.Close()
	}
}

// Dir returns the folder of the bed, an absolute path.
func (b *Bed) Dir() string { return b.dir }

// EtcdURL returns the client URL of etcd. Clusters use the prefix /clusters/; other prefixes are free
// for the test.
func (b *Bed) EtcdURL() string { return b.etcd.Endpoints()[0] }

// EtcdPID returns the process id of etcd.
func (b *Bed) EtcdPID() int { return b.etcd.PIDs()[0] }

// Check returns nil while etcd runs, otherwise the reason of its end.
func (b *Bed) Check() error { return b.etcd.Exited() }

// Part returns the folder of a built part and builds it if necessary.
func (b *Bed) Part(ctx context.Context, name string) (string, error) {
	return b.builder.Build(ctx, name)
}

// Say writes a progress line about a subject.
func (b *Bed) Say(subject, format string, args ...any) {
	fmt.Fprintf(b.progress, "testbed: %s: %s\n", subject, fmt.Sprintf(format, args...))
}

func (b *Bed) start(ctx context.Context) (err error) {
	if _, err = b.Part(ctx, "etcd"); err != nil { // before the time is taken
		return err
	}
	begin := time.Now()
	if b.etcd, err = etcd.Start(ctx, b.builder, etcd.Options{Dir: b.dir, Members: 1, WithoutFsync: true}); err != nil {
		return err
	}
	b.Say("etcd", "ready at %s in %.1f s", b.EtcdURL(), time.Since(begin).Seconds())
	return nil
}

// lineWriter lets several goroutines write whole lines.
type lineWriter struct {
	mu sync.Mutex
	to io.Writer
}

func (l *lineWriter) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to.Write(line)
}
