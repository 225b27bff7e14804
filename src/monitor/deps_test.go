package main

import (
	"os/exec"
	"strings"
	"testing"
)

// forbidden says what the program must not link, and why. A name stands for itself and
// for all packages below it.
var forbidden = map[string]string{
	"go.etcd.io":                                 "the store of the control plane is no business of the edge",
	"go.mongodb.org":                             "likewise",
	"helm.sh":                                    "nothing is rendered on the edge",
	"github.com/google/go-github":                "every host speaks Git",
	"gitlab.com":                                 "likewise",
	"sigs.k8s.io/controller-runtime":             "watching needs no manager, cache or webhook server",
	"k8s.io/kubectl":                             "nothing is applied from here",
	"k8s.io/client-go/kubernetes/typed":          "objects of all kinds are handled alike; typed clients are megabytes",
	"k8s.io/client-go/informers":                 "an informer keeps whole objects in memory",
	"github.com/prometheus":                      "there is no port to serve figures on",
	"google.golang.org/grpc":                     "nothing is called or served by it",
	"github.com/emco-orchestrator/emco/src/emco": "the agent ships apart from the control plane",
}

func TestWhatIsNotLinked(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := strings.Fields(string(out))
	if len(packages) < 200 {
		t.Fatalf("go list names %d packages only", len(packages))
	}
	for _, p := range packages {
		for name, why := range forbidden {
			if p == name || strings.HasPrefix(p, name+"/") {
				t.Errorf("%s is linked: %s", p, why)
			}
		}
	}
}
