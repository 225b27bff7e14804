// Package etcdtest runs etcd servers as processes of their own, so that tests can stop
// them in their tracks, kill them and start them again. Each is the test program itself,
// called by another name: TestMain has to call Main first.
package etcdtest

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"runtime"
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

// argument is the first one of a test program that is to be a member.
const argument = "etcd-member"

// patience is how long a server may take to serve.
const patience = 30 * time.Second

// Options say how members run.
type Options struct {
	Quota int64 // bytes of the database; 0 is etcd's own default
}

// Cluster is some members of one etcd. Its methods fail the test on errors.
type Cluster struct {
	t       testing.TB
	members []*member
}

// member is one server, which may be running.
type member struct {
	args    []string
	address string // of clients
	cmd     *exec.Cmd
	in      io.Closer // the child ends when it is closed
	ended   chan struct{}
}

// Start runs n members until the test ends. It returns when they have a leader.
func Start(t testing.TB, n int, o Options) *Cluster {
	t.Helper()
	c := &Cluster{t: t}
	var peers, names []string
	for i := range n {
		peer := free(t)
		names = append(names, fmt.Sprint("m", i))
		peers = append(peers, names[i]+"=http://"+peer)
	}
	for i, name := range names {
		c.members = append(c.members, &member{address: free(t), args: []string{
			argument, name, t.TempDir(), strings.TrimPrefix(peers[i], name+"="), "", strings.Join(peers, ","), strconv.FormatInt(o.Quota, 10),
		}})
		c.members[i].args[4] = "http://" + c.members[i].address
		c.launch(i)
		t.Cleanup(func() { c.members[i].kill() })
	}
	c.Leader()
	return c
}

// free is an address of this machine on which nobody listens. It is outside of the range
// that the kernel gives to others, because a server that was killed wants it back.
func free(t testing.TB) string {
	t.Helper()
	for {
		address := fmt.Sprintf("127.0.0.1:%d", 20000+rand.N(12000))
		l, err := net.Listen("tcp", address)
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return address
	}
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
	for end := time.Now().Add(patience); time.Now().Before(end); {
		for i := range c.members {
			if c.leads(i) {
				return i
			}
		}
	}
	c.t.Fatal("etcd has no leader")
	panic("not reached")
}

// leads asks a member whether it is the leader, for as long as a second.
func (c *Cluster) leads(i int) bool {
	m := c.members[i]
	if m.cmd == nil {
		return false
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://" + m.address}, Logger: zap.NewNop()})
	if err != nil {
		return false
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if _, err := client.Get(ctx, "x"); err != nil { // one that was asleep may still think that it leads
		return false
	}
	s, err := client.Status(ctx, "http://"+m.address)
	return err == nil && s.Leader == s.Header.MemberId
}

// Pause stops a member in its tracks; its connections stay open. It returns when none of
// the member's threads runs any more.
func (c *Cluster) Pause(i int) {
	c.t.Helper()
	c.signal(i, syscall.SIGSTOP)
	for end := time.Now().Add(patience); !stopped(c.members[i].cmd.Process.Pid); {
		if time.Now().After(end) {
			c.t.Fatal("the member does not stop")
		}
	}
}

// Resume lets a paused member go on.
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

// Main is a member if args, which are os.Args, say so: it serves until it is killed, or
// its parent is gone, and returns its exit code. Otherwise asked is false.
func Main(args []string) (code int, asked bool) {
	if len(args) != 8 || args[1] != argument {
		return 0, false
	}
	if err := serve(args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "etcd:", err)
		return 1, true
	}
	return 0, true
}

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
	c.TickMs, c.ElectionMs = 50, 500
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
