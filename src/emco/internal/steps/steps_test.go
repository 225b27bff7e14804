package steps_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/steps"
)

// ref is an object by "Kind name digest", in namespace "shop" unless it has none.
func ref(text string) appcontext.Ref {
	part := strings.Fields(text)
	r := appcontext.Ref{ID: manifest.ID{Version: "v1", Kind: part[0], Namespace: "shop", Name: part[1]}, Digest: "1"}
	if len(part) > 2 {
		r.Digest = appcontext.Digest(part[2])
	}
	switch r.Kind {
	case "Namespace":
		r.Namespace = ""
	case "CustomResourceDefinition":
		r.Group, r.Namespace = "apiextensions.k8s.io", ""
	case "Widget":
		r.Group = "example.org"
	case "Job":
		r.Group = "batch"
	}
	return r
}

// bundle is a bundle of objects and definitions.
func bundle(objects ...string) (b appcontext.Bundle) {
	for _, o := range objects {
		if r := ref(o); manifest.IsCRD(r.ID) {
			b.CRDs = append(b.CRDs, r)
		} else {
			b.Objects = append(b.Objects, r)
		}
	}
	return b
}

// hook adds a Job to a bundle that runs at events, with delete policies behind a "|".
func hook(b appcontext.Bundle, name string, weight int, how string) appcontext.Bundle {
	events, policies, _ := strings.Cut(how, "|")
	b.Hooks = append(slices.Clone(b.Hooks), appcontext.HookRef{
		Ref: ref("Job " + name), Events: strings.Fields(events), Weight: weight, DeletePolicies: strings.Fields(policies),
	})
	return b
}

// lasts adds a ServiceAccount that comes with an installation.
func lasts(b appcontext.Bundle, name string) appcontext.Bundle {
	b.Hooks = append(slices.Clone(b.Hooks), appcontext.HookRef{Ref: ref("ServiceAccount " + name), Events: []string{"pre-install"}})
	return b
}

// drawn is a way in short: a line per step, "what: keeps | adds | drops > need".
func drawn(w steps.Transition) (out []string) {
	needs := []string{"", " > ready", " > complete", " > gone"}
	for _, s := range steps.Of(w) {
		line := fmt.Sprintf("%s: %s | %s | %s%s", s, names(s.Keep), names(s.Add), names(s.Drop), needs[s.Need])
		if len(s.About) > 0 {
			line += " " + names(s.About)
		}
		out = append(out, line)
	}
	return out
}

func names(refs []appcontext.Ref) string {
	var out []string
	for _, r := range refs {
		name := r.Name
		if r.Digest != "1" {
			name += "@" + string(r.Digest)
		}
		out = append(out, name)
	}
	return strings.Join(out, ",")
}

