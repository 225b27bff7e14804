package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/archtest"
)

// TestLinkedPackages keeps the binary small and quick to start: everything that it
// links in addition to the standard library is listed here by module or prefix.
func TestLinkedPackages(t *testing.T) {
	t.Parallel()
	allowed := []string{
		"github.com/emco-orchestrator/emco/src/api/",       // the wire contract
		"github.com/emco-orchestrator/emco/src/emcoctl",    // ourselves
		"github.com/spf13/cobra", "github.com/spf13/pflag", // commands and flags
		"go.yaml.in/yaml/v3",                         // upstream's documents
		"golang.org/x/term", "golang.org/x/sys/unix", // is the output a terminal
		"github.com/rogpeppe/go-internal/diff",                                                           // what a plan would change
		"github.com/rogpeppe/go-internal/lockedfile", "github.com/rogpeppe/go-internal/internal/syscall", // one renewal of a sign-in at a time
		"golang.org/x/oauth2", // signing in
	}
	archtest.CheckLinked(t, ".", 5, func(pkg string) string {
		if slices.ContainsFunc(allowed, func(prefix string) bool { return strings.HasPrefix(pkg, prefix) }) {
			return ""
		}
		return "emcoctl does without Kubernetes, etcd, MongoDB and everything else that is not listed"
	})
}
