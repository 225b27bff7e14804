package app_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/emco/internal/app"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// The doctor finds nothing wrong in whole stores, and names what a partial restore lost.
func TestDoctorComparesTheStores(t *testing.T) {
	t.Parallel()
	s := newStageWith(t, onSQLite)
	s.running("a")
	s.stop()
	text, err := config.Print(s.config)
	s.must("print the configuration", err)
	file := filepath.Join(s.dir, "emco.yaml")
	s.must("write the configuration", os.WriteFile(file, text, 0o600))
	doctor := func(code int, contains ...string) {
		t.Helper()
		var out, errs bytes.Buffer
		got := app.Main([]string{"doctor", "-config", file}, app.IO{In: strings.NewReader(""), Out: &out, Err: &errs})
		for _, c := range contains {
			if got != code || !strings.Contains(out.String(), c) {
				t.Errorf("code %d, %s%s; want %d and %q", got, out.String(), errs.String(), code, c)
			}
		}
	}
	doctor(0, "the stores agree")

	packages, err := filepath.Glob(s.config.Path("packages", "??", "*"))
	if err != nil || len(packages) == 0 {
		t.Fatalf("packages: %v, %v", packages, err)
	}
	for _, file := range packages {
		s.must("remove a package", os.Remove(file))
	}
	s.inside(func(ctx context.Context, _ *store.DB, etcd *clientv3.Client) {
		_, err := etcd.Delete(ctx, s.config.Etcd.Prefix+"blob/", clientv3.WithPrefix())
		s.must("remove content", err)
	})
	doctor(1, "web: its package ", "needs it: ", "faults; docs/guides/backup.md")
}
