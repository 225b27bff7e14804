package etcdtest

import (
	"context"
	cryptorand "crypto/rand"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/goleak"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/embedded"
)

// RunShared runs the tests of a package with one etcd inside the test program. It gives use
// the client before the tests begin, and returns the exit code for TestMain: tests that leave
// goroutines behind fail. Each test needs a Prefix.
func RunShared(m *testing.M, use func(*clientv3.Client)) int {
	before := goleak.IgnoreCurrent()
	code, err := runShared(m, use)
	if err == nil {
		err = goleak.Find(before)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

func runShared(m *testing.M, use func(*clientv3.Client)) (code int, err error) {
	dir, err := os.MkdirTemp("", "etcdtest")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	SmallLog()
	server, err := embedded.Start(context.Background(), embedded.Options{Dir: dir, NoFsync: true})
	if err != nil {
		return 1, err
	}
	use(server.Client())
	code = m.Run()
	return code, server.Close()
}

// SmallLog has servers that start later in this process allocate a MiB of their log at a time. etcd's own
// 64 MiB, and as much for the next file, cost much when files of tests are in memory. Only TestMain may call it,
// before anything starts a server.
func SmallLog() { wal.SegmentSizeBytes = 1 << 20 }

// Noise returns n bytes that do not compress, always the same for one seed.
func Noise(n int, seed uint64) []byte {
	b := make([]byte, n)
	r := rand.New(rand.NewPCG(seed, 1))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// Prefix returns a prefix of keys for a test. No other test has it, nor another run of this one.
func Prefix(t testing.TB) string {
	return "/" + strings.ReplaceAll(t.Name(), "/", "_") + "-" + cryptorand.Text()
}