func TestWays(t *testing.T) {
	t.Parallel()
	plain, next := bundle("ConfigMap a", "ConfigMap b"), bundle("ConfigMap a 2", "ConfigMap c")
	hooked := hook(hook(hook(plain, "z", -5, "pre-install pre-upgrade"), "b", 0, "post-install"), "a", 0, "pre-install")
	tests := []struct {
		name string
		way  steps.Transition
		want []string
	}{
		{"an installation without hooks is one step", steps.Transition{Change: appcontext.Install, To: plain}, []string{"the app's objects:  | a,b | "}},
		{"so is an upgrade", steps.Transition{Change: appcontext.Upgrade, From: plain, To: next}, []string{"the app's objects:  | a@2,c | "}},
		{"and a deletion", steps.Transition{Change: appcontext.Remove, From: plain}, []string{"the app's objects:  |  | "}},
		{"of nothing", steps.Transition{Change: appcontext.Remove}, []string{"the app's objects:  |  | "}},
		{"a transition of an unknown change runs no hooks", steps.Transition{From: plain, To: hooked}, []string{"the app's objects:  | a,b | "}},
		{
			"hooks run by weight and name",
			steps.Transition{Change: appcontext.Install, To: hooked},
			[]string{
				"hooks of an earlier run:  |  | b,a,z > gone b,a,z",
				"pre-install hook Job z:  | z |  > complete z",
				"pre-install hook Job a: z | a |  > complete a",
				"the app's objects: z,a | a,b |  > ready a,b",
				"post-install hook Job b: z,a,a,b | b |  > complete b",
				"hooks that have run: z,a,b,a,b |  | ",
			},
		},
		{
			"a cluster that pulls loses each hook once it has run",
			steps.Transition{Change: appcontext.Install, To: hooked, Pulls: true},
			[]string{
				"hooks of an earlier run:  |  | b,a,z > gone b,a,z",
				"pre-install hook Job z:  | z |  > complete z",
				"pre-install hook Job a:  | a | z > complete a",
				"the app's objects:  | a,b | a > ready a,b",
				"post-install hook Job b: a,b | b |  > complete b",
				"hooks that have run: a,b |  | b",
			},
		},
		{
			"until the main step what was there stays as it was",
			steps.Transition{Change: appcontext.Upgrade, From: plain, To: hook(next, "z", 0, "pre-upgrade|hook-succeeded")},
			[]string{
				"hooks of an earlier run: a,b |  | z > gone z",
				"pre-upgrade hook Job z: a,b | z |  > complete z",
				"the app's objects:  | a@2,c | z",
			},
		},
		{
			"a rollback runs its own hooks",
			steps.Transition{Change: appcontext.RollBack, From: next, To: hook(hook(plain, "up", 0, "pre-upgrade"), "back", 0, "post-rollback")},
			[]string{
				"hooks of an earlier run: a@2,c |  | back > gone back",
				"the app's objects:  | a,b |  > ready a,b",
				"post-rollback hook Job back: a,b | back |  > complete back",
				"hooks that have run: back,a,b |  | ",
			},
		},
		{
			"hooks of a deletion are those of what runs",
			steps.Transition{Change: appcontext.Remove, From: hook(hook(plain, "save", 0, "pre-delete"), "sweep", 0, "post-delete|hook-succeeded")},
			[]string{
				"hooks of an earlier run: a,b |  | sweep,save > gone sweep,save",
				"pre-delete hook Job save: a,b | save |  > complete save",
				"the app's objects: save |  |  > gone b,a",
				"post-delete hook Job sweep: save | sweep |  > complete sweep",
				"hooks that have run:  |  | sweep",
			},
		},
		{
			"a deletion whose hooks all run before it",
			steps.Transition{Change: appcontext.Remove, From: hook(plain, "save", 0, "pre-delete"), Pulls: true},
			[]string{
				"hooks of an earlier run: a,b |  | save > gone save",
				"pre-delete hook Job save: a,b | save |  > complete save",
				"the app's objects:  |  | save",
			},
		},
		{
			"a hook that runs twice goes in between",
			steps.Transition{Change: appcontext.Install, To: hook(plain, "z", 0, "pre-install post-install")},
			[]string{
				"hooks of an earlier run:  |  | z > gone z",
				"pre-install hook Job z:  | z |  > complete z",
				"the app's objects: z | a,b |  > ready a,b",
				"hooks of an earlier run: a,b |  | z > gone z",
				"post-install hook Job z: a,b | z |  > complete z",
				"hooks that have run: z,a,b |  | ",
			},
		},
		{
			"a hook that lasts is set up again, but never taken away",
			steps.Transition{Change: appcontext.Upgrade, From: lasts(plain, "account"), To: hook(lasts(next, "account 2"), "z", 0, "pre-upgrade"), Pulls: true},
			[]string{
				"hooks of an earlier run: account,a,b |  | z > gone z",
				"pre-upgrade hook Job z: account,a,b | z |  > complete z",
				"the app's objects:  | account@2,a@2,c | z",
			},
		},
		{
			"it comes when it is its turn",
			steps.Transition{Change: appcontext.Install, To: hook(lasts(plain, "account"), "z", 0, "post-install"), Pulls: true},
			[]string{
				"hooks of an earlier run:  |  | z > gone z",
				"pre-install hook ServiceAccount account:  | account |  > complete account",
				"the app's objects: account | a,b |  > ready a,b",
				"post-install hook Job z: account,a,b | z |  > complete z",
				"hooks that have run: account,a,b |  | z",
			},
		},
		{
			"and goes last",
			steps.Transition{Change: appcontext.Remove, From: hook(lasts(plain, "account"), "z", 0, "post-delete"), Pulls: true},
			[]string{
				"hooks of an earlier run: account,a,b |  | z > gone z",
				"the app's objects: account |  |  > gone b,a",
				"post-delete hook Job z: account | z |  > complete z",
				"hooks that have run:  |  | z",
			},
		},
		{"tests do not run", steps.Transition{Change: appcontext.Install, To: hook(plain, "check", 0, "test")}, []string{"the app's objects:  | a,b | "}},
		{
			"a hook that is an object of the app as well ends as that",
			steps.Transition{Change: appcontext.Install, To: hook(bundle("Job z 2"), "z", 0, "pre-install")},
			[]string{
				"hooks of an earlier run:  |  | z > gone z",
				"pre-install hook Job z:  | z |  > complete z",
				"the app's objects:  | z@2 | ",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := drawn(tt.way); !slices.Equal(got, tt.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}

const crd = "CustomResourceDefinition widgets.example.org"

func TestDefinitionsComeFirstWhereSomethingNeedsThem(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		from, to appcontext.Bundle
		want     string // of the first step
	}{
		{"a definition with a resource of its kind", appcontext.Bundle{}, bundle(crd, "Widget w"), "definitions and namespaces:  | widgets.example.org |  > ready widgets.example.org"},
		{"a definition alone", appcontext.Bundle{}, bundle(crd, "ConfigMap a"), "the app's objects:  | widgets.example.org,a | "},
		{"a namespace with something in it", appcontext.Bundle{}, bundle("Namespace shop", "ConfigMap a"), "definitions and namespaces:  | shop |  > ready shop"},
		{"a namespace of others", appcontext.Bundle{}, bundle("Namespace stock", "ConfigMap a"), "the app's objects:  | stock,a | "},
		{"a definition for a hook", appcontext.Bundle{}, hookOf(bundle(crd), "Widget w"), "definitions and namespaces:  | widgets.example.org |  > ready widgets.example.org"},
		{"what was there before", bundle(crd, "Namespace shop", "Widget w"), bundle(crd, "Namespace shop 2", "Widget w 2"), "the app's objects:  | widgets.example.org,shop@2,w@2 | "},
		{
			"a definition that has changed", bundle(crd, "Widget w"), bundle(crd+" 2", "Widget w"),
			"definitions and namespaces: w | widgets.example.org@2 |  > ready widgets.example.org@2",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := drawn(steps.Transition{Change: appcontext.Upgrade, From: tt.from, To: tt.to})[0]; got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

// hookOf adds a hook that is no Job.
func hookOf(b appcontext.Bundle, object string) appcontext.Bundle {
	b.Hooks = append(b.Hooks, appcontext.HookRef{Ref: ref(object), Events: []string{"pre-upgrade"}})
	return b
}

// The last step of a transition leaves exactly the settled objects in the repository, so
// that no file comes and goes.
func TestATransitionEndsWithTheSettledObjects(t *testing.T) {
	t.Parallel()
	to := hook(hook(lasts(bundle("ConfigMap a", "Job a"), "account"), "y", 0, "pre-upgrade post-install"), "z", 0, "post-upgrade")
	to = hookOf(to, "Widget w") // before an upgrade only
	for _, c := range []appcontext.Change{appcontext.Install, appcontext.Upgrade, appcontext.RollBack} {
		way := steps.Of(steps.Transition{Change: c, From: bundle("ConfigMap b"), To: to, Pulls: true})
		got, want := strings.Split(names(way[len(way)-1].Set()), ","), strings.Split(names(steps.Settled(to)), ",")
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s ends with %v, want %v", c, got, want)
		}
	}
}

// Steps that a pull-mode cluster skips must not shift the numbers of steps: they
// are stored before rsync knows how the cluster is reached.
func TestNumbersAndNeedsDoNotDependOnTheCluster(t *testing.T) {
	t.Parallel()
	all := hook(hook(bundle(crd, "Widget w", "Namespace shop"), "z", 0, "pre-install post-install pre-delete post-delete|hook-failed"), "y", 1, "pre-install|hook-succeeded")
	for _, w := range []steps.Transition{{Change: appcontext.Install, To: all}, {Change: appcontext.Remove, From: all}} {
		direct := steps.Of(w)
		w.Pulls = true
		pulls := steps.Of(w)
		if len(direct) != len(pulls) {
			t.Fatalf("%s: %d steps and %d", w.Change, len(direct), len(pulls))
		}
		for i, d := range direct {
			p := pulls[i]
			if d.Kind != p.Kind || d.Need != p.Need || names(d.About) != names(p.About) || d.String() != p.String() {
				t.Errorf("%s, step %d: %s and %s differ", w.Change, i, d, p)
			}
			if last := i == len(direct)-1; last != (d.Need == steps.Nothing) {
				t.Errorf("%s, step %d: need %d; only the last step has none", w.Change, i, d.Need)
			}
		}
	}
}

func TestSetsHoldEachObjectOnce(t *testing.T) {
	t.Parallel()
	from, to := bundle(crd, "Widget w", "ConfigMap a"), hook(bundle(crd+" 2", "Widget w 2"), "a", 0, "pre-upgrade")
	for _, s := range steps.Of(steps.Transition{Change: appcontext.Upgrade, From: from, To: to}) {
		seen := map[manifest.ID]bool{}
		for _, r := range s.Set() {
			if seen[steps.Key(r.ID)] {
				t.Errorf("%s: %s comes twice", s, r.Name)
			}
			seen[steps.Key(r.ID)] = true
		}
		for _, r := range s.Drop {
			if seen[steps.Key(r.ID)] {
				t.Errorf("%s: %s is kept and dropped", s, r.Name)
			}
		}
	}
}

func TestAHookThatFailedGoesIfItAsksFor(t *testing.T) {
	t.Parallel()
	for how, want := range map[string]string{"pre-install": "", "pre-install|hook-failed": "hooks that have run: a, z"} {
		way := steps.Of(steps.Transition{Change: appcontext.Install, From: bundle("ConfigMap a"), To: hook(bundle(), "z", 0, how)})
		got := ""
		if s, goes := way[1].AfterFailure(); goes {
			got = fmt.Sprintf("%s: %s,%s %s", s, names(s.Keep), names(s.Add), names(s.Drop))
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", how, got, want)
		}
	}
	if _, goes := steps.Of(steps.Transition{Change: appcontext.Install})[0].AfterFailure(); goes {
		t.Error("a step without a hook has something to do after a failure")
	}
}
