// Package all lists the drivers for documents.
package all

import (
	"context"
	"io"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/blobdir"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/etcd"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/mongo"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/sqlite"
)

// Driver is an open driver; the caller of its opener closes it.
type Driver interface {
	store.Driver
	io.Closer
}

// Place is where documents and packages are. Each driver reads its own fields.
type Place struct {
	File     string         // sqlite: the database file
	Packages string         // sqlite: the folder of packages
	NoFsync  bool           // sqlite, for tests only: writes may be lost when the machine stops
	Etcd     *etcdkv.Client // etcd: the caller closes its connection after the driver
	URI      string         // mongo: the address of the server, which may hold a password
	Database string         // mongo: the name of the database
}

// Opener opens the documents and the packages at a place.
type Opener func(ctx context.Context, p Place) (Driver, store.Blobs, error)

// The names of the drivers, as the configuration has them.
const (
	Etcd   = "etcd"
	Mongo  = "mongo"
	SQLite = "sqlite"
)

// Drivers returns the openers by the name that the configuration uses.
func Drivers() map[string]Opener {
	return map[string]Opener{
		Etcd:   openEtcd,
		Mongo:  openMongo,
		SQLite: openSQLite,
	}
}

func openSQLite(_ context.Context, p Place) (Driver, store.Blobs, error) {
	var options []sqlite.Option
	if p.NoFsync {
		options = append(options, sqlite.WithoutFsync())
	}
	d, err := sqlite.Open(p.File, options...)
	if err != nil {
		return nil, nil, err
	}
	blobs, err := blobdir.Open(p.Packages)
	if err != nil {
		_ = d.Close()
		return nil, nil, err
	}
	return d, blobs, nil
}

func openMongo(ctx context.Context, p Place) (Driver, store.Blobs, error) {
	d, blobs, err := mongo.Open(ctx, p.URI, p.Database)
	if err != nil {
		return nil, nil, err
	}
	return d, blobs, nil
}

func openEtcd(_ context.Context, p Place) (Driver, store.Blobs, error) {
	return etcd.New(p.Etcd), etcd.NewBlobs(p.Etcd), nil
}
