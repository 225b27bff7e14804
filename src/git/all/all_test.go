package all_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/all"
	"github.com/emco-orchestrator/emco/src/git/gittest"
)

// Every host keeps the contract; a new line in Hosts is tested by being there.
func TestHostsKeepTheContract(t *testing.T) {
	t.Parallel()
	hosts := all.Hosts(all.Options{})
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, err := gittest.Serve(t.TempDir(), gittest.User{Name: "emco", Token: "t", Write: true})
			if err != nil {
				t.Fatal(err)
			}
			defer srv.Close()
			bare, err := srv.CreateRepo(t.Context(), "r", "main")
			if err != nil {
				t.Fatal(err)
			}
			if err := gittest.Check(t.Context(), hosts[name], git.Repo{URL: srv.URL("r"), User: "emco", Token: "t"}, bare.Dir); err != nil {
				t.Error(err)
			}
		})
	}
}
