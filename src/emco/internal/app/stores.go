package app

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/emco-orchestrator/emco/src/api/version"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/embedded"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/shards"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/spend"
	"github.com/emco-orchestrator/emco/src/emco/internal/auditlog"
	"github.com/emco-orchestrator/emco/src/emco/internal/backup"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/emco/internal/generation"
	"github.com/emco-orchestrator/emco/src/emco/internal/keyrotation"
	"github.com/emco-orchestrator/emco/src/emco/internal/logs"
	"github.com/emco-orchestrator/emco/src/emco/internal/run"
	"github.com/emco-orchestrator/emco/src/emco/internal/socket"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	drivers "github.com/emco-orchestrator/emco/src/emco/internal/store/all"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/keyring"
	"github.com/emco-orchestrator/emco/src/emco/internal/storeidentity"
	"github.com/emco-orchestrator/emco/src/git/budget"
)

// openStores are the stores that services share.
type openStores struct {
	level    *shards.Level // of stored data
	compared []run.Service // what compares clocks and settings of processes; none with an embedded etcd, which has one process
	db       *store.DB
	contexts *appcontext.Store
	embedded *embedded.Server // nil for another etcd
	source   backup.Source    // of an embedded etcd
	keys     *keyrotation.Service
	auditLog *auditlog.Log // nil: no audit log

	joined      storeidentity.Stores // documents and contexts
	generations *generation.Service
	allowance   budget.Allowance // of credentials at Git hosts; nil: an embedded etcd has one process
}

func (a *App) openStores(ctx context.Context, c config.Config, p resolvedSettings, m *metrics) (openStores, error) {
	client, server, err := a.openEtcd(ctx, c, p.etcdTLS)
	if err != nil {
		return openStores{}, err
	}
	kv := etcdkv.New(client, c.Etcd.Prefix, etcdkv.Options{Log: a.log, OnRequest: m.etcd.request})
	level, err := a.joinLevel(ctx, c, kv, server != nil)
	if err != nil {
		return openStores{}, err
	}
	m.level(level.InForce)
	name := documentDriver(c)
	driver, blobs, err := a.openDocuments(ctx, name, drivers.Place{
		File: documentsFile(c), Packages: c.Path("packages"), NoFsync: a.noFsync, URI: c.Store.Mongo.URI.Reveal(), Database: c.Store.Mongo.Database,
		Etcd: kv,
	})
	if err != nil {
		return openStores{}, err
	}
	a.onClose(driver.Close)
	ring := keyring.New()
	contexts := appcontext.New(client, c.Etcd.Prefix, appcontext.WithLog(a.log), appcontext.WithOnOp(m.etcd.request), appcontext.WithOnFenced(m.etcdFenced), appcontext.WithSealer(ring.Sealer()))
	joined := storeidentity.Stores{Documents: driver, Contexts: contexts, Places: storePlaces(c, name), Apart: a.apart}
	if err := a.join(ctx, c, joined); err != nil {
		return openStores{}, err
	}
	generations := generation.NewService(joined.Generations(), a.upkeepAfter, generationPeriod, a.log)
	if err := p.sealing.openKeys(ctx, ring, driver, a.keyWait); err != nil {
		return openStores{}, err
	}
	a.faults.etcd(c.Etcd, client)
	db := store.New(store.SealBodies(a.faults.documents(driver), ring.Sealer(), holdsValues), blobs, ring.Sealer())
	if err := db.Settle(ctx); err != nil {
		return openStores{}, fmt.Errorf("repair documents after a crash: %w", err)
	}
	records, err := a.openAuditLog(c, client, m)
	if err != nil {
		return openStores{}, err
	}
	var allowance budget.Allowance
	var compared []run.Service
	skew := func() time.Duration { return 0 } // a process that is alone
	if server == nil {
		allowance = spend.New(kv, ring.Sealer())
		clocks := shards.NewClocks(kv, a.member)
		skew, compared = clocks.Skew, append(compared, clocks, level.Settings())
	}
	m.clocks(skew)
	m.settings(level.Settings().Differing)
	return openStores{
		level: level, compared: compared, allowance: allowance, auditLog: records, db: db, contexts: contexts, embedded: server,
		joined: joined, generations: generations,
		source: backup.Source{Etcd: server, Documents: driver, Blobs: blobs, Driver: name, Folder: c.Data, Hold: generations.Hold},
		keys:   &keyrotation.Service{Ring: ring, Driver: driver, Contexts: contexts, Holds: holdsValues, Pause: a.keyWait / keyLooks, Log: a.log},
	}, nil
}

// generationPeriod is how long a generation of the stores takes: a store that is restored without the other one is found out
// if its backup is older.
const generationPeriod = 10 * time.Minute

