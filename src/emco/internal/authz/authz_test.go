package authz_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
)

// The API names the roles that are built in.
func TestBuiltInRolesAreNamed(t *testing.T) {
	t.Parallel()
	got, want := slices.Sorted(maps.Keys(authz.BuiltIn())), slices.Sorted(slices.Values(v2.BuiltInRoles()))
	if !slices.Equal(got, want) {
		t.Errorf("built in are %v, named are %v", got, want)
	}
}

func now() time.Time { return time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC) }

// bindings of a small company.
func bindings() []authz.Binding {
	return []authz.Binding{
		{Name: "role-bindings/root", Role: authz.PlatformAdmin, Subjects: []string{"user:corp:root"}},
		{Name: "role-bindings/look", Role: authz.Viewer, Subjects: []string{"group:corp:staff"}},
		{Name: "projects/shop/role-bindings/deploy", Role: authz.Deployer, Subjects: []string{"group:corp:shop", "token:ci"}, Place: "projects/shop"},
		{Name: "projects/shop/role-bindings/admin", Role: authz.ProjectAdmin, Subjects: []string{"user:corp:alice"}, Place: "projects/shop"},
		{Name: "projects/shop/role-bindings/freeze", Role: authz.Deployer, Subjects: []string{"user:corp:mallory"}, Place: "projects/shop", Deny: true},
		{Name: "projects/shop/role-bindings/guest", Role: authz.Viewer, Subjects: []string{"user:corp:guest"}, Place: "projects/shop", Expires: now()},
		{Name: "cluster-providers/edge/role-bindings/edge", Role: authz.ClusterRegistrar, Subjects: []string{"user:corp:eve"}, Place: "cluster-providers/edge"},
		{Name: "projects/shop/role-bindings/own", Role: "restart", Subjects: []string{"user:corp:rob"}, Place: "projects/shop"},
		{Name: "projects/shop/role-bindings/lost", Role: "gone", Subjects: []string{"user:corp:lost"}, Place: "projects/shop"},
		{Name: "projects/shop/role-bindings/lost-deny", Role: "gone", Subjects: []string{"user:corp:alice2"}, Place: "projects/shop", Deny: true},
		{Name: "projects/shop/role-bindings/alice2", Role: authz.ProjectAdmin, Subjects: []string{"user:corp:alice2"}, Place: "projects/shop"},
	}
}

func shopGrants() *authz.Grants {
	return authz.New(map[string][]authz.Rule{"restart": {{Verbs: []string{"act:stop"}, Types: []string{"deployment-intent-groups"}}}}, bindings())
}

const shop, bank = "projects/shop", "projects/bank"

