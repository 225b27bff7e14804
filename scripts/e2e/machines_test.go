package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/api/disktest"
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
	machineDelay    = 100 * time.Millisecond // of a slow disk
	machineDisk     = 1024                   // MiB
	memberDisk      = 1024                   // MiB: some files of its log have 64 each

	never = 1 << 62 // the time of an answer that did not come
)

// S-05: three processes on an etcd of three members, each reaching each member through a network of its own, write for
// EMCO_STORM (a minute by default). All the time, faults of all kinds strike one process and, at the same time, one member of etcd: they are
// killed, paused, cut off, their disks are full or slow, and the Git server is away. Documents are linearizable, each accepted update is one revision and one commit, what is delivered
// is what was asked for last, and the audit log is whole.
func TestS05FaultsOfSeveralMachines(t *testing.T) {
	do := steps{TB: t}
	lasts, err := time.ParseDuration(cmp.Or(os.Getenv("EMCO_STORM"), "1m"))
	if err != nil {
		t.Fatalf("EMCO_STORM: %v", err)
	}
	seed := rand.Uint64()
	do.next("an etcd of three members, three processes; seed %d", seed)
	m := newMachines(t)
	f, git := m.fleetBehindProxy(machineClusters)
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
	load.Go(func() { m.strike(ctx, rand.New(rand.NewPCG(seed, 2)), m.faultsOfEtcd()) })
	m.strike(ctx, rand.New(rand.NewPCG(seed, 1)), append(m.faultsOfProcesses(), m.faultOfGit(git)))
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
	result, info := porcupine.CheckOperationsVerbose(registers, seen(m.history), 5*time.Minute)
	if result != porcupine.Ok {
		file := filepath.Join(os.TempDir(), "s05.html")
		_ = porcupine.VisualizePath(registers, info, file)
		t.Errorf("the history of documents is %s; see %s", result, file)
	}
	wrong := porcupine.Operation{Input: tag{key: "register-0"}, Output: "never written", Return: 1}
	if porcupine.CheckOperations(registers, []porcupine.Operation{wrong}) {
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
	args      []string
	etcd      *etcd.Cluster    // only one goroutine at a time
	peers     peerNetwork      // of the members of etcd
	networks  [][]*proxy       // by process, to each member
	disks     []*disktest.Disk // of the processes; nil: this machine allows none
	etcdDisks []*disktest.Disk // of the members
	strace    string           // the program that makes disks slow; empty: this machine has none

	mu      sync.Mutex
	all     []*program.Emco       // the process of each machine; guarded by mu
	down    []bool                // the machine is struck; guarded by mu
	history []porcupine.Operation // guarded by mu until all writers have ended

	open, accepted atomic.Int64 // requests without an answer; updates that were accepted
	faults         tally
}

func newMachines(t *testing.T) *machines {
	t.Helper()
	builder, err := build.New(io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	m := &machines{testStage: newStage(t), down: make([]bool, 3)}
	m.must("stop the program on embedded stores", m.emco.Stop())
	m.emco = nil
	if m.strace, err = exec.LookPath("strace"); err != nil {
		t.Log("    without slow disks: install strace")
	}
	options := etcd.Options{Dir: t.TempDir(), Members: len(m.down), Peers: func(listen []string) (advertised []string) {
		m.peers, advertised = newPeerNetwork(t, listen)
		return advertised
	}}
	for i := range m.down {
		data, store := filepath.Join(m.machine(i), "data"), filepath.Join(options.Dir, fmt.Sprint("disk-", i))
		m.must("make folders", errors.Join(os.MkdirAll(data, 0o700), os.Mkdir(store, 0o700)))
		disk, etcdDisk := disktest.New(t, data, machineDisk), disktest.New(t, store, memberDisk)
		if disk == nil || etcdDisk == nil {
			t.Log("    without full disks: this machine does not allow to mount a tmpfs")
			m.disks, m.etcdDisks, options.Hosts = nil, nil, nil
			break
		}
		m.disks, m.etcdDisks = append(m.disks, disk), append(m.etcdDisks, etcdDisk)
		options.Hosts = append(options.Hosts, etcd.Host{Data: store, With: etcdDisk.With()})
	}
	m.etcd, err = etcd.Start(t.Context(), builder, options)
	m.must("start etcd", err)
	t.Cleanup(m.etcd.Close)
	kek := filepath.Join(m.dir, "kek")
	m.must("write a key", os.WriteFile(kek, []byte(base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))), 0o600))
	m.args = []string{
		"-lease", machineLease.String(), "-encryption.kek", "file://" + kek, "-audit.mode", "strict",
		"-retry.first=100ms", "-retry.longest=1s", "-git.rest=1s", "-git.timeout=5s", "-diskReserve=134217728",
	}
	for i := range m.down {
		var networks []*proxy
		for _, endpoint := range m.etcd.Endpoints() {
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

// machine is the folder of a process.
func (m *machines) machine(i int) string { return filepath.Join(m.dir, fmt.Sprint("machine-", i)) }

// run starts the process of a machine, on what it left there.
func (m *machines) run(i int) {
	m.Helper()
	var endpoints []string
	for _, network := range m.networks[i] {
		endpoints = append(endpoints, "http://"+network.address())
	}
	options := program.Options{Bin: binaries(), Dir: m.machine(i), Args: append([]string{"-etcd.endpoints", strings.Join(endpoints, ",")}, m.args...)}
	if m.disks != nil {
		options.With = m.disks[i].With()
	}
	e, err := program.Start(m.Context(), options)
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

// fault is a kind of fault. strike lets it strike one of three, and ends it.
type fault struct {
	kind   string
	strike func(ctx context.Context, i int)
}

// strike lets one fault follow the other until ctx ends, each kind as often as the others.
func (m *machines) strike(ctx context.Context, random *rand.Rand, faults []fault) {
	for ctx.Err() == nil {
		for _, kind := range random.Perm(len(faults)) {
			if ctx.Err() != nil {
				return
			}
			m.faults.add(faults[kind].kind)
			faults[kind].strike(ctx, random.IntN(len(m.down)))
			sleep(ctx, time.Second)
		}
	}
}

// faultsOfProcesses are the faults of the machine of a process.
func (m *machines) faultsOfProcesses() []fault {
	cut := func(silent bool) func(context.Context, int) {
		return func(ctx context.Context, i int) {
			for _, network := range m.networks[i] {
				network.cut(silent)
			}
			sleep(ctx, machineFault)
			for _, network := range m.networks[i] {
				network.heal()
			}
		}
	}
	all := []fault{
		{"kills of a process", func(_ context.Context, i int) {
			m.all[i].Kill()
			m.run(i)
		}},
		{"pauses of a process", func(ctx context.Context, i int) { m.pause(ctx, m.all[i].PID()) }},
		{"cuts between a process and etcd", cut(false)},
		{"silent cuts between a process and etcd", cut(true)},
	}
	if m.strace != "" {
		all = append(all, fault{"slow disks of a process", func(ctx context.Context, i int) { m.slow(ctx, m.all[i].PID()) }})
	}
	if m.disks != nil {
		all = append(all, fault{"full disks of a process", func(ctx context.Context, i int) {
			m.fill(ctx, m.disks[i], func() {
				if ask(ctx, m.all[i].URL()+"/readyz") == nil {
					m.Errorf("process %d is ready with a full disk", i+1)
				}
			})
		}})
	}
	for at, f := range all {
		all[at].strike = func(ctx context.Context, i int) {
			m.setDown(i, true)
			defer m.setDown(i, false)
			f.strike(ctx, i)
			if err := m.all[i].Exited(); err != nil {
				m.Errorf("%s: process %d: %v", f.kind, i+1, err)
				m.run(i)
			}
		}
	}
	return all
}

// faultOfGit is the fault of the Git server.
func (m *machines) faultOfGit(network *proxy) fault {
	return fault{"cuts of the Git server", func(ctx context.Context, i int) {
		network.cut(i == 0)
		sleep(ctx, machineFault)
		network.heal()
	}}
}

// faultsOfEtcd are the faults of the machine of a member of etcd, and of the network between members.
func (m *machines) faultsOfEtcd() []fault {
	others := func(i int) (next, last int) { return (i + 1) % len(m.down), (i + 2) % len(m.down) }
	isolate := func(silent bool) func(context.Context, int) {
		return func(ctx context.Context, i int) {
			next, last := others(i)
			m.peers.cut(i, next, silent)
			m.peers.cut(i, last, silent)
			sleep(ctx, machineFault)
			if ctx.Err() == nil && ask(ctx, m.etcd.Endpoints()[i]+"/health") == nil {
				m.Errorf("member %d of etcd is healthy without the others", i+1)
			}
			m.peers.heal()
		}
	}
	all := []fault{
		{"kills of a member of etcd", func(_ context.Context, i int) { m.restart(i) }},
		{"pauses of a member of etcd", func(ctx context.Context, i int) { m.pause(ctx, m.etcd.PIDs()[i]) }},
		{"cuts between a member of etcd and both others", isolate(false)},
		{"silent cuts between a member of etcd and both others", isolate(true)},
		{"cuts between two members of etcd", func(ctx context.Context, i int) {
			next, _ := others(i)
			m.peers.cut(i, next, false)
			sleep(ctx, machineFault)
			m.peers.heal()
		}},
	}
	if m.strace != "" {
		all = append(all, fault{"slow disks of a member of etcd", func(ctx context.Context, i int) {
			before, err := m.waits(i)
			m.slow(ctx, m.etcd.PIDs()[i])
			after, errAfter := m.waits(i)
			if err := errors.Join(err, errAfter); ctx.Err() == nil && (err != nil || after-before < machineDelay) {
				m.Errorf("member %d of etcd waited %s for its disk, %v", i+1, after-before, err)
			}
		}})
	}
	if m.disks != nil {
		all = append(all, fault{"full disks of a member of etcd", func(ctx context.Context, i int) {
			m.fill(ctx, m.etcdDisks[i], func() {})
			if m.etcd.Exited() != nil { // as etcd does without space
				m.faults.add("members of etcd that ended by a full disk")
				m.restart(i)
			}
		}})
	}
	return all
}

// restart starts a member of etcd again, which it kills before.
func (m *machines) restart(i int) {
	ctx, cancel := context.WithTimeout(m.Context(), patience)
	defer cancel()
	if err := m.etcd.Restart(ctx, i); err != nil {
		m.Errorf("restart member %d of etcd: %v", i+1, err)
	}
}

// pause stops a process for a while.
func (m *machines) pause(ctx context.Context, pid int) {
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		m.Errorf("pause process %d: %v", pid, err)
	}
	sleep(ctx, machineFault)
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		m.Errorf("wake up process %d: %v", pid, err)
	}
}

// slow has a process wait for its disk, for a while: each time that it stores, or opens, renames or removes a file.
func (m *machines) slow(ctx context.Context, pid int) {
	const calls = "fsync,fdatasync,openat,mkdirat,renameat,renameat2,unlinkat,ftruncate,fallocate"
	ctx, cancel := context.WithTimeout(ctx, machineFault)
	defer cancel()
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, m.strace, "-f", "-qq", "-o", "/dev/null", "-p", fmt.Sprint(pid), "-e", "trace="+calls, "-e", fmt.Sprintf("inject=%s:delay_enter=%d", calls, machineDelay.Microseconds()))
	cmd.Stderr = &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // it detaches
	cmd.WaitDelay = machineFault
	if err := cmd.Run(); ctx.Err() == nil {
		m.Errorf("strace ended: %v\n%s", err, &said)
	}
}

// waits is how long a member of etcd has waited until its log was on the disk.
func (m *machines) waits(i int) (time.Duration, error) {
	res, err := http.Get(m.etcd.Endpoints()[i] + "/metrics")
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err
	}
	_, value, _ := strings.Cut(string(text), "\netcd_disk_wal_fsync_duration_seconds_sum ")
	value, _, _ = strings.Cut(value, "\n")
	seconds, err := strconv.ParseFloat(value, 64)
	return time.Duration(seconds * float64(time.Second)), err
}

