package app_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// forbidden maps packages that the program must not link to the reason. A name stands for itself
// and for all packages below it.
var forbidden = map[string]string{
	"helm.sh/helm/v3/pkg/action":                     "charts are rendered without a cluster; it brings a Kubernetes client, registries and releases",
	"helm.sh/helm/v3/pkg/registry":                   "charts come by upload; nothing is pulled while rendering",
	"helm.sh/helm/v3/pkg/kube":                       "objects reach clusters by our own sink only",
	"sigs.k8s.io/controller-runtime":                 "there is no controller manager here: rsync compares and applies itself",
	"github.com/argoproj":                            "Argo CD's types bring Argo CD; what it reads is a few lines of YAML",
	"k8s.io/kubectl":                                 "apply, prune and wait are our own",
	"k8s.io/apiserver":                               "nothing here serves a Kubernetes API",
	"go.mongodb.org/mongo-driver":                    "version 1 of the driver is not maintained; a store for MongoDB takes version 2",
	"github.com/go-git/go-git/v5":                    "the complete client has work trees and walks whole repositories to push; only its plumbing is used",
	"github.com/go-git/go-git/v5/plumbing/transport": "we speak the protocol ourselves; it brings ssh and http clients of its own",
	"github.com/spf13/cobra":                         "a server has flags and no tree of commands",
	"github.com/spf13/viper":                         "configuration is one struct, read strictly by our own package",
	"go.temporal.io":                                 "emco-temporal has the client of Temporal; it brings test libraries",
	"github.com/stretchr/testify":                    "it is for tests, and not used there either",
	"github.com/mattn/go-sqlite3":                    "it needs cgo; the program is built without",
	"testing":                                        "test code does not belong into the program",
}

// only are packages that are allowed below a forbidden name, with those below them.
var only = []string{
	"sigs.k8s.io/controller-runtime/pkg/scheme", // three small types that Flux's API packages register with
	"go.mongodb.org/mongo-driver/v2",
}

// exact are forbidden names that stand for themselves alone.
var exact = map[string]bool{"github.com/go-git/go-git/v5": true, "testing": true}

// It is not a test of cmd/emco, because go test would link the whole program once more. A cached result counts while
// nothing changes that this program links, and no file that the test opens.
func TestWhatIsNotLinked(t *testing.T) {
	t.Parallel()
	const program = "../../cmd/emco"
	if _, err := os.ReadFile(program + "/main.go"); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", program).Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := strings.Fields(string(out))
	if len(packages) < 300 {
		t.Fatalf("go list names %d packages only", len(packages))
	}
	for _, p := range packages {
		if name, why := refusal(p); why != "" {
			t.Errorf("%s is linked; %s: %s", p, name, why)
		}
	}
}

func refusal(pkg string) (name, why string) {
	for _, ok := range only {
		if pkg == ok || strings.HasPrefix(pkg, ok+"/") {
			return "", ""
		}
	}
	for name, why := range forbidden {
		if pkg == name || !exact[name] && strings.HasPrefix(pkg, name+"/") {
			return name, why
		}
	}
	return "", ""
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for pkg, bad := range map[string]bool{
		"helm.sh/helm/v3/pkg/action":                         true,
		"helm.sh/helm/v3/pkg/engine":                         false,
		"sigs.k8s.io/controller-runtime/pkg/manager":         true,
		"sigs.k8s.io/controller-runtime/pkg/scheme":          false,
		"github.com/go-git/go-git/v5":                        true,
		"github.com/go-git/go-git/v5/plumbing":               false,
		"github.com/go-git/go-git/v5/plumbing/transport/ssh": true,
		"go.mongodb.org/mongo-driver/bson":                   true,
		"go.mongodb.org/mongo-driver/v2/bson":                false,
	} {
		if _, why := refusal(pkg); (why != "") != bad {
			t.Errorf("refusal(%s) = %q, want one: %v", pkg, why, bad)
		}
	}
}
