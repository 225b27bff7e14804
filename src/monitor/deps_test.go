package main

import (
	"testing"

	"github.com/emco-orchestrator/emco/src/api/archtest"
)

// forbidden lists what the program must not link, and why. A name includes all packages
// below it.
var forbidden = map[string]string{
	"go.etcd.io":                                 "the agent does not use the store of the control plane",
	"go.mongodb.org":                             "as above",
	"helm.sh":                                    "the agent renders no charts",
	"github.com/google/go-github":                "the agent reaches every host by Git",
	"gitlab.com":                                 "as above",
	"sigs.k8s.io/controller-runtime":             "watching needs no manager, cache or webhook server",
	"k8s.io/kubectl":                             "the agent applies no objects",
	"k8s.io/client-go/kubernetes/typed":          "the dynamic client serves all kinds; typed clients are megabytes",
	"k8s.io/client-go/informers":                 "an informer keeps whole objects in memory",
	"github.com/prometheus":                      "the agent opens no port for metrics",
	"google.golang.org/grpc":                     "the agent uses no gRPC",
	"github.com/emco-orchestrator/emco/src/emco": "the agent ships apart from the control plane",
}

func TestWhatIsNotLinked(t *testing.T) {
	t.Parallel()
	archtest.CheckLinked(t, ".", 100, func(pkg string) string {
		for name, why := range forbidden {
			if archtest.Below(pkg, []string{name}) {
				return why
			}
		}
		return ""
	})
}
