package cluster

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/scripts/testbed/bed"
)

func still(t *testing.T) *Cluster {
	t.Helper()
	c := &Cluster{
		name: "c1", dir: filepath.Join(t.TempDir(), "c1"), nodes: 2, bed: &bed.Bed{}, tokens: newTokens(),
		programs: programDirs{kube: "/parts/kube", kwok: "/parts/kwok"}, server: "https://127.0.0.1:23456",
	}
	if err := c.writeFiles(); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTheKubeconfigHoldsTokenAndAuthorityAndTrustsNothingElse(t *testing.T) {
	c := still(t)
	if err := c.writeKubeconfigs(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(c.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for _, want := range []string{
		"server: https://127.0.0.1:23456\n", "token: " + c.tokens.admin + "\n", "current-context: c1\n",
		"certificate-authority-data: " + base64.StdEncoding.EncodeToString(c.keys.CA) + "\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("kubeconfig lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "insecure") {
		t.Errorf("kubeconfig trusts blindly:\n%s", text)
	}
	if info, err := os.Stat(c.Kubeconfig()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("kubeconfig has mode %v, %v, want 0600", info.Mode(), err)
	}
}

func TestEachRunHasItsOwnTokens(t *testing.T) {
	a, b := newTokens(), newTokens()
	all := []string{a.admin, a.manager, a.scheduler, b.admin, b.manager, b.scheduler}
	slices.Sort(all)
	if len(slices.Compact(all)) != 6 {
		t.Errorf("tokens repeat: %+v %+v", a, b)
	}
	if want := a.admin + `,admin,admin,"system:masters"` + "\n"; !strings.HasPrefix(a.csv(), want) {
		t.Errorf("csv = %q, want it to begin with %q", a.csv(), want)
	}
}

func TestTheArgumentsKeepClustersApart(t *testing.T) {
	c := still(t)
	args := c.serverArgs("http://127.0.0.1:1", 23456)
	for _, want := range []string{
		"--etcd-servers=http://127.0.0.1:1", "--etcd-prefix=/clusters/c1", "--bind-address=127.0.0.1", "--secure-port=23456",
		"--token-auth-file=" + c.path("tokens.csv"), "--authorization-mode=RBAC",
	} {
		if !slices.Contains(args, want) {
			t.Errorf("arguments of the API server lack %s: %q", want, args)
		}
	}
	for _, s := range c.clients() {
		if s.Dir != c.dir || !strings.HasPrefix(s.Path, "/parts/") {
			t.Errorf("%s runs %s in %s", s.Name, s.Path, s.Dir)
		}
		if !strings.HasPrefix(s.Args[0], "--kubeconfig="+c.dir) {
			t.Errorf("%s begins with %s, want a kubeconfig of the cluster", s.Name, s.Args[0])
		}
	}
}

func TestNamesThatCannotBeFoldersAreRefused(t *testing.T) {
	for _, name := range []string{"", "../x", "A", "a_b", "-a", strings.Repeat("a", 41)} {
		if _, err := Start(t.Context(), Options{Bed: &bed.Bed{}, Name: name}); err == nil {
			t.Errorf("Start of cluster %q: no error", name)
		}
	}
	if _, err := Start(t.Context(), Options{Name: "c1"}); err == nil {
		t.Error("Start without a bed: no error")
	}
}

func TestOnlyReadyNodesCount(t *testing.T) {
	var l nodeList
	l.Items = make([]struct {
		Status struct {
			Conditions []struct{ Type, Status string }
		}
	}, 3)
	l.Items[0].Status.Conditions = []struct{ Type, Status string }{{"Ready", "True"}}
	l.Items[1].Status.Conditions = []struct{ Type, Status string }{{"Ready", "False"}, {"MemoryPressure", "True"}}
	if got := l.ready(); got != 1 {
		t.Errorf("ready = %d, want 1", got)
	}
}
