package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/shards"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	drivers "github.com/emco-orchestrator/emco/src/emco/internal/store/all"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/transfer"
)

// migrate copies the documents and packages of one driver to another.
func migrate(ctx context.Context, c config.Config, from, to string, out io.Writer) (err error) {
	a, p, err := offline(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.close()) }()
	client, server, err := a.openEtcd(ctx, c, p.etcdTLS)
	if err != nil {
		return err
	}
	kv := etcdkv.New(client, c.Etcd.Prefix, etcdkv.Options{Log: a.log})
	if server == nil { // an embedded one has a lock
		others, err := running(ctx, c, kv)
		if err == nil {
			err = wantStopped(others)
		}
		if err != nil {
			return err
		}
	}
	if _, err := a.joinLevel(ctx, c, kv, server != nil); err != nil {
		return err
	}
	place := drivers.Place{
		File: documentsFile(c), Packages: c.Path("packages"), URI: c.Store.Mongo.URI.Reveal(), Database: c.Store.Mongo.Database,
		Etcd: kv,
	}
	open := func(name string) (drivers.Driver, store.Blobs, error) {
		d, blobs, err := drivers.Drivers()[name](ctx, place)
		if err == nil {
			a.onClose(d.Close)
		}
		return d, blobs, err
	}
	source, packages, err := open(from)
	if err != nil {
		return err
	}
	target, targetPackages, err := open(to)
	if err != nil {
		return err
	}
	n, missing, err := transfer.Copy(ctx, source, packages, target, targetPackages)
	if err != nil {
		return err
	}
	for _, digest := range missing {
		_, _ = fmt.Fprintf(out, "package %s is missing in %s: upload it again\n", digest, from)
	}
	_, err = fmt.Fprintf(out, "%s has the %d documents of %s, compared one by one; start all processes with -store.driver=%s, and keep %s until they work\n", to, n, from, to, from)
	return err
}

// running returns the names of the processes that run. A killed one is gone when its lease ends.
func running(ctx context.Context, c config.Config, kv *etcdkv.Client) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandPatience)
	defer cancel()
	names, err := shards.Running(ctx, kv)
	if err != nil {
		return nil, fmt.Errorf("%s did not answer which processes run: %w", etcdPlace(c), err)
	}
	return names, nil
}

// wantStopped wants no running process: its writes would be lost.
func wantStopped(names []string) error {
	if len(names) > 0 {
		return fmt.Errorf("processes still run, stop them first: %s", strings.Join(names, ", "))
	}
	return nil
}
