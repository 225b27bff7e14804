package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/git/gittest"

	"github.com/emco-orchestrator/emco/scripts/e2e/pages"
	"github.com/emco-orchestrator/emco/scripts/testbed/bed"
	"github.com/emco-orchestrator/emco/scripts/testbed/build"
	"github.com/emco-orchestrator/emco/scripts/testbed/cluster"
)

// pageLimit ends a page that hangs.
const pageLimit = 8 * time.Minute

// pageReader is a reader of the documentation in an empty folder, with the built programs on the PATH. emco listens
// on free ports, so that pages run at the same time.
type pageReader struct {
	testing.TB
	dir     string
	env     []string
	replace []string // ports of the page by free ones
}

func newReader(t testing.TB) *pageReader {
	t.Helper()
	dir := t.TempDir()
	rest, grpc := freePort(t), freePort(t)
	return &pageReader{TB: t, dir: dir, replace: []string{"127.0.0.1:9015", rest, "port: 9015", "port: " + portOf(rest)}, env: []string{
		"HOME=" + t.TempDir(), "PATH=" + binaries() + ":" + os.Getenv("PATH"),
		"EMCO_HTTP_ADDRESS=" + rest, "EMCO_GRPC_ADDRESS=" + grpc, "EMCO_URL=http://" + rest,
		"GIT_AUTHOR_NAME=reader", "GIT_AUTHOR_EMAIL=reader@localhost", "GIT_COMMITTER_NAME=reader", "GIT_COMMITTER_EMAIL=reader@localhost",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0",
	}}
}

// freePort returns a free address on loopback. Its port is below those that the kernel gives to clients, so that it stays
// free until the page uses it.
func freePort(t testing.TB) string {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(12000)))
		if err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
	t.Fatal("no port between 20000 and 32000 is free")
	return ""
}

// port replaces an address of the page by a free one.
func (r *pageReader) port(address string) {
	r.Helper()
	host, _, _ := net.SplitHostPort(address)
	r.replace = append(r.replace, address, net.JoinHostPort(host, portOf(freePort(r))))
}

func portOf(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}

// on gives the reader kubectl, and a copy of the kubeconfig of a cluster.
func (r *pageReader) on(c *cluster.Cluster) {
	r.Helper()
	text, err := os.ReadFile(c.Kubeconfig())
	if err != nil {
		r.Fatal(err)
	}
	path := filepath.Join(r.TempDir(), "config")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		r.Fatal(err)
	}
	r.env = append(r.env, "KUBECONFIG="+path, "PATH="+binaries()+":"+filepath.Dir(c.KubectlPath())+":"+os.Getenv("PATH"))
}

// repository gives the reader an empty repository and a user that may write to it; git asks for the
// password in the way that people set up with a credential helper.
func (r *pageReader) repository() *gittest.Server {
	r.Helper()
	const user, token = "emco", "token-of-the-reader"
	s, err := gittest.Serve(r.TempDir(), gittest.User{Name: user, Token: token, Write: true})
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { s.Close() })
	if _, err := s.Seed(r.Context(), repoName, branch); err != nil {
		r.Fatal(err)
	}
	r.env = append(r.env, "GIT_URL="+s.URL(repoName), "GIT_USER="+user, "GIT_TOKEN="+token,
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=credential.helper", "GIT_CONFIG_VALUE_0=!echo username="+user+"; echo password="+token+"; :")
	return s
}

// reads runs the commands of a page, except below some headings.
func (r *pageReader) reads(page string, skip ...string) string {
	r.Helper()
	p := parsePage(r, page)
	ctx, cancel := context.WithTimeout(r.Context(), pageLimit)
	defer cancel()
	out, err := p.Run(ctx, pages.Options{Dir: r.dir, Env: r.env, Skip: skip, Replace: r.replace})
	if err != nil {
		r.Errorf("%v", err)
		for _, name := range []string{"emco.log", "monitor.log"} {
			if text, err := os.ReadFile(filepath.Join(r.dir, name)); err == nil {
				r.Logf("the end of %s:\n%s", name, lastLines(string(text), 15))
			}
		}
		r.FailNow()
	}
	return out
}

