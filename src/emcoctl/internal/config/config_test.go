package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/config"
)

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const sections = `
Orchestrator: {host: orch, port: 30415, statusPort: 30416}
clm: {host: 10.0.0.1, port: "30461"}
dcm: {host: https://dcm.example, port: 443, caFile: /ca.pem}
gac: {host: "fd00::1", port: 30420}
ncm: {host: only-a-host}
tac: {host: t, port: 1, scheme: https}
custom: [unknown, sections, are, ignored]
`

func TestSectionsOfTheFile(t *testing.T) {
	t.Parallel()
	file := write(t, "emco.yaml", sections)
	s, err := config.Load(config.ServerFlags{File: file, Env: "http://elsewhere:1"})
	if err != nil {
		t.Fatal(err)
	}
	if want := "Using config file: " + file; s.Notice != want {
		t.Errorf("Notice = %q, want %q", s.Notice, want)
	}
	dig := "projects/p/composite-apps/c/v1/deployment-intent-groups/d/"
	for anchor, want := range map[string]config.Address{
		"projects":                           {URL: "http://orch:30415"},
		"cluster-providers":                  {URL: "http://10.0.0.1:30461"},
		"projects/p/logical-clouds":          {URL: "https://dcm.example:443", CAFile: "/ca.pem"},
		dig + "generic-k8s-intents":          {URL: "http://[fd00::1]:30420"},
		dig + "temporal-action-controller/x": {URL: "https://t:1"},
	} {
		if got, err := s.For(anchor); got != want || err != nil {
			t.Errorf("For(%s) = %+v, %v; want %+v", anchor, got, err, want)
		}
	}
	_, err = s.For("cluster-providers/p/clusters/c/networks")
	if m, ok := errors.AsType[*config.MissingSection](err); !ok || m.Error() != "Fatal: No Ncm Information in Config File" {
		t.Errorf("For(networks): %v, want the missing section", err)
	}
}

// Branches are ours: upstream's files have no section for them, so the orchestrator has them. Other services need their section.
func TestBranchesWithoutASection(t *testing.T) {
	t.Parallel()
	const networks, branches = "cluster-providers/p/clusters/c/networks", "git/branches"
	for _, tt := range []struct{ file, anchor, want string }{
		{`{"orchestrator": {"host": "e", "port": 1}, "clm": {"host": "e", "port": 2}}`, branches, "http://e:1"},
		{`{"orchestrator": {"host": "e", "port": 1}, "rsync": {"host": "e", "port": 2}}`, branches, "http://e:2"},
		{`{"orchestrator": {"host": "e", "port": 1}, "clm": {"host": "e", "port": 1}}`, networks, ""},
		{`{"clm": {"host": "e", "port": 1}}`, branches, ""},
	} {
		s, err := config.Load(config.ServerFlags{File: write(t, "e.json", tt.file)})
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.For(tt.anchor)
		if _, missing := errors.AsType[*config.MissingSection](err); got.URL != tt.want || missing != (tt.want == "") {
			t.Errorf("For(%s) with %s = %q, %v; want %q", tt.anchor, tt.file, got.URL, err, tt.want)
		}
	}
}

func TestIngressServesAll(t *testing.T) {
	t.Parallel()
	s, err := config.Load(config.ServerFlags{File: write(t, "e.json", `{"ingress": {"host": "gw", "port": 80}, "clm": {"host": "x", "port": 1}}`)})
	if err != nil {
		t.Fatal(err)
	}
	for _, anchor := range []string{"cluster-providers", "projects", "policy/agents"} {
		if got, err := s.For(anchor); got.URL != "http://gw:80" || err != nil {
			t.Errorf("For(%s) = %v, %v", anchor, got, err)
		}
	}
	if _, err := s.For("/projects"); !errs.Is(err, errs.Invalid) {
		t.Errorf("For(/projects): %v, want Invalid", err)
	}
}

func TestPrecedenceOfSettings(t *testing.T) {
	t.Parallel()
	home := filepath.Dir(write(t, ".emco.yaml", "ingress: {host: home, port: 5}"))
	file := write(t, "f.yaml", "ingress: {host: file, port: 4}")
	for _, tt := range []struct {
		name   string
		choice config.ServerFlags
		want   string
		notice string
	}{
		{"the flag --server", config.ServerFlags{Server: "flag:1", File: file, Env: "env:2", Home: home}, "http://flag:1", "Using server: http://flag:1"},
		{"the flag --config", config.ServerFlags{File: file, Env: "env:2", Home: home}, "http://file:4", "Using config file: " + file},
		{"the environment", config.ServerFlags{Env: "https://env:2/v2", Home: home}, "https://env:2", "Using server: https://env:2"},
		{"the file at home", config.ServerFlags{Home: home}, "http://home:5", "Using config file: " + filepath.Join(home, ".emco.yaml")},
		{"the default", config.ServerFlags{Home: t.TempDir()}, config.DefaultServer, "Warning: No Configuration File found. Using defaults"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := config.Load(tt.choice)
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.For("projects")
			if got.URL != tt.want || s.Notice != tt.notice || err != nil {
				t.Errorf("For = %q, %v with %q; want %q with %q", got.URL, err, s.Notice, tt.want, tt.notice)
			}
		})
	}
}

func TestBadFiles(t *testing.T) {
	t.Parallel()
	for text, kind := range map[string]errs.Kind{
		"clm: {host: x, port: many}":              errs.Invalid,
		"clm: just text":                          errs.Invalid,
		"clm: {host: x, port: 1, scheme: gopher}": errs.Invalid,
		"clm: [": errs.Malformed,
	} {
		if _, err := config.Load(config.ServerFlags{File: write(t, "c.yaml", text)}); !errs.Is(err, kind) {
			t.Errorf("Load(%q): %v (%v), want %v", text, err, errs.KindOf(err), kind)
		}
	}
	for _, file := range []string{"/does/not/exist.yaml", write(t, "c.toml", "")} {
		if _, err := config.Load(config.ServerFlags{File: file}); !errs.Is(err, errs.Invalid) {
			t.Errorf("Load(%s): %v, want Invalid", file, err)
		}
	}
}
