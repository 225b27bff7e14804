package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/emco-orchestrator/emco/src/api/client"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"

	"github.com/emco-orchestrator/emco/scripts/e2e/fleet"
	"github.com/emco-orchestrator/emco/scripts/e2e/program"
	"github.com/emco-orchestrator/emco/scripts/testbed/build"
	"github.com/emco-orchestrator/emco/scripts/testbed/etcd"
)

// The load of the test of several machines, and how long a fault lasts.
const (
	machineRequests = 20 // a second, of all writers
	machineWriters  = 8
	machineKeys     = 6
	machineClusters = 12
	machineLease    = 3 * time.Second
	machineFault    = 2 * machineLease
)

// S-05: three processes on an etcd of three members, each reaching each member through a network of its own, write for
// EMCO_STORM (a minute by default), while one of them is killed, paused, or cut off, or a member of etcd is paused. Documents
// are linearizable, each accepted update is one revision and one commit, what is delivered is what was asked for last, and the
// audit log is whole.
func TestS05FaultsOfSeveralMachines(t *testing.T) {
	do := steps{TB: t}
	lasts, err := time.ParseDuration(cmp.Or(os.Getenv("EMCO_STORM"), "1m"))
	if err != nil {
		t.Fatalf("EMCO_STORM: %v", err)
	}
	seed := rand.Uint64()
	do.next("an etcd of three members, three processes; seed %d", seed)
	m := newMachines(t, seed)
	f := m.fleet()
	m.must("register the fleet", f.Found(t.Context(), m.repository()))
	m.must("register clusters", f.Register(t.Context(), machineClusters))
	m.must("open the logical cloud", f.OpenCloud(t.Context()))
	d := apps("shared", 1, 3)
	m.must("onboard", f.Onboard(t.Context(), m.dir, d))
	m.phase(d, "instantiate", v2.StatusInstantiated)

	do.next("faults for %s", lasts)
	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	var load sync.WaitGroup
	for i := range machineWriters {
		load.Go(func() { m.write(ctx, i) })
	}
	load.Go(func() { m.update(ctx, d) })
	m.strike(ctx)
	load.Wait()
	m.heal()
	m.emco = m.alive() // what follows asks a process that runs

	do.next("the last update is delivered")
	f = m.fleet()
	m.must("change a value", f.Revalue(t.Context(), d, d.Apps[0].Chart, "colour: the-last\n"))
	m.phase(d, "update", v2.StatusInstantiated)
	files, err := m.bare.Git(t.Context(), "", "grep", "-l", "colour: the-last", branch)
	m.must("search the branch", err)
	if n := strings.Count(files, "\n") + 1; n != machineClusters {
		t.Errorf("%d files are of the last update, want one of each of the %d clusters:\n%s", n, machineClusters, files)
	}
	m.eachOnce(d)

	do.next("the history of documents")
	result, info := porcupine.CheckOperationsVerbose(registers, m.history, 5*time.Minute)
	if result != porcupine.Ok {
		file := filepath.Join(os.TempDir(), "s05.html")
		_ = porcupine.VisualizePath(registers, info, file)
		t.Errorf("the history of documents is %s; see %s", result, file)
	}
	never := porcupine.Operation{Input: tag{key: "register-0"}, Output: "never written", Return: 1}
	if porcupine.CheckOperations(registers, []porcupine.Operation{never}) {
		t.Error("the check finds nothing")
	}
	for i, e := range m.all {
		if r := e.Emcoctl(t.Context(), "audit", "verify"); r.Code != 0 {
			t.Errorf("audit verify at process %d: exit code %d\n%s%s", i+1, r.Code, r.Out, r.Err)
		}
	}
	m.sound()
	t.Logf("    %d operations on documents, %d without an answer; %d updates accepted; faults: %s", len(m.history), m.open.Load(), m.accepted.Load(), &m.faults)
	if m.accepted.Load() == 0 || len(m.history) < int(lasts.Seconds()) {
		t.Error("too little was done")
	}
}

// machines are three processes and an etcd.
type machines struct {
	*testStage
	args     []string
	members  []int      // processes of etcd
	networks [][]*proxy // by process, to each member
	random   *rand.Rand // only strike

	mu      sync.Mutex
	all     []*program.Emco       // the process of each machine; guarded by mu
	down    []bool                // the machine is struck; guarded by mu
	history []porcupine.Operation // guarded by mu until all writers have ended

	open, accepted atomic.Int64 // requests without an answer; updates that were accepted
	faults         tally
}