func TestDecisions(t *testing.T) {
	t.Parallel()
	p := shopGrants()
	for _, c := range []struct {
		subject, groups, verb, typ, place string
		want                              bool
	}{
		{"user:corp:root", "", authz.Delete, "projects", shop, true},
		{"user:corp:root", "", authz.Act("anything"), "of-later", "", true},
		{"user:corp:bob", "", authz.Get, "apps", shop, false},
		{"user:corp:bob", "group:corp:staff", authz.Get, "apps", shop, true},
		{"user:corp:bob", "group:corp:staff", authz.Get, "tokens", "", false},
		{"user:corp:bob", "group:corp:staff", authz.Get, "audit", "", false},
		{"user:corp:bob", "group:corp:staff", authz.Reveal, "cluster-references", shop, false},
		{"user:corp:bob", "group:corp:staff", authz.Update, "apps", shop, false},
		{"user:corp:bob", "group:corp:shop", authz.Update, "apps", shop, true},
		{"user:corp:bob", "group:corp:shop", authz.Update, "apps", bank, false},
		{"user:corp:bob", "group:corp:shop", authz.Update, "apps", "", false},
		{"user:corp:bob", "group:corp:shop", authz.Act("instantiate"), "deployment-intent-groups", shop, true},
		{"user:corp:bob", "group:corp:shop", authz.Act("approve"), "deployment-intent-groups", shop, false},
		{"user:corp:bob", "group:corp:shop", authz.Create, "role-bindings", shop, false},
		{"user:corp:bob", "group:corp:shop", authz.Create, "logical-clouds", shop, false},
		{"token:ci", "", authz.Update, "apps", shop, true},
		{"user:corp:alice", "", authz.Create, "role-bindings", shop, true},
		{"user:corp:alice", "", authz.Act("instantiate"), "logical-clouds", shop, true},
		{"user:corp:alice", "", authz.Delete, "projects", shop, false},
		{"user:corp:alice", "", authz.Create, "roles", "", false},
		{"user:corp:mallory", "group:corp:shop", authz.Update, "apps", shop, false},
		{"user:corp:mallory", "group:corp:staff", authz.Get, "apps", bank, true},
		{"user:corp:mallory", "group:corp:staff", authz.Get, "logical-clouds", shop, false},
		{"user:corp:guest", "", authz.Get, "apps", shop, false}, // expired this very moment
		{"user:corp:eve", "", authz.Create, "clusters", "cluster-providers/edge", true},
		{"user:corp:eve", "", authz.Create, "clusters", "cluster-providers/core", false},
		{"user:corp:eve", "", authz.Create, "clusters", "cluster-providers/edge2", false},
		{"user:corp:rob", "", authz.Act("stop"), "deployment-intent-groups", shop, true},
		{"user:corp:rob", "", authz.Act("terminate"), "deployment-intent-groups", shop, false},
		{"user:corp:lost", "", authz.Get, "apps", shop, false},
		{"user:corp:alice2", "", authz.Get, "apps", shop, false}, // a denial of a role that is gone denies all
		{"", "", authz.Get, "apps", shop, false},
	} {
		var groups []string
		if c.groups != "" {
			groups = strings.Fields(c.groups)
		}
		d := p.Decide(c.subject, groups, c.verb, c.typ, c.place, now())
		if d.Allowed != c.want {
			t.Errorf("%s %s: %s %s at %q = %v (%s)", c.subject, c.groups, c.verb, c.typ, c.place, d.Allowed, d.Because())
		}
	}
}

func TestNobodyGivesMoreThanItHas(t *testing.T) {
	t.Parallel()
	p, roles := shopGrants(), authz.BuiltIn()
	for _, c := range []struct {
		subject, role, place string
		may                  bool
	}{
		{"user:corp:root", authz.PlatformAdmin, "", true},
		{"user:corp:alice", authz.Deployer, shop, true},
		{"user:corp:alice", authz.ProjectAdmin, shop, true},
		{"user:corp:alice", authz.PlatformAdmin, shop, false},
		{"user:corp:alice", authz.Auditor, shop, false},
		{"user:corp:alice", authz.Viewer, bank, false},
		{"user:corp:alice", authz.Viewer, "", false},
		{"user:corp:mallory", authz.Deployer, shop, false},
	} {
		missing := p.Missing(c.subject, nil, roles[c.role], c.place, now())
		if (missing == "") != c.may {
			t.Errorf("%s gives %s at %q: missing %q", c.subject, c.role, c.place, missing)
		}
	}
}

func TestADeniedPartOfAWildcardIsNotGiven(t *testing.T) {
	t.Parallel()
	p := authz.New(map[string][]authz.Rule{"tokens": {{Verbs: []string{"create"}, Types: []string{"tokens"}}}}, []authz.Binding{
		{Name: "role-bindings/root", Role: authz.PlatformAdmin, Subjects: []string{"user:corp:root"}},
		{Name: "role-bindings/not-that", Role: "tokens", Subjects: []string{"user:corp:root"}, Deny: true},
	})
	if got := p.Missing("user:corp:root", nil, authz.BuiltIn()[authz.PlatformAdmin], "", now()); !strings.Contains(got, "not-that") {
		t.Errorf("missing = %q", got)
	}
	if got := p.Missing("user:corp:root", nil, authz.BuiltIn()[authz.Viewer], "", now()); got != "" {
		t.Errorf("missing of viewer = %q", got)
	}
}

