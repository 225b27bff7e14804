package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestLinkedPackages keeps the binary small and quick to start: everything that it
// links in addition to the standard library is listed here by module or prefix.
func TestLinkedPackages(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	allowed := []string{
		"github.com/emco-orchestrator/emco/src/api/",       // the wire contract
		"github.com/emco-orchestrator/emco/src/emcoctl",    // ourselves
		"github.com/spf13/cobra", "github.com/spf13/pflag", // commands and flags
		"go.yaml.in/yaml/v3",                         // upstream's documents
		"golang.org/x/term", "golang.org/x/sys/unix", // is the output a terminal
		"github.com/rogpeppe/go-internal/diff", // what a plan would change
	}
	packages := strings.Fields(string(out))
	if len(packages) < 5 {
		t.Fatalf("go list names only %q", packages)
	}
	for _, p := range packages {
		if !slices.ContainsFunc(allowed, func(prefix string) bool { return strings.HasPrefix(p, prefix) }) {
			t.Errorf("%s is linked; emcoctl does without Kubernetes, etcd, MongoDB and everything else that is not listed", p)
		}
	}
}
