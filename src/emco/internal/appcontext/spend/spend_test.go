package spend_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdtest"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/spend"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/budget"
)

var (
	must     = etcdtest.Must
	wantKind = etcdtest.WantKind
)

func TestMain(m *testing.M) {
	if code, asked := etcdtest.Main(os.Args); asked {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

var repo = git.Repo{URL: "https://github.com/org/fleet.git", User: "u", Token: "secret-token", Provider: "github"}

// sealer has the data key of all processes.
var sealer = seal.New(seal.NewKey())

// process returns the budget of a process with a client of its own.
func process(t *testing.T, client *clientv3.Client, prefix string, o etcdkv.Options, rates budget.Rates) *budget.Budget {
	b := budget.New(budget.Options{
		Allowance: spend.New(etcdkv.New(client, prefix, o), sealer), Rates: func(git.Repo) budget.Rates { return rates },
	})
	t.Cleanup(func() { must(t, b.Close()) })
	return b
}

// Five processes with clients of their own spend what a credential may save up: never more, and at least nine
// tenths of it, in few transactions.
func TestProcessesShareALimitInEtcd(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 1, etcdtest.Options{})
	prefix := etcdtest.Prefix(t)
	rates := budget.Rates{CallsHour: 20000}
	// A quarter of the limit, less what arrives in a twentieth of the hour; 4.2 arrive each second.
	atOnce := 20000/4 - 15000/20
	var requests, spent atomic.Int64
	o := etcdkv.Options{OnRequest: func(kind string, _ int) {
		if kind == "txn" {
			requests.Add(1)
		}
	}}
	start := time.Now()
	var wg sync.WaitGroup
	for range 5 {
		b := process(t, cluster.Client(), prefix, o, rates)
		for range 4 {
			wg.Go(func() {
				for spent.Load() < int64(2*atOnce) {
					ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
					err := b.Spend(ctx, repo, git.Cost{Calls: 1})
					cancel()
					switch {
					case err == nil:
						spent.Add(1)
					case errs.Is(err, errs.Throttled):
						return
					case !errors.Is(err, context.DeadlineExceeded): // etcd is slow
						t.Error(err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
	most := atOnce + int(time.Since(start).Seconds()*15000/3600) + 1
	if got := int(spent.Load()); got > most || got < atOnce*9/10 {
		t.Errorf("%d calls, want %d to %d", got, atOnce*9/10, most)
	}
	if got := requests.Load(); got > 400 {
		t.Errorf("%d transactions for %d calls, want at most 400, with those in which another process was faster", got, spent.Load())
	}
	t.Logf("%d of %d calls in %d transactions", spent.Load(), most, requests.Load())
	wantStored(t, cluster.Client(), prefix)
}

// wantStored wants one value on a lease, without any part of the credential.
func wantStored(t *testing.T, client *clientv3.Client, prefix string) {
	t.Helper()
	r, err := client.Get(t.Context(), prefix+"/spend/", clientv3.WithPrefix())
	must(t, err)
	if len(r.Kvs) != 1 || r.Kvs[0].Lease == 0 {
		t.Fatalf("%v, want one value on a lease", r.Kvs)
	}
	lease, err := client.TimeToLive(t.Context(), clientv3.LeaseID(r.Kvs[0].Lease))
	must(t, err)
	if lease.GrantedTTL != 7200 {
		t.Errorf("the lease lasts %d s, want 7200", lease.GrantedTTL)
	}
	sum := sha256.Sum256([]byte("secret-token"))
	for _, secret := range []string{"secret-token", hex.EncodeToString(sum[:])} {
		if text := fmt.Sprintf("%s %s", r.Kvs[0].Key, r.Kvs[0].Value); strings.Contains(text, secret) {
			t.Errorf("%s holds the credential", text)
		}
	}
}

// While etcd is lost a process spends what it holds, then refuses within seconds; afterwards it goes on.
func TestALostEtcdRefuses(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 1, etcdtest.Options{})
	b := process(t, cluster.Client(), etcdtest.Prefix(t), etcdkv.Options{}, budget.Rates{CallsHour: 20000})
	call := git.Cost{Calls: 1}
	for range 10 {
		must(t, b.Spend(t.Context(), repo, call))
	}
	cluster.Pause(0)
	var err error
	spent := 0
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a process that waits for etcd gets another error
	defer cancel()
	for err == nil && spent < 20000 {
		err = b.Spend(ctx, repo, call)
		spent++
	}
	wantKind(t, err, errs.Unavailable)
	if spent > 1000 {
		t.Errorf("refused after %d calls, want after what the process held", spent)
	}
	cluster.Resume(0)
	for end := time.Now().Add(30 * time.Second); ; {
		if err = b.Spend(t.Context(), repo, call); err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("with etcd: %v", err)
		}
	}
}

// A lease that etcd does not know, as after a restore of a backup, is replaced.
func TestALostLeaseIsReplaced(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 1, etcdtest.Options{})
	client := cluster.Client()
	s := spend.New(etcdkv.New(client, etcdtest.Prefix(t), etcdkv.Options{}), sealer)
	change := func(l *budget.SharedTokens) bool { l.Until = time.Now(); return true }
	must(t, s.Change(t.Context(), "a", change))
	all, err := client.Leases(t.Context())
	must(t, err)
	for _, l := range all.Leases {
		_, err := client.Revoke(t.Context(), l.ID)
		must(t, err)
	}
	must(t, s.Change(t.Context(), "a", change))
}

// Processes of an installation have the same name for a credential. Who reads etcd cannot compute it for a guessed
// credential, and no error holds it.
func TestNamesOfCredentialsAreSecret(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, 1, etcdtest.Options{})
	client := cluster.Client()
	const credential = "0123456789abcdef"
	names := func(prefix string) (out []string) {
		var wg sync.WaitGroup
		for range 5 { // at once, so one of them makes the secret
			s := spend.New(etcdkv.New(client, prefix, etcdkv.Options{}), sealer)
			wg.Go(func() {
				if err := s.Change(t.Context(), credential, func(l *budget.SharedTokens) bool { l.Until = time.Now(); return true }); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		r, err := client.Get(t.Context(), prefix+"/spend/", clientv3.WithPrefix())
		must(t, err)
		for _, kv := range r.Kvs {
			out = append(out, strings.TrimPrefix(string(kv.Key), prefix+"/spend/"))
		}
		return out
	}
	prefix := etcdtest.Prefix(t)
	one, other := names(prefix+"/one"), names(prefix+"/other")
	if len(one) != 1 || len(other) != 1 || one[0] == other[0] {
		t.Fatalf("the names %q and %q, want one for each installation, and not the same", one, other)
	}
	sum := sha256.Sum256([]byte(credential))
	for _, guess := range []string{credential, hex.EncodeToString(sum[:])} {
		if strings.Contains(one[0], guess) {
			t.Errorf("the name %s can be computed", one[0])
		}
	}
	foreign := spend.New(etcdkv.New(client, prefix+"/one", etcdkv.Options{}), seal.New(seal.NewKey()))
	if err := foreign.Change(t.Context(), credential, func(*budget.SharedTokens) bool { return true }); err == nil {
		t.Error("a process without the data key finds the name")
	}

	s := spend.New(etcdkv.New(client, prefix+"/one", etcdkv.Options{Timeout: time.Second}), sealer)
	must(t, s.Change(t.Context(), credential, func(*budget.SharedTokens) bool { return false }))
	cluster.Pause(0)
	err := s.Change(t.Context(), credential, func(*budget.SharedTokens) bool { return true })
	cluster.Resume(0)
	wantKind(t, err, errs.Unavailable)
	for _, part := range []string{one[0], credential, "/spend"} {
		if strings.Contains(err.Error(), part) {
			t.Errorf("%v holds %s", err, part)
		}
	}
}
