package revision_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
	"github.com/emco-orchestrator/emco/src/emco/internal/render/rendertest"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/orchestrator/plan"
)

// hookRenderer is Plain, but objects with names that begin with "hook" are hooks.
type hookRenderer struct{ rendertest.Plain }

func (r hookRenderer) Render(ctx context.Context, req render.Request) (render.Result, error) {
	made, err := r.Plain.Render(ctx, req)
	out := render.Result{Findings: made.Findings}
	for _, o := range made.Objects {
		if strings.HasPrefix(o.ID.Name, "hook") {
			out.Hooks = append(out.Hooks, render.Hook{Object: o, Events: []string{"post-install"}})
		} else {
			out.Objects = append(out.Objects, o)
		}
	}
	return out, err
}

// objects is a template with one object for each name: a definition for a name with dots, otherwise a ConfigMap.
func objects(names string) string {
	var out strings.Builder
	for _, name := range strings.Fields(names) {
		if strings.Contains(name, ".") {
			fmt.Fprintf(&out, "---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: %s}\n", name)
		} else {
			fmt.Fprintf(&out, "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\n", name)
		}
	}
	return out.String()
}

// An app must not lose most of its objects on a cluster unless the user confirms that.
func TestTheLossOfMostObjectsIsConfirmed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, had, has, want string }{
		{"nothing is left of one", "a", "", "app web would have 0 instead of 1 objects on p+a and clusters like it, and lose v1 ConfigMap default/a; if that is meant, confirm it with ?force=true"},
		{"half is left", "a b c d", "a b", ""},
		{"less than half is left", "a b c", "c", "app web would have 1 instead of 3 objects on p+a and clusters like it, and lose v1 ConfigMap default/a, v1 ConfigMap default/b; "},
		{"many go", "a b c d e f g h", "h x", "would have 2 instead of 8 objects on p+a and clusters like it, and lose v1 ConfigMap default/a, v1 ConfigMap default/b, v1 ConfigMap default/c, v1 ConfigMap default/d, v1 ConfigMap default/e and 2 more; "},
		{"other names", "a b", "c d", ""},
		{"more than before", "a", "a b c", ""},
		{"definitions stay on clusters", "things.example.com others.example.com", "", ""},
		{"and do not hide what goes", "things.example.com others.example.com a", "things.example.com others.example.com", "app web would have 0 instead of 1 objects"},
		{"hooks count", "hook-a hook-b a", "a", "would have 1 instead of 3 objects on p+a and clusters like it, and lose v1 ConfigMap default/hook-a, v1 ConfigMap default/hook-b; "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newFixture(t)
			s.Renderer = hookRenderer{}
			head := s.mustPublish(s.wait(appcontext.Head{}, 1), s.app("web", objects(tt.had), "p+a", "p+b"))
			head = s.wait(head, 2)
			smaller := plan.Plan{Namespace: "default", Apps: []plan.App{s.app("web", objects(tt.has), "p+a", "p+b")}}
			_, err := s.Publish(t.Context(), head, smaller)
			if tt.want == "" {
				if err != nil {
					t.Fatalf("got %v, want it to be published", err)
				}
				return
			}
			if !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want %q", err, tt.want)
			}
			head.Op.Force = true
			if head, err = s.Publish(t.Context(), head, smaller); err != nil || head.Rev != 2 {
				t.Errorf("when it is confirmed: revision %d, %v", head.Rev, err)
			}
		})
	}
}

// The loss is looked for in each class, and each app is named once, with the first cluster of its loss.
func TestALossOnAFewClustersIsConfirmed(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	all := manyClusters(1000)
	var apps, emptied []plan.App
	for i := range 12 {
		app := s.app(fmt.Sprintf("app%02d", i), objects("r1 b c"), all...)
		app.Edits = []customize.Edit{patchEdit(app.Name, "two", fifth(all, 2)), patchEdit(app.Name, "three", fifth(all, 3))}
		apps = append(apps, app)
		app.Request.Package = s.app(app.Name, objects("r1"), all...).Request.Package
		emptied = append(emptied, app)
	}
	head := s.mustPublish(s.wait(appcontext.Head{}, 1), apps...)
	head = s.wait(head, 2)
	_, err := s.Publish(t.Context(), head, plan.Plan{Namespace: "default", Apps: emptied})
	if !errs.Is(err, errs.Invalid) {
		t.Fatalf("got %v, want a refusal", err)
	}
	text := err.Error()
	if n := strings.Count(text, "1 instead of 3 objects on p+c0000 and"); n != 10 || !strings.HasPrefix(text, "app app00 would") || !strings.Contains(text, "; and 2 more apps; if that is meant") {
		t.Errorf("%d apps are named: %s", n, text)
	}

	one := apps[7]
	one.Edits = append(one.Edits[:1:1], customize.Edit{App: one.Name, Clusters: []v2.ClusterKey{all[3]}, Values: []render.Override{{Key: "off", Value: "true"}}})
	s.Renderer = offRenderer{}
	apps[7] = one
	_, err = s.Publish(t.Context(), head, plan.Plan{Namespace: "default", Apps: apps})
	const want = "app app07 would have 0 instead of 3 objects on p+c0003 and clusters like it, and lose v1 ConfigMap default/b, v1 ConfigMap default/c, v1 ConfigMap default/r1; if that is meant, confirm it with ?force=true"
	if err == nil || err.Error() != want {
		t.Errorf("one class of one app: got %v, want %s", err, want)
	}
}

// offRenderer is Plain, but requests with overrides render to nothing.
type offRenderer struct{ rendertest.Plain }

func (r offRenderer) Render(ctx context.Context, req render.Request) (render.Result, error) {
	if len(req.Overrides) > 0 {
		return render.Result{}, nil
	}
	return r.Plain.Render(ctx, req)
}

// What fails stays as it is, and what was terminated has nothing to lose.
func TestOnlyWhatRunsIsGuarded(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	head := s.mustPublish(s.wait(appcontext.Head{}, 1), s.app("web", objects("a b c"), "p+a"))
	head = s.mustPublish(s.wait(head, 2), s.app("web", nameless, "p+a"))
	if second := s.placed(2); second["p+a web"] != s.placed(1)["p+a web"] {
		t.Errorf("the failing app has other content: %v", second)
	}
	gone := head
	gone.Gone = true
	gone, err := s.Contexts.ChangeHead(t.Context(), head, gone, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if head = s.mustPublish(s.wait(gone, 3), s.app("web", "", "p+a")); head.Rev != 3 {
		t.Errorf("head %+v", head)
	}
}