// fill lets a disk be full for a while, at whose end it calls meanwhile.
func (m *machines) fill(ctx context.Context, disk *disktest.Disk, meanwhile func()) {
	if err := disk.Leave(0); err != nil {
		m.Errorf("fill a disk: %v", err)
	}
	sleep(ctx, machineFault)
	if ctx.Err() == nil {
		meanwhile()
	}
	if err := disk.Leave(-1); err != nil {
		m.Errorf("empty a disk: %v", err)
	}
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

// seen leaves out writes without an answer whose value nobody read: they may come after all others, so they exclude no order.
func seen(history []porcupine.Operation) (out []porcupine.Operation) {
	read := map[string]bool{}
	for _, op := range history {
		if in := op.Input.(tag); !in.write {
			read[op.Output.(string)] = true
		}
	}
	for _, op := range history {
		if in := op.Input.(tag); op.Return != never || read[in.value] {
			out = append(out, op)
		}
	}
	return out
}

// write writes and reads documents at any process until ctx ends. A write without a clear answer may be made at any later
// time; a read without an answer shows nothing.
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
			ended = never
		}
		if clear || op.write {
			m.mu.Lock()
			m.history = append(m.history, porcupine.Operation{ClientId: len(m.history), Input: op, Call: began.UnixNano(), Output: value, Return: ended})
			m.mu.Unlock()
		}
		<-every.C
	}
}

// operate sends an operation to a process. clear is true if the answer shows the outcome.
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
