package all_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/all"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/storetest"
)

// Every driver keeps the contract; a new line in Drivers is tested by being there.
func TestDriversKeepTheContract(t *testing.T) {
	t.Parallel()
	for name, open := range all.Drivers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			place := filepath.Join(t.TempDir(), "docs.db")
			if err := storetest.Check(t.Context(), func() (store.Driver, error) { return open(place) }); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAnOpenerThatFailsReturnsNoDriver(t *testing.T) {
	t.Parallel()
	for name, open := range all.Drivers() {
		d, err := open(t.TempDir()) // a folder is no database
		if err == nil || d != nil {
			t.Errorf("%s: open of a folder = %s, %v, want no driver and an error", name, fmt.Sprint(d), err)
		}
	}
}
