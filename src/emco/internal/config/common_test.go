package config

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Settings that all processes need alike are compared as they are in force: what means the same is the same.
func TestCommonSettings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	a, b, alike := file("a.yaml", "name: a\n"), file("b.yaml", "name: b\n"), file("alike.yaml", "name: a\n")
	common := func(change func(*Config)) map[string]string {
		t.Helper()
		c := Default()
		c.Etcd.Endpoints, c.Auth.Mode = []string{"https://etcd:2379"}, "on"
		change(&c)
		out, err := c.Common()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	usual := common(func(*Config) {})
	for name, c := range map[string]struct {
		change func(*Config)
		differ string // the setting; empty: none
	}{
		"as issuers":          {func(c *Config) { c.Auth.Mode, c.Auth.Issuers = "", []Issuer{{Name: "corp"}} }, ""},
		"without callers":     {func(c *Config) { c.Auth.Mode = "off" }, "auth.mode"},
		"strict by name":      {func(c *Config) { c.Audit.Mode = AuditStrict }, ""},
		"no audit log":        {func(c *Config) { c.Audit.Mode = AuditOff }, "audit.mode"},
		"four eyes":           {func(c *Config) { c.Auth.FourEyes = []string{"shop"} }, "auth.fourEyes"},
		"a level by hand":     {func(c *Config) { c.Level.Auto = false }, "level.auto"},
		"another Kubernetes":  {func(c *Config) { c.Render.KubeVersion = "v1.30.0" }, "render.kubeVersion"},
		"a schema":            {func(c *Config) { c.Controllers.Schemas = []string{a} }, "controllers.schemas"},
		"addresses and paths": {func(c *Config) { c.HTTP.Address, c.Data = "0.0.0.0:80", "/elsewhere" }, ""},
	} {
		got := common(c.change)
		for setting := range maps.Keys(usual) {
			if differs := got[setting] != usual[setting]; differs != (setting == c.differ) {
				t.Errorf("%s: %s is %q, and was %q", name, setting, got[setting], usual[setting])
			}
		}
	}
	projects := func(of ...string) string { return common(func(c *Config) { c.Auth.FourEyes = of })["auth.fourEyes"] }
	if projects("b", "a", "b") != projects("a", "b") || projects("a") == projects("b") {
		t.Error("the order of projects counts, or their names do not")
	}
	if long := projects(strings.Repeat("x", 300)); len(long) > longestCommon || long == projects(strings.Repeat("y", 300)) {
		t.Errorf("a long value is %q", long)
	}
	schemas := func(of ...string) string {
		return common(func(c *Config) { c.Controllers.Schemas = of })["controllers.schemas"]
	}
	if schemas(a, b) != schemas(b, alike) || schemas(a) == schemas(b) {
		t.Error("the names of schema files or their order count, or their content does not")
	}
	c := Default()
	c.Controllers.Schemas = []string{filepath.Join(dir, "absent.yaml")}
	if _, err := c.Common(); err == nil || !strings.Contains(err.Error(), "controllers.schemas: ") {
		t.Errorf("got %v, want an error about the file", err)
	}
}
