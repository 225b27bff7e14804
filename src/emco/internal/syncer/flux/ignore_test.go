package flux_test

import (
	"path"
	"strings"
	"testing"

	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	"github.com/go-git/go-git/v5/plumbing/format/gitignore"
	"sigs.k8s.io/yaml"

	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/flux"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/syncertest"
)

// Flux fetches the deployment's directory and nothing else, whatever the names of the
// cluster and the deployment are. The rules are matched by the library that Flux uses.
func TestTheSourceHoldsTheDeploymentAlone(t *testing.T) {
	t.Parallel()
	b := open(t, flux.Options{})
	for _, names := range [][2]string{
		{"edge+c1", "42"},
		{"edge+#1", "42"},
		{"#edge+c1", "42"},
		{"!edge+c1", "!42"},
		{"ed ge+c1", "4 2"},
		{"e*+c1", "42"},
		{"edge+c?", "42"},
		{"edge+c1", "[4]2"},
		{`e[ab]+c1`, `#42`},
		{"edge+c1 ", "42 "},
	} {
		for _, deep := range []bool{false, true} {
			target := syncertest.Target(names[0])
			target.Deployment, target.FanOut = names[1], deep
			c, err := b.Plan(target, configured("web"))
			if err != nil {
				t.Fatal(err)
			}
			var repo sourcev1.GitRepository
			for _, e := range c.Edits {
				if e.Path == target.Pointer("") {
					if err := yaml.UnmarshalStrict(e.File, &repo); err != nil {
						t.Fatal(err)
					}
				}
			}
			if repo.Spec.Ignore == nil {
				t.Fatalf("%q: the source has no rules", names)
			}
			for _, name := range []string{
				target.Dir() + "/app/web/c+ConfigMap.yaml",
				target.Dir() + "/kustomization.yaml",
				target.Root() + "/context/other/app/web/x.yaml",
				target.Root() + "/" + names[1] + ".yaml",
				strings.Replace(target.Dir(), "clusters", "other", 1) + "/x",
				path.Dir(target.Root()) + "/edge+c1/context/42/app/web/x.yaml",
				"README.md",
			} {
				want := strings.HasPrefix(name, target.Dir()+"/")
				if got := fetched(*repo.Spec.Ignore, name); got != want {
					t.Errorf("cluster %q, deployment %q: %s is fetched: %t, want %t\n%s", names[0], names[1], name, got, want, *repo.Spec.Ignore)
				}
			}
		}
	}
}

// fetched reports whether rules leave a file in: none of its directories is left out, and
// it is not either.
func fetched(rules, name string) bool {
	var patterns []gitignore.Pattern
	for rule := range strings.Lines(rules) {
		if rule = strings.TrimSuffix(rule, "\n"); rule != "" && !strings.HasPrefix(rule, "#") {
			patterns = append(patterns, gitignore.ParsePattern(rule, nil))
		}
	}
	m := gitignore.NewMatcher(patterns)
	parts := strings.Split(name, "/")
	for i := range parts {
		if m.Match(parts[:i+1], i < len(parts)-1) {
			return false
		}
	}
	return true
}
