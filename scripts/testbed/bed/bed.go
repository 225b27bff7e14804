// Package bed contains the common parts of a test's clusters: a folder, the built programs and one
// etcd.
package bed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/scripts/testbed/build"
	"github.com/emco-orchestrator/emco/scripts/testbed/internal/port"
	"github.com/emco-orchestrator/emco/scripts/testbed/internal/probe"
	"github.com/emco-orchestrator/emco/scripts/testbed/internal/process"
)

// startTimeout limits the start of etcd.
const startTimeout = 3 * time.Minute

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
	etcd     *process.Process
	etcdURL  string
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
		b.etcd.Stop()
	}
}

// Dir returns the folder of the bed, an absolute path.
func (b *Bed) Dir() string { return b.dir }

// EtcdURL returns the client URL of etcd. Clusters use the prefix /clusters/; other prefixes are free
// for the test.
func (b *Bed) EtcdURL() string { return b.etcdURL }

// EtcdPID returns the process id of etcd.
func (b *Bed) EtcdPID() int { return b.etcd.PID() }

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

func (b *Bed) start(ctx context.Context) error {
	part, err := b.Part(ctx, "etcd")
	if err != nil {
		return err
	}
	begin := time.Now()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := process.Retry(func() error { return b.startEtcd(ctx, part) }); err != nil {
		return err
	}
	b.Say("etcd", "ready at %s in %.1f s", b.etcdURL, time.Since(begin).Seconds())
	return nil
}

func (b *Bed) startEtcd(ctx context.Context, part string) error {
	ports, err := port.Pick(2)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(dataDir(b.dir)); err != nil {
		return err
	}
	client, peer := "http://"+port.Address(ports[0]), "http://"+port.Address(ports[1])
	p, err := process.Start(process.Spec{
		Name: "etcd", Path: filepath.Join(part, "etcd"), Dir: b.dir, Args: etcdArgs(b.dir, client, peer),
	})
	if err != nil {
		return err
	}
	if err := p.Ready(ctx, func(ctx context.Context) error { return probe.HTTP(ctx, client+"/health", http.StatusOK) }); err != nil {
		p.Stop()
		return err
	}
	b.etcd, b.etcdURL = p, client
	return nil
}

func etcdArgs(dir, client, peer string) []string {
	return []string{
		"--name=bed", "--data-dir=" + dataDir(dir), "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=bed=" + peer,
	}
}

func dataDir(dir string) string { return filepath.Join(dir, "etcd-data") }

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