func TestAnywhere(t *testing.T) {
	t.Parallel()
	p := shopGrants()
	for subject, want := range map[string]bool{"token:ci": true, "user:corp:eve": true, "user:corp:guest": false, "user:corp:x": false, "user:corp:mallory": false} {
		if got := p.Anywhere(subject, nil, authz.List, "projects", now()); got != want {
			t.Errorf("%s lists projects anywhere = %v", subject, got)
		}
	}
}

func TestWhoMay(t *testing.T) {
	t.Parallel()
	var got []string
	for _, h := range shopGrants().Who(authz.Create, "role-bindings", shop, now()) {
		got = append(got, h.Subject+" "+h.Role)
	}
	if text := strings.Join(got, ", "); text != "user:corp:alice project-admin, user:corp:root platform-admin" {
		t.Errorf("who = %s", text)
	}
}

func TestAnAdministratorOfTheWholePlatform(t *testing.T) {
	t.Parallel()
	if !shopGrants().HasAdmin(now()) {
		t.Error("root is none")
	}
	for name, b := range map[string]authz.Binding{
		"in a project": {Name: "projects/shop/role-bindings/a", Role: authz.PlatformAdmin, Subjects: []string{"user:a"}, Place: shop},
		"denied":       {Name: "role-bindings/a", Role: authz.PlatformAdmin, Subjects: []string{"user:a"}, Deny: true},
		"over":         {Name: "role-bindings/a", Role: authz.PlatformAdmin, Subjects: []string{"user:a"}, Expires: now()},
		"nobody":       {Name: "role-bindings/a", Role: authz.PlatformAdmin},
		"a token":      {Name: "tokens/a", Role: authz.PlatformAdmin, Subjects: []string{"token:a"}},
	} {
		if authz.New(nil, []authz.Binding{b}).HasAdmin(now()) {
			t.Errorf("%s: there is an administrator", name)
		}
	}
}

func TestWithoutAuthenticationEverythingIsAllowed(t *testing.T) {
	t.Parallel()
	a := authz.From(t.Context())
	if !a.May(authz.Delete, "projects", shop) || !a.Anywhere(authz.List, "projects") || a.Missing(authz.BuiltIn()[authz.PlatformAdmin], "") != "" {
		t.Error("something is refused")
	}
}

// thousand returns the grants of a thousand bindings; six of them are the caller's.
func thousand() *authz.Grants {
	all := bindings()
	for i := range 1000 {
		all = append(all, authz.Binding{
			Name: fmt.Sprintf("projects/p%d/role-bindings/b", i), Role: authz.Deployer, Place: fmt.Sprintf("projects/p%d", i),
			Subjects: []string{fmt.Sprintf("group:corp:g%d", i%200)},
		})
	}
	return authz.New(nil, all)
}

func TestDecisionsDoNotAllocate(t *testing.T) {
	p, groups, at := thousand(), []string{"group:corp:g1", "group:corp:staff"}, now()
	if n := testing.AllocsPerRun(100, func() {
		if !p.Decide("user:corp:bob", groups, authz.Update, "apps", "projects/p801", at).Allowed {
			t.Error("refused")
		}
	}); n != 0 {
		t.Errorf("a decision makes %v allocations", n)
	}
}

func BenchmarkDecide(b *testing.B) {
	p, groups, at := thousand(), []string{"group:corp:g1", "group:corp:staff"}, now()
	b.ReportAllocs()
	for b.Loop() {
		p.Decide("user:corp:bob", groups, authz.Update, "apps", "projects/p801", at)
	}
}

// Without authentication, everyone may do everything, and who may is no empty list.
func TestWithoutAuthenticationEveryoneMay(t *testing.T) {
	t.Parallel()
	var off *authz.Authority
	holders := off.Who(authz.Delete, "clusters", "")
	if len(holders) != 1 || holders[0].Subject != v2.Everyone || holders[0].Role != authz.PlatformAdmin || !off.May(authz.Delete, "clusters", "") {
		t.Errorf("who may: %v", holders)
	}
	if nobody := authz.NewAuthority(authz.New(nil, nil), "user:a:b", nil, time.Time{}).Who(authz.Delete, "clusters", ""); len(nobody) != 0 {
		t.Errorf("without bindings: %v", nobody)
	}
}
