package all_test

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/embedded"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/all"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/storetest"
)

// place returns an empty place for a driver.
func place(t *testing.T, name string) all.Place {
	t.Helper()
	server, err := embedded.Start(t.Context(), embedded.Options{Dir: t.TempDir(), NoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	dir, uri := t.TempDir(), os.Getenv("EMCO_MONGO_URI")
	if name == "mongo" && uri == "" {
		t.Skip("set EMCO_MONGO_URI to the address of a server")
	}
	return all.Place{URI: uri, Database: "emco_test_" + strings.ToLower(rand.Text()[:10]), File: filepath.Join(dir, "docs.db"), Packages: filepath.Join(dir, "packages"), Etcd: etcdkv.New(server.Client(), "/emco/", etcdkv.Options{})}
}

// Every driver keeps the contract; a new line in Drivers is tested by being there.
func TestDriversKeepTheContract(t *testing.T) {
	t.Parallel()
	for name, open := range all.Drivers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := place(t, name)
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
			p := place(t, name)
			err := storetest.CheckBlobs(t.Context(), func() (store.Blobs, error) {
				d, blobs, err := open(t.Context(), p)
				if err == nil {
					t.Cleanup(func() { _ = d.Close() }) // not before: it disconnects the packages, too
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
