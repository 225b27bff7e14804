package peers

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/src/api/client"

	"github.com/emco-orchestrator/emco/scripts/e2e/fleet"
	"github.com/emco-orchestrator/emco/scripts/e2e/program"
	"github.com/emco-orchestrator/emco/scripts/testbed/build"
	"github.com/emco-orchestrator/emco/scripts/testbed/etcd"
)

// sharedKey seals the documents of several processes.
var sharedKey = base64.StdEncoding.EncodeToString(make([]byte, 32))

// Setup is how emco runs. The zero value is one process with embedded stores and without identity.
type Setup struct {
	Processes int  // that share an etcd of three members, which has the documents too; 0: one with embedded stores
	Secured   bool // callers need a token, and each write is in the audit log
}

// etcdMembers is the number of members of a shared etcd.
const etcdMembers = 3

// Start runs all processes, for the first time or again.
func (p *Emco) Start(ctx context.Context) (err error) {
	if p.setup.Processes > 0 && p.etcd == nil {
		if p.etcd, err = startEtcd(ctx, filepath.Dir(p.dir)); err != nil {
			return err
		}
	}
	if p.setup.Secured && p.Token == "" {
		p.Token = client.Token(rand.Text() + rand.Text())
		if err := os.WriteFile(p.bootstrapFile(), []byte(p.Token), 0o600); err != nil {
			return err
		}
	}
	var all []*program.Emco
	for i := range max(1, p.setup.Processes) {
		e, err := p.StartProcess(ctx, i)
		if err != nil {
			return err
		}
		all = append(all, e)
		p.Program, p.Others = all[0], all[1:] // Close ends those that run, also if the next one does not start
	}
	return p.connect()
}

// startEtcd starts a shared etcd in a new folder.
func startEtcd(ctx context.Context, dir string) (*etcd.Cluster, error) {
	builder, err := build.New(io.Discard)
	if err != nil {
		return nil, err
	}
	if dir, err = os.MkdirTemp(dir, "etcd"); err != nil {
		return nil, err
	}
	return etcd.Start(ctx, builder, etcd.Options{Dir: dir, Members: etcdMembers})
}

// StartProcess runs the process with a number, for the first time or again.
func (p *Emco) StartProcess(ctx context.Context, i int) (*program.Emco, error) {
	o := program.Options{Bin: p.bin, Dir: filepath.Join(filepath.Dir(p.dir), fmt.Sprintf("emco%d", i)), Token: string(p.Token)}
	if p.etcd != nil {
		o.Args = append(o.Args, "-etcd.endpoints", strings.Join(p.etcd.Endpoints(), ","), "-store.driver", "etcd", "-store.key", sharedKey)
	}
	if p.setup.Secured {
		o.Args = append(o.Args, "-auth.mode", "on", "-auth.bootstrapFile", p.bootstrapFile(), "-audit.mode", "strict", "-auth.requests", "1000000")
	}
	return program.Start(ctx, o)
}

func (p *Emco) bootstrapFile() string { return filepath.Join(filepath.Dir(p.dir), "bootstrap") }

// connect sends further requests to Program.
func (p *Emco) connect() (err error) {
	if p.Fleet, err = fleet.OpenAs(p.Program.URL(), p.Token); err != nil {
		return err
	}
	p.API, err = client.New(client.Options{BaseURL: p.Program.URL(), Token: p.Token})
	return err
}

// Processes are those that run.
func (p *Emco) Processes() []*program.Emco {
	if p.Program == nil {
		return nil
	}
	return append([]*program.Emco{p.Program}, p.Others...)
}

// Remove takes a process out that ends, and sends requests to another one.
func (p *Emco) Remove(ended *program.Emco) error {
	left := slices.DeleteFunc(p.Processes(), func(e *program.Emco) bool { return e == ended })
	p.Program, p.Others = left[0], left[1:]
	return p.connect()
}

// CPU is the processor time of the processes and of their etcd so far.
func (p *Emco) CPU() (sum time.Duration) {
	for _, e := range p.Processes() {
		sum += CPUOf(e.PID())
	}
	if p.etcd != nil {
		for _, id := range p.etcd.PIDs() {
			sum += CPUOf(id)
		}
	}
	return sum
}

// Peak is the highest resident memory of a process so far, in MiB.
func (p *Emco) Peak() (most float64) {
	for _, e := range p.Processes() {
		if m, err := e.Memory(); err == nil {
			most = max(most, float64(m.Peak)/(1<<20))
		}
	}
	return most
}
