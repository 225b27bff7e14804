package kubeapplier_test

import (
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
)

// Apps of a confined logical cloud are never applied with the registered kubeconfig: not when
// the user is unknown, not when the cluster signs no certificate, and not while the revision
// was not read.
func TestConfinedAppsNeverUseTheRegisteredCredentials(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		cloud appcontext.Cloud
		known bool
		kind  errs.Kind
		text  string
	}{
		"no user":                 {appcontext.Cloud{Name: "shop+team", Confined: true}, true, errs.Invalid, "names no user"},
		"no signer":               {appcontext.Cloud{Name: "shop+team", Confined: true, User: "team"}, true, errs.NotFound, "certificate for user team"},
		"the revision is unknown": {appcontext.Cloud{}, false, errs.Unavailable, "logical cloud is not loaded yet"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := start(t) // it does not serve certificates.k8s.io
			a := newApplier(t, stored{}, func(pair.Target) (appcontext.Cloud, bool) { return tt.cloud, tt.known })
			results := a.Deliver(t.Context(), pair.TargetOf(key), route.Route{Kubeconfig: seal.Secret(server.Kubeconfig())})
			if len(results) != 1 || !errs.Is(results[0].Err, tt.kind) || !strings.Contains(results[0].Err.Error(), tt.text) {
				t.Errorf("got %+v, want one failure of kind %s about %q", results, tt.kind, tt.text)
			}
			if remove(t, server) {
				t.Error("the app was applied")
			}
		})
	}
}
