package app_test

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/emco-orchestrator/emco/src/api/certtest"
	"github.com/emco-orchestrator/emco/src/emco/internal/app"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
)

// guardedEtcd is an etcd with TLS and roles: the common name of a client's certificate is its user.
type guardedEtcd struct {
	t         *testing.T
	dir       string
	endpoint  string
	authority certtest.Authority
}

// newGuardedEtcd starts an etcd whose user "emco" may read and write what begins with a prefix, and nothing else.
func newGuardedEtcd(t *testing.T, prefix string) guardedEtcd {
	t.Helper()
	g := guardedEtcd{t: t, dir: t.TempDir(), authority: certtest.New(t)}
	g.authority.Write(t, g.file("ca.crt"))
	g.pair("server", g.authority, time.Now().Add(time.Hour))
	c := embed.NewConfig()
	c.Dir, c.UnsafeNoFsync, c.ListenPeerUrls, c.ListenMetricsUrls = filepath.Join(g.dir, "data"), true, nil, nil
	c.ListenClientUrls = []url.URL{{Scheme: "https", Host: "127.0.0.1:0"}}
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	c.ClientTLSInfo.CertFile, c.ClientTLSInfo.KeyFile = g.file("server.crt"), g.file("server.key")
	c.ClientTLSInfo.TrustedCAFile, c.ClientTLSInfo.ClientCertAuth = g.file("ca.crt"), true
	c.EnableGRPCGateway = false // it would be a client without a certificate
	server, err := embed.StartEtcd(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	<-server.Server.ReadyNotify()
	g.endpoint = "https://" + server.Clients[0].Addr().String()

	root := g.client("root")
	for _, err := range []error{
		second(root.UserAddWithOptions(t.Context(), "root", "", &clientv3.UserAddOptions{NoPassword: true})),
		second(root.UserGrantRole(t.Context(), "root", "root")),
		second(root.UserAddWithOptions(t.Context(), "emco", "", &clientv3.UserAddOptions{NoPassword: true})),
		second(root.RoleAdd(t.Context(), "emco")),
		second(root.RoleGrantPermission(t.Context(), "emco", prefix, clientv3.GetPrefixRangeEnd(prefix), clientv3.PermissionType(clientv3.PermReadWrite))),
		second(root.UserGrantRole(t.Context(), "emco", "emco")),
		second(root.AuthEnable(t.Context())),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return g
}

func second[T any](_ T, err error) error { return err }

func (g guardedEtcd) file(name string) string { return filepath.Join(g.dir, name) }

// pair writes a certificate of an authority, and its key.
func (g guardedEtcd) pair(name string, a certtest.Authority, end time.Time) {
	g.t.Helper()
	certtest.WritePair(g.t, g.file(name+".crt"), g.file(name+".key"), a.IssueUntil(g.t, name, end))
}

// client returns a client that is a user.
func (g guardedEtcd) client(user string) *clientv3.Client {
	g.t.Helper()
	g.pair(user, g.authority, time.Now().Add(time.Hour))
	pair, err := tls.LoadX509KeyPair(g.file(user+".crt"), g.file(user+".key"))
	if err != nil {
		g.t.Fatal(err)
	}
	c, err := clientv3.New(clientv3.Config{
		Endpoints: []string{g.endpoint}, Logger: zap.NewNop(), TLS: &tls.Config{RootCAs: g.authority.Pool(), Certificates: []tls.Certificate{pair}},
	})
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { _ = c.Close() })
	return c
}

// settings are those of a program that is the user "emco".
func (g guardedEtcd) settings(c *config.Config) {
	c.Etcd.Endpoints, c.Etcd.CA, c.Etcd.Cert, c.Etcd.CertKey = []string{g.endpoint}, g.file("ca.crt"), g.file("emco.crt"), g.file("emco.key")
}

// S-27: a program with TLS to etcd, and a role for its prefix alone, does everything. Renewed certificates need no restart.
func TestS27EtcdWithARoleForThePrefix(t *testing.T) {
	t.Parallel()
	g := newGuardedEtcd(t, "/emco/")
	end := time.Now().Add(time.Hour)
	g.pair("emco", g.authority, end)
	s := newStageWith(t, g.settings)
	if got, err := strconv.ParseFloat(s.metric(`emco_client_certificate_end_timestamp_seconds{setting="etcd.cert"}`), 64); err != nil || int64(got) != end.Unix() {
		t.Errorf("the metric shows the end %v, %v, want %d", got, err, end.Unix())
	}
	d := s.running("a")
	d.act("update")
	d.becomes("Instantiated")
	d.act("terminate")
	d.becomes("Terminated")
	if r, err := g.client("root").Get(t.Context(), "", clientv3.WithFromKey(), clientv3.WithKeysOnly()); err != nil || len(r.Kvs) == 0 {
		t.Errorf("etcd holds %v, %v", r, err)
	} else {
		for _, kv := range r.Kvs {
			if !strings.HasPrefix(string(kv.Key), "/emco/") {
				t.Errorf("the key %s is outside of the prefix", kv.Key)
			}
		}
	}
	s.stop()
	s.start() // with the data of its first run
}

// S-27: a program that etcd does not trust, or that does not trust etcd, writes nothing and logs the reason.
func TestS27EtcdThatIsNotTrusted(t *testing.T) {
	t.Parallel()
	ended := time.Now().Add(-time.Minute)
	for name, c := range map[string]struct {
		spoil func(g guardedEtcd, c *config.Config)
		want  string // in the log of a start that waits, or in the error of one that fails
		waits bool
	}{
		"etcd has a certificate of another authority": {func(g guardedEtcd, _ *config.Config) {
			certtest.New(g.t).Write(g.t, g.file("ca.crt"))
		}, "certificate signed by unknown authority", true},
		"etcd's certificate has expired": {func(g guardedEtcd, _ *config.Config) {
			g.pair("server", g.authority, ended)
		}, "certificate has expired", true},
		"our certificate is of another authority": {func(g guardedEtcd, _ *config.Config) {
			g.pair("emco", certtest.New(g.t), time.Now().Add(time.Hour))
		}, "tls: ", true},
		"our certificate has expired": {func(g guardedEtcd, _ *config.Config) {
			g.pair("emco", g.authority, ended)
		}, "expired certificate", true},
		"our certificate names nobody whom etcd knows": {func(g guardedEtcd, c *config.Config) {
			g.pair("stranger", g.authority, time.Now().Add(time.Hour))
			c.Etcd.Cert, c.Etcd.CertKey = g.file("stranger.crt"), g.file("stranger.key")
		}, "must be allowed to read and write what begins with etcd.prefix", false},
		"the prefix is that of others": {func(_ guardedEtcd, c *config.Config) { c.Etcd.Prefix = "/others/" }, "must be allowed to read and write what begins with etcd.prefix", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGuardedEtcd(t, "/emco/")
			g.pair("emco", g.authority, time.Now().Add(time.Hour))
			set := config.Default()
			set.Data, set.HTTP.Address, set.GRPC.Address = t.TempDir(), "127.0.0.1:0", "127.0.0.1:0"
			g.settings(&set)
			c.spoil(g, &set)
			var log logBuffer
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if c.waits {
				go func() { // until the log has the reason
					log.await(ctx, c.want)
					cancel()
				}()
			}
			_, err := app.New(ctx, set, slog.New(slog.NewJSONHandler(&log, nil)), cheap()...)
			text := log.String()
			if !c.waits && err != nil {
				text = err.Error()
			}
			if err == nil || !strings.Contains(text, c.want) || errors.Is(ctx.Err(), context.DeadlineExceeded) {
				t.Errorf("the start: %v, want one that says %q:\n%s", err, c.want, log.tail(5))
			}
		})
	}
}
