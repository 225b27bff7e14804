package app_test

import (
	"io"
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

// distantEtcd starts an etcd that receives requests and returns answers with a delay. It
// returns its address.
func distantEtcd(t *testing.T, delay time.Duration) string {
	t.Helper()
	c := embed.NewConfig()
	c.Dir, c.LogLevel, c.UnsafeNoFsync = filepath.Join(t.TempDir(), "etcd"), "fatal", true
	c.ListenPeerUrls = nil
	c.ListenClientUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	e, err := embed.StartEtcd(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	<-e.Server.ReadyNotify()
	return "http://" + slowLink(t, e.Clients[0].Addr().String(), delay)
}

// slowLink forwards connections to an address; what is sent arrives later by delay, in
// both directions.
func slowLink(t *testing.T, to string, delay time.Duration) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			go relay(near, to, delay)
		}
	}()
	return l.Addr().String()
}

func relay(near net.Conn, to string, delay time.Duration) {
	far, err := net.Dial("tcp", to)
	if err != nil {
		_ = near.Close()
		return
	}
	shut := sync.OnceFunc(func() { _, _ = near.Close(), far.Close() })
	go carry(near, far, delay, shut)
	carry(far, near, delay, shut)
}

// delayedChunk is what was read at one moment.
type delayedChunk struct {
	content []byte
	due     time.Time
}

// carry copies from one side to the other, each parcel late by delay; parcels do not wait
// for each other.
func carry(from, to net.Conn, delay time.Duration, shut func()) {
	under := make(chan delayedChunk, 1024)
	go func() {
		defer shut()
		for p := range under {
			time.Sleep(time.Until(p.due))
			if _, err := to.Write(p.content); err != nil {
				break
			}
		}
		for range under { // the reader must not be held up
		}
	}()
	defer close(under)
	for {
		b := make([]byte, 32<<10)
		n, err := from.Read(b)
		if n > 0 {
			under <- delayedChunk{b[:n], time.Now().Add(delay)}
		}
		if err != nil {
			if err != io.EOF {
				shut()
			}
			return
		}
	}
}