func newMachines(t *testing.T, seed uint64) *machines {
	t.Helper()
	builder, err := build.New(io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := etcd.Start(t.Context(), builder, etcd.Options{Dir: t.TempDir(), Members: 3})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	m := &machines{testStage: newStage(t), members: cluster.PIDs(), random: rand.New(rand.NewPCG(seed, 1)), down: make([]bool, 3)}
	m.must("stop the program on embedded stores", m.emco.Stop())
	m.emco = nil
	kek := filepath.Join(m.dir, "kek")
	m.must("write a key", os.WriteFile(kek, []byte(base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))), 0o600))
	m.args = []string{
		"-lease", machineLease.String(), "-encryption.kek", "file://" + kek, "-audit.mode", "strict",
		"-retry.first=100ms", "-retry.longest=1s", "-git.rest=1s", "-git.timeout=5s",
	}
	for i := range m.down {
		var networks []*proxy
		for _, endpoint := range cluster.Endpoints() {
			networks = append(networks, newProxy(t, strings.TrimPrefix(endpoint, "http://")))
		}
		m.networks = append(m.networks, networks)
		m.all = append(m.all, nil)
		m.run(i)
	}
	m.emco = m.all[0]
	t.Cleanup(func() {
		m.emco = nil // it ends with the others
		for _, e := range m.all {
			e.Kill()
		}
	})
	return m
}

// run starts the process of a machine, on what it left there.
func (m *machines) run(i int) {
	m.Helper()
	var endpoints []string
	for _, network := range m.networks[i] {
		endpoints = append(endpoints, "http://"+network.address())
	}
	e, err := program.Start(m.Context(), program.Options{
		Bin: binaries(), Dir: filepath.Join(m.dir, fmt.Sprint("machine-", i)), Args: append([]string{"-etcd.endpoints", strings.Join(endpoints, ",")}, m.args...),
	})
	m.must("start a process", err)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all[i] = e
}

// alive returns a process that is not struck.
func (m *machines) alive() *program.Emco {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, i := range rand.Perm(len(m.all)) {
		if !m.down[i] {
			return m.all[i]
		}
	}
	return m.all[0]
}

// any returns any process.
func (m *machines) any() *program.Emco {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.all[rand.N(len(m.all))]
}

func (m *machines) setDown(i int, down bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.down[i] = down
}

// strike lets one fault follow the other until ctx ends.
func (m *machines) strike(ctx context.Context) {
	for ctx.Err() == nil {
		i := m.random.IntN(len(m.all))
		m.setDown(i, true)
		switch m.random.IntN(5) {
		case 0:
			m.faults.add("kills of a process")
			m.all[i].Kill()
			m.run(i)
		case 1:
			m.faults.add("pauses of a process")
			m.pause(ctx, m.all[i].PID())
		case 2:
			m.faults.add("pauses of a member of etcd")
			m.pause(ctx, m.members[i])
		default:
			silent := m.random.IntN(2) == 0
			m.faults.add(fmt.Sprintf("cuts (silent: %t) between a process and etcd", silent))
			for _, network := range m.networks[i] {
				network.cut(silent)
			}
			sleep(ctx, machineFault)
			for _, network := range m.networks[i] {
				network.heal()
			}
		}
		m.setDown(i, false)
		sleep(ctx, time.Second)
	}
}

// pause stops a process for a while.
func (m *machines) pause(ctx context.Context, pid int) {
	m.must("pause", syscall.Kill(pid, syscall.SIGSTOP))
	sleep(ctx, machineFault)
	m.must("wake up", syscall.Kill(pid, syscall.SIGCONT))
}

// heal waits until all processes are ready.
func (m *machines) heal() {
	m.Helper()
	for i, e := range m.all {
		eventually(m, fmt.Sprintf("process %d is ready", i+1), func() error { return ask(m.Context(), e.URL()+"/readyz") })
	}
}

// tag is an operation on a document: what it writes, or what it read; empty: there was nothing.
type tag struct {
	key, value string
	write      bool
}