func parsePage(t testing.TB, page string) pages.Page {
	t.Helper()
	text, err := os.ReadFile(local("..", "..", filepath.FromSlash(page)))
	if err != nil {
		t.Fatal(err)
	}
	p, err := pages.Parse(page, string(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// The two ways of docs/first-deployment.md to reach a cluster, and the headings of each.
const (
	firstPage = "docs/first-deployment.md"
	directly  = "Directly, with a kubeconfig"
	byGit     = "Through Git, with Flux"
	byGitEnd  = "Flux, the monitor and the repository"
)

// TestF30FirstDeploymentDirectly reads the page with a cluster that emco reaches.
func TestF30FirstDeploymentDirectly(t *testing.T) {
	l, r := clustersOf(t), newReader(t)
	r.on(l.c1)
	r.reads(firstPage, byGit, byGitEnd)
	nothingLeft(r, l.c1)
}

// TestF30FirstDeploymentThroughGit reads the page with a cluster that pulls, with Flux and the monitor.
func TestF30FirstDeploymentThroughGit(t *testing.T) {
	l, r := clustersOf(t), newReader(t)
	r.on(l.c2)
	r.repository()
	r.reads(firstPage, directly)
	nothingLeft(r, l.c2)
}

// nothingLeft checks that no object of emco is on the cluster, and no data in the folder.
func nothingLeft(r *pageReader, c *cluster.Cluster) {
	r.Helper()
	list, err := ours(r.Context(), c)
	if err != nil || len(list) > 0 {
		r.Errorf("left on the cluster: %v, %v", names(list), err)
	}
	if _, err := os.Stat(filepath.Join(r.dir, "emco-data")); !os.IsNotExist(err) {
		r.Errorf("emco-data is left: %v", err)
	}
}

// TestF31ReadmeRuns runs the commands of the README in this checkout. It compares their output with the
// page, the demonstration's included.
func TestF31ReadmeRuns(t *testing.T) {
	r := newReader(t)
	caches, err := exec.Command("go", "env", "GOCACHE", "GOMODCACHE").Output() // the reader's home is empty
	if err != nil {
		t.Fatal(err)
	}
	cache := strings.Fields(string(caches))
	r.env = append(r.env, "EMCO_DATA="+filepath.Join(r.dir, "emco-data"), "GOWORK=", "GOCACHE="+cache[0], "GOMODCACHE="+cache[1])
	r.dir = local("..", "..")
	r.Cleanup(func() { _ = os.Remove(filepath.Join(r.dir, "emco.log")) }) // best effort: git ignores it
	r.reads("README.md")
}

// TestF31FiguresAreThoseOfTheBenchmarks compares the README's table with docs/bench/quick.md.
func TestF31FiguresAreThoseOfTheBenchmarks(t *testing.T) {
	t.Parallel()
	measured, err := os.ReadFile(local("..", "..", "docs", "bench", "quick.md"))
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(local("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	cells := benchCells(string(measured))
	_, table, _ := strings.Cut(string(readme), "\n## Figures\n")
	var peers []string
	checked := 0
	for line := range strings.Lines(table) {
		row := tableRow(line)
		switch {
		case len(row) != 6 || strings.HasPrefix(line, "|-"):
			continue
		case peers == nil:
			peers = row
			continue
		}
		number, _, _ := strings.Cut(row[0], " ")
		for i, cell := range row[2:] {
			if cell == "" {
				continue
			}
			name := number + "; shared, " + row[1] + " x 10 apps x 10; " + peers[i+2] + "; s"
			if checked++; cells[name] != cell {
				t.Errorf("the README has %s for %s, the benchmark %q", cell, name, cells[name])
			}
		}
	}
	if checked < 10 {
		t.Errorf("%d figures were checked", checked)
	}
}

// TestF31FiguresOfSizingAreThoseOfTheBenchmarks compares the table of docs/operate/sizing.md, whose last column names where a figure is from.
func TestF31FiguresOfSizingAreThoseOfTheBenchmarks(t *testing.T) {
	t.Parallel()
	measured, err := os.ReadFile(local("..", "..", "docs", "bench", "quick.md"))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(local("..", "..", "docs", "operate", "sizing.md"))
	if err != nil {
		t.Fatal(err)
	}
	cells, checked := benchCells(string(measured)), 0
	for line := range strings.Lines(string(page)) {
		row := tableRow(line)
		if len(row) != 4 || !strings.HasPrefix(row[3], "P") {
			continue
		}
		metric, rest, _ := strings.Cut(row[3], "; ")
		name, column, _ := strings.Cut(rest, "; ")
		figure, _, _ := strings.Cut(strings.ReplaceAll(row[2], ",", ""), " ")
		says, _ := strconv.ParseFloat(figure, 64)
		is, err := strconv.ParseFloat(cells[metric+"; "+name+"; ours: emco; "+column], 64)
		if checked++; err != nil || says != is {
			t.Errorf("the page has %s for %s, the benchmark %v, %v", figure, row[3], is, err)
		}
	}
	if checked < 7 {
		t.Errorf("%d figures were checked", checked)
	}
}

// tableRow returns the cells of a row of a table.
func tableRow(line string) []string {
	cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
	for i := range cells {
		cells[i] = strings.Trim(cells[i], " `")
	}
	return cells
}

// benchCells reads the figures of each metric, case, peer and column.
func benchCells(text string) map[string]string {
	out := map[string]string{}
	metric, name := "", ""
	var columns []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "## "):
			metric, _, _ = strings.Cut(strings.TrimPrefix(line, "## "), " ")
		case strings.HasPrefix(line, "| peer "):
			columns = tableRow(line)
		case strings.HasPrefix(line, "|") && columns != nil:
			row := tableRow(line)
			for i := 1; i < min(len(row), len(columns)); i++ {
				out[metric+"; "+name+"; "+row[0]+"; "+columns[i]] = row[i]
			}
		case line != "":
			name, columns = strings.TrimSuffix(line, ":"), nil
		}
	}
	return out
}

// TestF32ConceptsFollowTheExample finds the documents that docs/concepts.md names in examples/01-git-fleet.
func TestF32ConceptsFollowTheExample(t *testing.T) {
	t.Parallel()
	var documents strings.Builder
	for _, name := range []string{"00-clusters.yaml", "01-app.yaml", "02-deployment.yaml"} {
		text, err := os.ReadFile(example("01-git-fleet", name))
		if err != nil {
			t.Fatal(err)
		}
		documents.Write(text)
	}
	known := strings.NewReplacer("{{ .Name }}", "alpha").Replace(documents.String())
	page, err := os.ReadFile(local("..", "..", "docs", "concepts.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| .* \\| `((?:projects|cluster-providers)[^`]*)` \\|$").FindAllStringSubmatch(string(page), -1)
	for _, row := range rows {
		if !strings.Contains(known, "anchor: "+row[1]+"\n") {
			t.Errorf("no document of the example has the anchor %s", row[1])
		}
	}
	if len(rows) < 15 {
		t.Errorf("the page has %d anchors", len(rows))
	}
}

// TestF35GatewayPage runs the page with each reverse proxy that this machine has. With EMCO_GATEWAY it builds Caddy.
func TestF35GatewayPage(t *testing.T) {
	if os.Getenv("EMCO_GATEWAY") != "" {
		builder, err := build.New(t.Output())
		if err != nil {
			t.Fatal(err)
		}
		part, err := builder.Build(t.Context(), "caddy")
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", part+":"+os.Getenv("PATH"))
	}
	proxies := map[string]string{"nginx": "nginx", "caddy": "Caddy"} // program, heading
	ran := 0
	for program := range proxies {
		if _, err := exec.LookPath(program); err != nil {
			t.Logf("%s is missing: its part of the page does not run", program)
			continue
		}
		ran++
		t.Run(program, func(t *testing.T) {
			r := newReader(t)
			r.port("localhost:8443")
			var others []string
			for other, heading := range proxies {
				if other != program {
					others = append(others, heading)
				}
			}
			r.reads("docs/guides/gateway.md", others...)
		})
	}
	if ran == 0 {
		t.Skip("neither nginx nor caddy is installed: run.sh gateway builds Caddy")
	}
}

// TestF35IdentityPage runs the commands of the page about identity.
func TestF35IdentityPage(t *testing.T) {
	t.Parallel()
	newReader(t).reads("docs/operate/identity.md")
}

// TestF35ThreeMachines runs the page with three addresses of loopback as machines.
func TestF35ThreeMachines(t *testing.T) {
	t.Parallel()
	b, err := bed.Open(t.Context(), bed.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	etcd, err := b.Part(t.Context(), "etcd")
	if err != nil {
		t.Fatal(err)
	}
	r := newReader(t)
	r.env = slices.DeleteFunc(r.env, func(v string) bool { return strings.HasPrefix(v, "EMCO_") })
	for _, port := range []string{"2379", "2380", "9015", "9017"} {
		r.replace = append(r.replace, ":"+port, ":"+portOf(freePort(t)))
	}
	r.env = append(r.env, "PATH="+binaries()+":"+etcd+":"+os.Getenv("PATH"),
		"MACHINES=127.0.0.1 127.0.0.2 127.0.0.3", "NAME=localhost", "FILES="+filepath.Join(r.dir, "emco-1"), "STATE="+filepath.Join(t.TempDir(), "state"))
	r.reads("docs/operate/three-machines.md")
}

// TestF35AuditPage runs the page of the audit log.
func TestF35AuditPage(t *testing.T) {
	t.Parallel()
	newReader(t).reads("docs/operate/audit.md")
}

// TestF35Guides runs the other guides, each in an empty folder.
func TestF35Guides(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(local("..", "..", "docs", "guides", "*.md"))
	if err != nil || len(files) < 6 {
		t.Fatalf("guides: %v, %v", files, err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		if name == "gateway.md" {
			continue // it runs with each proxy
		}
		t.Run(strings.TrimSuffix(name, ".md"), func(t *testing.T) {
			t.Parallel()
			r := newReader(t)
			r.repository()
			r.reads("docs/guides/" + name)
		})
	}
}
