// Package etcdtest gives tests etcd servers, and checks for what they hold.
//
// RunShared runs one server inside the test program. A Cluster runs servers as processes of their
// own, so that tests can pause, kill and restart them. Each is the test program itself: TestMain
// must call Main first.
package etcdtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

// argument is the first argument of a test program that must be a member.
const argument = "etcd-member"

// patience is how long a server may take to serve.
const patience = 30 * time.Second

// Options configure members.
type Options struct {
	Quota int64 // bytes of the database; 0 is etcd's own default
}

// Cluster is the members of one etcd. Its methods fail the test on errors.
type Cluster struct {
	t       testing.TB
	dir     string // of all data
	members []*member
}

// member is one server, running or not.
type member struct {
	args    []string
	address string // for clients
	peer    string // URL for other members
	cmd     *exec.Cmd
	in      io.Closer // the child ends when it is closed
	ended   chan struct{}
}

// starts is how often a cluster is started when other programs use its ports.
const starts = 4

// Start runs n members until the test ends. It returns when all of them serve.
func Start(t testing.TB, n int, o Options) *Cluster {
	t.Helper()
	return start(t, o, func() []string { return pick(t, 2*n) })
}

// start runs members on two of the addresses each, or on others if one of them is taken.
func start(t testing.TB, o Options, addresses func() []string) *Cluster {
	t.Helper()
	c := &Cluster{t: t, dir: t.TempDir()}
	t.Cleanup(c.end)
	for range starts {
		c.begin(addresses(), o)
		err := c.await("etcd does not serve", c.serve)
		if err == nil {
			return c
		}
		if !errors.Is(err, errTaken) {
			t.Fatal(err)
		}
		c.end()
	}
	t.Fatal("other programs use the ports of etcd, again and again")
	panic("not reached")
}

// begin starts members without data. The first half of the addresses is for each other.
func (c *Cluster) begin(addresses []string, o Options) {
	c.t.Helper()
	dir, err := os.MkdirTemp(c.dir, "")
	if err != nil {
		c.t.Fatal(err)
	}
	n := len(addresses) / 2
	var all []string
	for i, peer := range addresses[:n] {
		all = append(all, fmt.Sprintf("m%d=http://%s", i, peer))
	}
	c.members = nil
	for i, peer := range addresses[:n] {
		c.members = append(c.members, &member{address: addresses[n+i], peer: "http://" + peer, args: []string{
			argument, fmt.Sprint("m", i), filepath.Join(dir, strconv.Itoa(i)), "http://" + peer, "http://" + addresses[n+i], strings.Join(all, ","), strconv.FormatInt(o.Quota, 10),
		}})
		c.launch(i)
	}
}

// end kills all members.
func (c *Cluster) end() {
	for _, m := range c.members {
		m.kill()
	}
}

// pick returns n addresses of this machine on which nothing listens. They are outside of
// the range that the kernel gives to others, because a server that was killed wants its own
// back. Another process may take one before a member does.
func pick(t testing.TB, n int) (addresses []string) {
	t.Helper()
	for len(addresses) < n {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20000+rand.N(12000)))
		if err != nil {
			continue
		}
		defer func() { _ = l.Close() }() // not before all are picked: they are to differ
		addresses = append(addresses, l.Addr().String())
	}
	return addresses
}

// Endpoints are the addresses for clients.
func (c *Cluster) Endpoints() (out []string) {
	for _, m := range c.members {
		out = append(out, "http://"+m.address)
	}
	return out
}

// Client returns a client of all members, of the kind that production uses, that is
// closed when the test ends.
func (c *Cluster) Client() *clientv3.Client { return c.client(c.Endpoints()...) }

func (c *Cluster) client(endpoints ...string) *clientv3.Client {
	c.t.Helper()
	client, err := clientv3.New(clientv3.Config{
		Endpoints: endpoints, Logger: zap.NewNop(), DialTimeout: 5 * time.Second,
		DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 5 * time.Second,
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: 5 * time.Second,
		})},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = client.Close() })
	return client
}

// Leader waits until the members that run agree on a leader and returns its number.
func (c *Cluster) Leader() int {
	c.t.Helper()
	leader, err := c.elect()
	if err != nil {
		c.t.Fatal(err)
	}
	return leader
}

// elect waits until the members that run agree on a leader.
func (c *Cluster) elect() (leader int, err error) {
	err = c.await("etcd has no leader", func() bool {
		for i := range c.members {
			if c.leads(i) {
				leader = i
				return true
			}
		}
		return false
	})
	return leader, err
}

// await waits for something. errTaken if a member has found that another program listens on
// its port.
func (c *Cluster) await(otherwise string, something func() bool) error {
	for end := time.Now().Add(patience); time.Now().Before(end); {
		for _, m := range c.members {
			if err := m.failed(); err != nil {
				return err
			}
		}
		if something() {
			return nil
		}
	}
	return errors.New(otherwise)
}

// errTaken means that another program listens on the port of a member.
var errTaken = errors.New("the port of an etcd member is taken")

