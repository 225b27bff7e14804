package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
)

const top = "../.."

// The compose file is valid, and its services are as confined as the chart's.
func TestCompose(t *testing.T) {
	t.Parallel()
	options, err := cli.NewProjectOptions([]string{top + "/deployments/compose/compose.yaml"}, cli.WithProfiles([]string{"tools"}))
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if names := project.ServiceNames(); !slices.Equal(names, []string{"emco", "emcoctl"}) {
		t.Errorf("services %v", names)
	}
	for name, s := range project.Services {
		if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
			t.Errorf("%s is not confined: %+v", name, s)
		}
		if _, err := os.Stat(filepath.Join(s.Build.Context, s.Build.Dockerfile)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, p := range s.Ports {
			if p.HostIP != "127.0.0.1" {
				t.Errorf("%s publishes port %s on %q; the API has no authentication", name, p.Published, p.HostIP)
			}
		}
	}
}

// Shell scripts parse.
func TestScriptsParse(t *testing.T) {
	t.Parallel()
	for script, shell := range map[string]string{"install.sh": "sh", "scripts/release/build.sh": "sh", "deployments/kind/quickstart.sh": "bash"} {
		if out, err := exec.CommandContext(t.Context(), shell, "-n", filepath.Join(top, script)).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", script, err, out)
		}
	}
}

// The quick start names what is missing, and shows its commands without kind. Files that the commands
// name exist.
func TestQuickstart(t *testing.T) {
	t.Parallel()
	quickstart := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "bash", append([]string{top + "/deployments/kind/quickstart.sh"}, args...)...)
		cmd.Env = append(os.Environ(), "PATH="+pathWithout(t, "kind"))
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := quickstart(); err == nil || !strings.Contains(out, "kind is missing: install it from") {
		t.Errorf("without kind: %v\n%s", err, out)
	}
	out, err := quickstart("--dry-run")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		"+ make images VERSION=v0.0.0-quickstart ONLY=emco\n", // others take minutes to build
		"+ kind create cluster --name emco", "+ kind load image-archive", "rollout status statefulset/emco",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("--dry-run does not print %q:\n%s", want, out)
		}
	}
	words := strings.Fields(out)
	for i, word := range words {
		if word == "-f" {
			if _, err := os.Stat(filepath.Join(top, words[i+1])); err != nil {
				t.Error(err)
			}
		}
	}
	if out, err := quickstart("--fast"); err == nil || !strings.Contains(out, "not an option") {
		t.Errorf("--fast: %v\n%s", err, out)
	}
}

// pathWithout returns a PATH with all programs of this machine but one.
func pathWithout(t *testing.T, program string) string {
	t.Helper()
	var kept []string
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if _, err := os.Stat(filepath.Join(dir, program)); err != nil {
			kept = append(kept, dir)
		}
	}
	return strings.Join(kept, string(filepath.ListSeparator))
}

// F59: the service is confined, by systemd's own measure: 0 is best, 10 worst.
func TestF59TheServiceIsConfined(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("systemd-analyze is not on this machine")
	}
	unit := filepath.Join(top, "deployments", "systemd", "emco.service")
	analyze := func(ctx context.Context, args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, "systemd-analyze", args...)
		cmd.Env = append(os.Environ(), "SYSTEMD_PAGER=")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := analyze(t.Context(), "security", "--offline=true", "--threshold=25", unit); err != nil {
		t.Errorf("the exposure is above 2.5: %v\n%s", err, out)
	}
}