// levelSettle is how long all processes must have known a level before it is in force. A process that restarts
// with its old version, because the new one does not work, is back by then.
const levelSettle = time.Minute

// joinLevel announces the level of stored data that this process knows, before it writes anything, and refuses
// stores of a higher one. A process that is alone raises it at once, unless that is left to an operator.
func (a *App) joinLevel(ctx context.Context, c config.Config, kv *etcdkv.Client, alone bool) (*shards.Level, error) {
	settle := cmp.Or(a.settle, levelSettle)
	if alone {
		settle = 0
	}
	own := shards.Program{Version: version.Read().Version, Level: cmp.Or(a.level, appcontext.Level), At: time.Now().UTC()}
	var err error
	if own.Settings, err = c.Common(); err != nil {
		return nil, err
	}
	level := shards.NewLevel(kv, a.member, own, settle)
	if !c.Level.Auto {
		level = level.ByHand()
	}
	if a.upkeepAfter > 0 {
		level = level.WithInterval(a.upkeepAfter)
	}
	if err := a.await(ctx, etcdPlace(c), func() error { return level.Join(ctx) }); err != nil {
		return nil, err
	}
	a.onClose(func() error { return level.Leave(context.Background()) })
	return level, nil
}

// openDocuments opens a store. It waits until a server answers; a file that cannot be opened is an error.
func (a *App) openDocuments(ctx context.Context, name string, p drivers.Place) (driver drivers.Driver, blobs store.Blobs, err error) {
	open := func() error {
		driver, blobs, err = drivers.Drivers()[name](ctx, p)
		return err
	}
	if name == drivers.Mongo {
		err = a.await(ctx, "MongoDB", open)
	} else {
		err = open()
	}
	return driver, blobs, err
}

// documentDriver returns the driver for documents. Without a setting, processes with a common etcd share
// documents there; but a folder of an older version keeps those that it has.
func documentDriver(c config.Config) string {
	if c.Store.Driver != "" {
		return c.Store.Driver
	}
	if _, err := os.Stat(documentsFile(c)); len(c.Etcd.Endpoints) > 0 && errors.Is(err, fs.ErrNotExist) {
		return drivers.Etcd
	}
	return drivers.SQLite
}

func documentsFile(c config.Config) string { return c.Path("documents.db") }

// reclaim returns the function that frees space in an embedded etcd; nil for another etcd.
func (s openStores) reclaim() func(context.Context) error {
	if s.embedded == nil {
		return nil
	}
	return s.embedded.Reclaim
}

// openEtcd connects to the configured etcd, or starts one in the data folder, which it also returns.
func (a *App) openEtcd(ctx context.Context, c config.Config, certs *tls.Config) (*clientv3.Client, *embedded.Server, error) {
	if len(c.Etcd.Endpoints) > 0 {
		client, err := a.dialEtcd(c.Etcd, certs)
		return client, nil, err
	}
	server, err := embedded.Start(ctx, embedded.Options{Dir: c.Path("etcd"), Quota: c.Etcd.Quota, Log: a.log, Refuse: a.disk.Check, NoFsync: a.noFsync})
	if err != nil {
		return nil, nil, err
	}
	a.onClose(server.Close)
	return server.Client(), server, nil
}

func (a *App) dialEtcd(c config.Etcd, certs *tls.Config) (*clientv3.Client, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: c.Endpoints, TLS: certs, Logger: logs.Zap(slog.New(logs.LimitRepeats(a.log.Handler())), "etcd", zapcore.WarnLevel), DialTimeout: 10 * time.Second,
		DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 5 * time.Second, // finds servers that died without closing the connection
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(reconnect)},
	})
	if err != nil {
		return nil, fmt.Errorf("etcd.endpoints: %w", err)
	}
	a.onClose(client.Close)
	return client, nil
}

// reconnect bounds the time until the client connects to a server that is back; gRPC's
// default is up to two minutes.
var reconnect = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 3 * time.Second},
	MinConnectTimeout: 5 * time.Second,
}

// local returns the service for emco backup, emco keys and emco level.
func (a *App) local(c config.Config, st openStores) run.Service {
	mux := http.NewServeMux()
	st.keys.Mount(mux)
	mountLevel(mux, st.level)
	if st.embedded != nil && st.source.Driver != drivers.Mongo { // others are backed up with their own tools
		mux.Handle("GET "+backup.Target, backup.Handler(st.source, a.log))
	}
	return &socket.Service{Path: localSocket(c), Handler: a.recordLocal(mux), Log: a.log}
}

func localSocket(c config.Config) string { return c.Path("emco.sock") }