// registers is what documents promise: each read sees the last write.
var registers = porcupine.Model{
	Partition: func(all []porcupine.Operation) [][]porcupine.Operation {
		byKey := map[string][]porcupine.Operation{}
		for _, op := range all {
			key := op.Input.(tag).key
			byKey[key] = append(byKey[key], op)
		}
		var out [][]porcupine.Operation
		for _, ops := range byKey {
			out = append(out, ops)
		}
		return out
	},
	Init: func() any { return "" },
	Step: func(state, input, output any) (bool, any) {
		if in := input.(tag); in.write {
			return true, in.value
		}
		return output.(string) == state.(string), state
	},
	DescribeOperation: func(input, output any) string {
		if in := input.(tag); in.write {
			return "write " + in.value
		}
		return fmt.Sprintf("read %q", output)
	},
}

// write writes and reads documents at any process until ctx ends. A write without a clear answer may be made at any later
// time; a read without an answer says nothing.
func (m *machines) write(ctx context.Context, writer int) {
	every := time.NewTicker(time.Second * machineWriters / machineRequests)
	defer every.Stop()
	for n := 0; ctx.Err() == nil; n++ {
		op := tag{key: fmt.Sprintf("register-%d", rand.N(machineKeys)), write: rand.N(2) == 0, value: fmt.Sprintf("%d-%d", writer, n)}
		began := time.Now()
		value, clear := m.operate(op)
		ended := time.Now().UnixNano()
		if !clear {
			m.open.Add(1)
			ended = 1 << 62
		}
		if clear || op.write {
			m.mu.Lock()
			m.history = append(m.history, porcupine.Operation{ClientId: len(m.history), Input: op, Call: began.UnixNano(), Output: value, Return: ended})
			m.mu.Unlock()
		}
		<-every.C
	}
}

// operate sends an operation to a process. clear says that it answered what happened.
func (m *machines) operate(op tag) (value string, clear bool) {
	ctx, cancel := context.WithTimeout(m.Context(), 10*time.Second)
	defer cancel()
	method, body := http.MethodGet, ""
	if op.write {
		method, body = http.MethodPut, fmt.Sprintf(`{"metadata":{"name":%q,"description":%q}}`, op.key, op.value)
	}
	r, err := http.NewRequestWithContext(ctx, method, m.any().URL()+"/v2/projects/"+op.key, strings.NewReader(body))
	if err != nil {
		return "", false
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", false
	}
	defer res.Body.Close()
	var doc v2.Project
	switch {
	case res.StatusCode == http.StatusNotFound && !op.write:
		return "", true
	case res.StatusCode/100 != 2, json.NewDecoder(res.Body).Decode(&doc) != nil:
		return "", false
	}
	return doc.Metadata.Description, true
}

// update changes a value of the deployment and updates it, again and again, until ctx ends.
func (m *machines) update(ctx context.Context, d fleet.Deployment) {
	for n := 0; ctx.Err() == nil; n++ {
		if f, err := fleet.Open(m.alive().URL()); err == nil {
			err = f.Revalue(ctx, d, d.Apps[0].Chart, fmt.Sprintf("colour: c%d\n", n))
			if err == nil && f.Act(ctx, d.Path(), "update") == nil {
				m.accepted.Add(1)
			}
		}
		sleep(ctx, 2*time.Second)
	}
}

// eachOnce expects that the revisions that are kept follow each other, and that no commit is in two of them.
func (m *machines) eachOnce(d fleet.Deployment) {
	m.Helper()
	c, err := client.New(client.Options{BaseURL: m.emco.URL()})
	m.must("open the API", err)
	all, err := client.Get[v2.RevisionsAnswer](m.Context(), c, d.Path()+"/revisions")
	m.must("read the revisions", err)
	if len(all.Revisions) == 0 || all.Revisions[0].Number < 2+m.accepted.Load() {
		m.Errorf("%d updates were accepted, and there are fewer revisions: %+v", m.accepted.Load(), all.Revisions)
	}
	in := map[string]int64{}
	for i, r := range all.Revisions {
		if i > 0 && r.Number != all.Revisions[i-1].Number-1 {
			m.Errorf("revision %d follows %d", all.Revisions[i-1].Number, r.Number)
		}
		for _, commit := range r.Commits {
			if other, twice := in[commit.Commit]; twice {
				m.Errorf("commit %s is one of the revisions %d and %d", commit.Commit, r.Number, other)
			}
			in[commit.Commit] = r.Number
		}
	}
}
