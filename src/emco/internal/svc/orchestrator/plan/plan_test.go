package plan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize"
	"github.com/emco-orchestrator/emco/src/emco/internal/guard"
	"github.com/emco-orchestrator/emco/src/emco/internal/patch"
)

func clusters(n int) (out []v2.ClusterKey) {
	for i := range n {
		out = append(out, v2.NewClusterKey("p", fmt.Sprintf("c%04d", i)))
	}
	return out
}

// edit returns a patch of the app "web" that puts a value on one cluster.
func edit(value string, cluster v2.ClusterKey) customize.Edit {
	return customize.Edit{App: "web", Clusters: []v2.ClusterKey{cluster}, Origin: "customizations/" + value, Patch: &customize.Patch{
		Target: customize.Target{Kind: "ConfigMap", Name: "r1"}, Type: patch.Merge, Text: fmt.Appendf(nil, `{"data":{"size":%q}}`, value),
	}}
}

func TestTooManyClassesAreRefused(t *testing.T) {
	t.Parallel()
	all := clusters(maxClasses + 1)
	a := App{Name: "web"}
	a.Decision.Clusters = all
	for i, c := range all {
		a.Edits = append(a.Edits, edit(fmt.Sprint(i), c))
	}
	if err := checkClasses([]App{a}); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "1001 different contents, above the limit of 1000") {
		t.Errorf("checkClasses = %v", err)
	}
	a.Decision.Clusters = all[1:]
	if err := checkClasses([]App{a}); err != nil {
		t.Errorf("at the limit: %v", err)
	}
}

// Classes are compared with those of earlier versions by digests.
func TestTheDigestOfPoliciesThatEncryptStaysTheSame(t *testing.T) {
	t.Parallel()
	d := Policies{guard.FromSpec("walls", v2.PolicySpec{Secrets: v2.SecretsSeal})}.Digest("sha256:c")
	if d != "480f8c627a34f3ed10b78db4de9bbbd677448947fe0ea861cbfba3bfa22c5d19" {
		t.Errorf("the digest is %s", d)
	}
}
