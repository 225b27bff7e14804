package app

import (
	"context"

	"github.com/gorilla/mux"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/emco/internal/status/gitstatus"
	drivers "github.com/emco-orchestrator/emco/src/emco/internal/store/all"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/keyring"
)

// MountReports adds the routes of reports, whose handlers then have nothing to read from.
func MountReports(r *mux.Router) {
	reportIntake{git: &gitstatus.Source{}}.mount(r, "", nil)
}

// OpenContexts returns the AppContext of a program, and its keys, beside the running program.
func OpenContexts(ctx context.Context, c config.Config, client *clientv3.Client, opts ...appcontext.Option) (*appcontext.Store, error) {
	driver, _, err := drivers.Drivers()[documentDriver(c)](ctx, drivers.Place{
		File: documentsFile(c), Packages: c.Path("packages"), Etcd: etcdkv.New(client, c.Etcd.Prefix, etcdkv.Options{}),
	})
	if err != nil {
		return nil, err
	}
	defer driver.Close()
	p, err := readSealing(c)
	if err != nil {
		return nil, err
	}
	ring := keyring.New()
	if err := p.openKeys(ctx, ring, driver, 0); err != nil {
		return nil, err
	}
	return appcontext.New(client, c.Etcd.Prefix, append(opts, appcontext.WithSealer(ring.Sealer()))...), nil
}