// failed returns why a member has ended that was not killed.
func (m *member) failed() error {
	if m.cmd == nil {
		return nil
	}
	select {
	case <-m.ended:
	default:
		return nil
	}
	if m.cmd.ProcessState.ExitCode() == exitTaken {
		return errTaken
	}
	return fmt.Errorf("an etcd member has ended: %s", m.cmd.ProcessState)
}

// serve reports whether all members answer.
func (c *Cluster) serve() bool {
	for i := range c.members {
		if c.ask(i) == nil {
			return false
		}
	}
	return true
}

// leads reports whether a member that runs is the leader.
func (c *Cluster) leads(i int) bool {
	s := c.ask(i)
	return s != nil && s.Leader == s.Header.MemberId
}

// ask returns a member's status; nil if it does not run, or does not answer within a second. Until
// it listens, a member of another cluster may answer in its place.
func (c *Cluster) ask(i int) *clientv3.StatusResponse {
	m := c.members[i]
	if m.cmd == nil {
		return nil
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://" + m.address}, Logger: zap.NewNop()})
	if err != nil {
		return nil
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if _, err := client.Get(ctx, "x"); err != nil { // one that was asleep may still think that it leads
		return nil
	}
	s, err := client.Status(ctx, "http://"+m.address)
	if err != nil {
		return nil
	}
	all, err := client.MemberList(ctx)
	if err != nil {
		return nil
	}
	for _, one := range all.Members {
		if one.ID == s.Header.MemberId && slices.Equal(one.PeerURLs, []string{m.peer}) {
			return s
		}
	}
	return nil
}

// Pause stops a member as SIGSTOP does; its connections stay open. It returns when none of
// the member's threads runs.
func (c *Cluster) Pause(i int) {
	c.t.Helper()
	c.signal(i, syscall.SIGSTOP)
	for end := time.Now().Add(patience); !stopped(c.members[i].cmd.Process.Pid); {
		if time.Now().After(end) {
			c.t.Fatal("the member does not stop")
		}
	}
}

// Resume continues a paused member.
func (c *Cluster) Resume(i int) { c.signal(i, syscall.SIGCONT) }

func (c *Cluster) signal(i int, s syscall.Signal) {
	c.t.Helper()
	if err := c.members[i].cmd.Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

// Kill ends a member as kill -9 does.
func (c *Cluster) Kill(i int) { c.members[i].kill() }

// Restart starts a member that was killed, on its data.
func (c *Cluster) Restart(i int) {
	c.t.Helper()
	c.launch(i)
}

func (c *Cluster) launch(i int) {
	c.t.Helper()
	m := c.members[i]
	m.cmd, m.ended = exec.Command(os.Args[0], m.args...), make(chan struct{})
	in, err := m.cmd.StdinPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	m.in = in
	m.cmd.Stderr = os.Stderr
	dieWithParent(m.cmd)
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the kernel takes the thread for the parent
		defer runtime.UnlockOSThread()
		defer close(m.ended)
		err := m.cmd.Start()
		started <- err
		if err == nil {
			_ = m.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		c.t.Fatal(err)
	}
}

// kill ends the process, if it runs, paused or not.
func (m *member) kill() {
	if m.cmd == nil {
		return
	}
	_ = m.cmd.Process.Kill()
	<-m.ended
	_ = m.in.Close()
	m.cmd = nil
}

// Main is a member if args, which are os.Args, ask for it: it serves until it is killed, or
// its parent is gone, and returns its exit code. Otherwise asked is false.
func Main(args []string) (code int, asked bool) {
	if len(args) != 8 || args[1] != argument {
		return 0, false
	}
	SmallLog()
	err := serve(args[2:])
	switch {
	case err == nil:
		return 0, true
	case errors.Is(err, syscall.EADDRINUSE):
		code = exitTaken
	default:
		code = 1
	}
	fmt.Fprintln(os.Stderr, "etcd:", err)
	return code, true
}

// exitTaken is the exit code of a member whose port is in use.
const exitTaken = 3

// serve runs a member: its name, folder, peer and client URLs, all members, the quota.
func serve(args []string) error {
	c := embed.NewConfig()
	c.Name, c.Dir, c.InitialCluster = args[0], args[1], args[4]
	peer, err := url.Parse(args[2])
	if err != nil {
		return err
	}
	client, err := url.Parse(args[3])
	if err != nil {
		return err
	}
	if c.QuotaBackendBytes, err = strconv.ParseInt(args[5], 10, 64); err != nil {
		return err
	}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{*peer}, []url.URL{*peer}
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	c.TickMs, c.ElectionMs = 50, 1000 // a busy machine keeps a leader waiting
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	e, err := embed.StartEtcd(c)
	if err != nil {
		return err
	}
	defer e.Close()
	parentGone := make(chan struct{})
	go func() {
		defer close(parentGone)
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	select {
	case <-parentGone:
		return nil
	case err := <-e.Err():
		return err
	}
}
