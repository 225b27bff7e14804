package config_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/monitor/internal/config"
)

func read(vars map[string]string, args ...string) (config.Config, error) {
	return config.Read(args, func(name string) string { return vars[name] }, &bytes.Buffer{})
}

// The variables of upstream's monitor are enough.
func TestEMCOsVariables(t *testing.T) {
	t.Parallel()
	c, err := read(map[string]string{
		"GIT_USERNAME": "u", "GIT_REPO": "fleet", "GIT_CLUSTERNAME": "edge+c1", "GIT_TOKEN": "s3cret", "GIT_TYPE": "github", "GIT_BRANCH": "main", "STATUS_INTERVAL": "30s",
	}, "-status.interval", "20s")
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.Repository()
	if err != nil || r.URL != "https://github.com/u/fleet" || r.User != "u" || r.Token.Reveal() != "s3cret" || c.Cluster != "edge+c1" || c.Mode != config.OwnBranch {
		t.Errorf("config = %+v, repository %+v, %v", c, r, err)
	}
	if c.Interval != 20*time.Second {
		t.Errorf("interval is %s, want that of the flag", c.Interval)
	}
	if text := fmt.Sprintf("%v %+v", c, r); strings.Contains(text, "s3cret") {
		t.Errorf("the token is printed: %s", text)
	}
}

// A cluster that reports to the control plane needs no repository.
func TestReportsByHTTPS(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	vars := map[string]string{"GIT_CLUSTERNAME": "p+c", "STATUS_MODE": "https"}
	if _, err := read(vars); err == nil || !strings.Contains(err.Error(), "STATUS_URL") || !strings.Contains(err.Error(), "STATUS_TOKEN_FILE") {
		t.Errorf("without anything: %v", err)
	}
	vars["STATUS_URL"], vars["STATUS_TOKEN_FILE"] = "https://emco.example.org", file
	c, err := read(vars)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.ReportCredentials(); err == nil {
		t.Error("a file that is missing: no error")
	}
	for _, token := range []string{"one", "two"} {
		if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, _, err := c.ReportCredentials(); err != nil || got.Reveal() != token {
			t.Errorf("token is %q, %v, want %q", got.Reveal(), err, token)
		}
	}
	vars["STATUS_TOKEN"] = "s3cret"
	delete(vars, "STATUS_TOKEN_FILE")
	if c, err = read(vars); err != nil || strings.Contains(fmt.Sprintf("%+v", c), "s3cret") {
		t.Errorf("a token in a variable: %v, or it is printed", err)
	}
}

func TestCredentialsAreReadAnew(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	c, err := read(map[string]string{"GIT_URL": "https://h/r", "GIT_CLUSTERNAME": "p+c", "GIT_TOKEN_FILE": file})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Repository(); err == nil {
		t.Error("a file that is missing: no error")
	}
	last := c.CredentialsID()
	for _, token := range []string{"one", "two"} {
		if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if r, err := c.Repository(); err != nil || r.Token.Reveal() != token {
			t.Errorf("token is %q, %v, want %q", r.Token.Reveal(), err, token)
		}
		proof := c.CredentialsID()
		if proof == last || proof != c.CredentialsID() || strings.Contains(proof, token) {
			t.Errorf("with token %q the proof is %q, after %q", token, proof, last)
		}
		last = proof
	}
}

func TestMistakesAreNamed(t *testing.T) {
	t.Parallel()
	good := map[string]string{"GIT_URL": "https://h/r", "GIT_CLUSTERNAME": "p+c"}
	for _, c := range []struct {
		name, key, value, want string
	}{
		{"no cluster", "GIT_CLUSTERNAME", "", "GIT_CLUSTERNAME"},
		{"half a cluster", "GIT_CLUSTERNAME", "c1", "GIT_CLUSTERNAME"},
		{"no repository", "GIT_URL", "", "GIT_URL"},
		{"a credential in the URL", "GIT_URL", "https://u:p@h/r", "git.url"},
		{"a file", "GIT_URL", "file:///r", "git.url"},
		{"a mode that there is not", "STATUS_MODE", "pigeon", "status.mode"},
		{"no duration", "STATUS_INTERVAL", "soon", "STATUS_INTERVAL"},
		{"reads of nodes all the time", "CAPACITY_INTERVAL", "1ms", "capacity.interval"},
		{"no interval", "STATUS_INTERVAL", "0s", "status.interval"},
		{"a heartbeat that is too fast", "STATUS_HEARTBEAT", "1s", "status.heartbeat"},
		{"a limit above the limit", "STATUS_LIMIT", "5000000", "status.limit"},
		{"a prefix that Git refuses", "STATUS_PREFIX", "a..b/", "branch"},
		{"no format", "LOG_FORMAT", "xml", "log.format"},
		{"no boolean", "WATCH_SECRETS", "maybe", "WATCH_SECRETS"},
	} {
		vars := map[string]string{c.key: c.value}
		for k, v := range good {
			if k != c.key {
				vars[k] = v
			}
		}
		if _, err := read(vars); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: Read: %v, want it to name %s", c.name, err, c.want)
		}
	}
	if _, err := read(good, "extra"); err == nil {
		t.Error("an argument that is not understood: no error")
	}
	if _, err := read(nil, "-alive"); err != nil {
		t.Errorf("-alive needs nothing else: %v", err)
	}
}
