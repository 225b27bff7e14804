package app_test

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/client"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/app"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/emco/internal/failpoint"
	"github.com/emco-orchestrator/emco/src/emco/internal/failpoint/wrap"
)

// crashProgram is the first argument that makes the test program emco with failpoints.
// The second one are the rules that are armed from the start, the others are emco's.
const crashProgram = "victim"

// runCrashChild is the child: emco until SIGTERM, until a failpoint kills it, or until its
// parent is gone.
func runCrashChild(rules string, args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3) // the parent has ended
	}()
	c, err := config.Load(flag.NewFlagSet("victim", flag.ContinueOnError), args, os.Environ(), func(string) {})
	set := failpoint.New(wrap.Points()...)
	if err == nil {
		err = set.Arm(rules)
	}
	var a *app.App
	if err == nil {
		a, err = app.New(ctx, c, app.NewLogger(c.Log), append(cheap(), app.WithFailpoints(set))...)
	}
	if err == nil {
		err = a.Run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// crashStage is a stage whose program is a process that may be killed at any moment. When
// it dies it is started again on the same data, without rules.
type crashStage struct {
	*testStage
	file string // the configuration

	mu     sync.Mutex
	now    *childProcess
	deaths int
	fault  error // why it could not be started again
}

// newCrashStage prepares a stage with setup and then runs the program as a process.
func newCrashStage(t *testing.T, setup func(s *testStage)) *crashStage {
	t.Helper()
	s := newStage(t)
	setup(s)
	s.stop()
	v := &crashStage{testStage: s, file: filepath.Join(s.dir, "emco.yaml")}
	text, err := config.Print(s.config)
	s.must("write the configuration", err)
	s.must("write the configuration", os.WriteFile(v.file, text, 0o600))
	v.restart("")
	s.stop = v.end // before the stage looks at the log
	return v
}

// restart ends the running process, if any, and starts one with rules.
func (v *crashStage) restart(rules string) {
	v.Helper()
	v.end()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.launch(rules)
	v.must("start emco", v.fault)
}

// launch starts a process. The caller holds mu.
func (v *crashStage) launch(rules string) {
	p, err := startProcess(v.log, rules, v.file)
	if v.fault = err; err != nil {
		return
	}
	v.now = p
	if v.api, err = client.New(client.Options{BaseURL: "http://" + p.address}); err != nil {
		v.fault = err
	}
	go v.watch(p)
}

// watch starts the next process when one has died.
func (v *crashStage) watch(p *childProcess) {
	<-p.ended
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.now == p {
		v.deaths++
		v.launch("")
	}
}

// end stops the process cleanly, if there is one.
func (v *crashStage) end() {
	v.mu.Lock()
	p := v.now
	v.now = nil // the watcher must not restart it
	v.mu.Unlock()
	if p == nil {
		return
	}
	if err := p.stop(); err != nil {
		v.Error(err)
	}
}

// try sends a request to the running process. It fails if that dies meanwhile.
func (v *crashStage) try(r client.Request) (apiAnswer, error) {
	v.mu.Lock()
	api, fault := v.api, v.fault
	v.mu.Unlock()
	if fault != nil {
		return apiAnswer{}, fault
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(v.Context()), patience)
	defer cancel()
	res, err := api.Do(ctx, r)
	if err != nil {
		return apiAnswer{}, err
	}
	return apiAnswer{Status: res.Status, Body: strings.TrimSpace(string(res.Body))}, nil
}

// ready waits until the group's readiness has no complaint, while programs may die.
func (v *crashStage) ready(what string, g testGroup, complaint func(v2.Status) string) {
	v.Helper()
	v.eventually(what, func() string {
		var st v2.Status
		res, err := v.try(client.Request{Method: http.MethodGet, Path: "/v2/" + g.path + "/status?status=ready"})
		if err == nil {
			err = json.Unmarshal([]byte(res.Body), &st)
		}
		if err != nil {
			return err.Error()
		}
		return complaint(st)
	})
}

// arm replaces the rules of the running process.
func (v *crashStage) arm(rules string) {
	v.Helper()
	a, err := v.try(client.Request{Method: http.MethodPut, Path: "/failpoints", Body: client.JSON([]byte(rules))})
	if err != nil || a.Status != http.StatusOK {
		v.Fatalf("arm %q: %v, %d %s", rules, err, a.Status, a.Body)
	}
}

// fired disarms all rules and returns how often one applied since it was armed, including
// deaths. Counts of a process are lost when it dies.
func (v *crashStage) fired() int {
	v.Helper()
	var counts failpoint.Counts
	v.eventually("the rules are gone", func() string {
		a, err := v.try(client.Request{Method: http.MethodPut, Path: "/failpoints", Body: client.JSON([]byte(";"))})
		if err == nil {
			err = json.Unmarshal([]byte(a.Body), &counts)
		}
		if err != nil {
			return err.Error()
		}
		return ""
	})
	v.mu.Lock()
	defer v.mu.Unlock()
	n := counts.Fired + v.deaths
	v.deaths = 0
	return n
}

// childProcess is one process of the program.
type childProcess struct {
	cmd     *exec.Cmd
	in      io.Closer // the child ends when it is closed
	address string
	ended   chan struct{}
	err     error // how it ended; read it after ended is closed
}

// startProcess returns once the program is ready. It adds to the environment.
func startProcess(log io.Writer, rules, file string, environment ...string) (*childProcess, error) {
	p := &childProcess{cmd: exec.Command(os.Args[0], crashProgram, rules, "-config", file), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), environment...)
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	said, err := p.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	p.in = in
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	address := make(chan string, 1)
	go func() {
		defer close(p.ended)
		listen(said, log, address)
		p.err = p.cmd.Wait()
	}()
	return p, p.ready(address)
}

// listen copies the log and finds the address in it.
func listen(said io.Reader, log io.Writer, address chan<- string) {
	defer close(address)
	lines := bufio.NewReader(said)
	for {
		line, err := lines.ReadBytes('\n')
		_, _ = log.Write(line)
		var entry struct{ Msg, Address string }
		if json.Unmarshal(line, &entry) == nil && entry.Msg == "emco serves" {
			address <- entry.Address
		}
		if err != nil {
			return
		}
	}
}

func (p *childProcess) ready(address <-chan string) error {
	select {
	case a, ok := <-address:
		if !ok {
			return fmt.Errorf("emco ended before it served")
		}
		p.address = a
		return nil
	case <-time.After(patience):
		_ = p.cmd.Process.Kill()
		return fmt.Errorf("emco does not log its address")
	}
}

// stop ends the process by SIGTERM.
func (p *childProcess) stop() error {
	defer p.in.Close()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(patience):
		_ = p.cmd.Process.Kill()
		<-p.ended
		return fmt.Errorf("emco does not end")
	}
	if p.err != nil && p.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL { // a failpoint was faster
		return fmt.Errorf("emco ended with %w", p.err)
	}
	return nil
}
