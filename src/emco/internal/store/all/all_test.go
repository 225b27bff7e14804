package all_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/embedded"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/all"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/storetest"
)

// place returns an empty place for every driver.
func place(t *testing.T) all.Place {
	t.Helper()
	server, err := embedded.Start(t.Context(), embedded.Options{Dir: t.TempDir(), NoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	dir := t.TempDir()
	return all.Place{File: filepath.Join(dir, "docs.db"), Packages: filepath.Join(dir, "packages"), Etcd: etcdkv.New(server.Client(), "/emco/", etcdkv.Options{})}
}

// Every driver keeps the contract; a new line in Drivers is tested by being there.
func TestDriversKeepTheContract(t *testing.T) {
	t.Parallel()
	for name, open := range all.Drivers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := place(t)
			err := storetest.Check(t.Context(), func() (store.Driver, error) {
				d, _, err := open(t.Context(), p)
				return d, err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

func TestDriversKeepTheContractForPackages(t *testing.T) {
	t.Parallel()
	for name, open := range all.Drivers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := place(t)
			err := storetest.CheckBlobs(t.Context(), func() (store.Blobs, error) {
				d, blobs, err := open(t.Context(), p)
				if err == nil {
					err = d.Close()
				}
				return blobs, err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAnOpenerThatFailsReturnsNoDriver(t *testing.T) {
	t.Parallel()
	folder := all.Place{File: t.TempDir()} // a folder is no database
	d, blobs, err := all.Drivers()["sqlite"](t.Context(), folder)
	if err == nil || d != nil || blobs != nil {
		t.Errorf("open of a folder = %s, %v, want no driver and an error", fmt.Sprint(d, blobs), err)
	}
}
