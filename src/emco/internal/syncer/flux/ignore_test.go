package flux_test

import (
	"path"
	"strings"
	"testing"

	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	"github.com/go-git/go-git/v5/plumbing/format/gitignore"
	"sigs.k8s.io/yaml"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/flux"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/syncertest"
)

// Flux fetches the deployment's directory and nothing else, whatever characters the id
// has. The rules are matched by the library that Flux uses.
func TestTheSourceHoldsTheDeploymentAlone(t *testing.T) {
	t.Parallel()
	b := open(t, flux.Options{})
	for _, key := range []string{"edge+c1", "e_d.g-e+c.1_a"} {
		for _, id := range []string{"42", "#42", "!42", "4 2", "42 ", "*2", "4?", "[4]2"} {
			for _, deep := range []bool{false, true} {
				target := syncertest.Target(key)
				target.Deployment, target.FanOut = v2.DeploymentID(id), deep
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
					t.Fatalf("%s: the source has no rules", target.Dir())
				}
				for _, name := range []string{
					target.Dir() + "/app/web/c+ConfigMap.yaml",
					target.Dir() + "/kustomization.yaml",
					target.Root() + "/context/42/app/web/x.yaml",
					target.Root() + "/" + id + ".yaml",
					path.Join("other", target.Dir(), "x.yaml"),
					path.Join(path.Dir(target.Root()), "edge+c2/context", id, "x.yaml"),
					"README.md",
				} {
					want := strings.HasPrefix(name, target.Dir()+"/")
					if got := fetched(*repo.Spec.Ignore, name); got != want {
						t.Errorf("of %s, %s is fetched: %t, want %t\n%s", target.Dir(), name, got, want, *repo.Spec.Ignore)
					}
				}
			}
		}
	}
}

// A cluster whose name would begin a comment, or hide files from Flux, has no plan.
func TestAClusterThatRulesCannotNameIsRefused(t *testing.T) {
	t.Parallel()
	b, err := flux.New(flux.Options{}) // the guard would refuse it, too
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"edge+#1", "#edge+c1", "!edge+c1", "edge+c 1", "edge+c*", "edge+"} {
		if _, err := b.Plan(syncertest.Target(key), configured("web")); !errs.Is(err, errs.Invalid) {
			t.Errorf("Plan for cluster %q: %v, want Invalid", key, err)
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
