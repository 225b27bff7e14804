package kubeapplier_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/fairshare"
	"github.com/emco-orchestrator/emco/src/emco/internal/route"
	"github.com/emco-orchestrator/emco/src/emco/internal/sink/kube"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/content"
	deliver "github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/deliver/kubeapplier"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
)

// Apps of a confined logical cloud are never applied with the registered kubeconfig: not when
// the user is unknown, not when the cluster signs no certificate, and not while the revision
// was not read.
func TestConfinedAppsNeverUseTheRegisteredCredentials(t *testing.T) {
	t.Parallel()
	key := appcontext.PairKey{Cluster: "edge+c1", Deployment: "7", App: "web"}
	for name, tt := range map[string]struct {
		cloud appcontext.Cloud
		known bool
		kind  errs.Kind
		text  string
	}{
		"no user":                 {appcontext.Cloud{Name: "shop+team", Confined: true}, true, errs.Invalid, "names no user"},
		"no signer":               {appcontext.Cloud{Name: "shop+team", Confined: true, User: "team"}, true, errs.NotFound, "certificate for user team"},
		"the revision is unknown": {appcontext.Cloud{}, false, errs.Unavailable, "logical cloud is not known yet"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := start(t) // it does not serve certificates.k8s.io
			reader := content.NewReader(stored{})
			a := deliver.NewApplier(t.Context(), deliver.Options{
				Sink: kube.New(kube.Options{}), Content: reader, Plans: content.NewStepPlans(reader),
				Permits: fairshare.New(fairshare.Options{Permits: 1}), Project: func(pair.Target) string { return "shop" },
				Pairs: func(pair.Target) []appcontext.Pair {
					return []appcontext.Pair{{Key: key, Desired: bundle, Change: appcontext.Install, Phase: appcontext.Pending}}
				},
				Cloud:  func(pair.Target) (appcontext.Cloud, bool) { return tt.cloud, tt.known },
				Report: func(context.Context, appcontext.Report) {}, Log: slog.New(slog.DiscardHandler),
			})
			defer a.Stop()
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
