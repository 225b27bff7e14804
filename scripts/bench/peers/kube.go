package peers

import (
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/scripts/testbed/bed"
	"github.com/emco-orchestrator/emco/scripts/testbed/cluster"

	"github.com/emco-orchestrator/emco/scripts/bench/world"
)

// KubectlApply writes no Git: it starts kubectl for each app on each cluster, one after the other, with
// server-side apply. One real API server with its etcd represents all clusters; each is a namespace.
func KubectlApply() Maker {
	return Maker{Name: "kubectl apply, one after the other", New: func(dir string) Peer { return &kubectlApply{dir: dir} }}
}

type kubectlApply struct {
	dir     string
	bed     *bed.Bed
	cluster *cluster.Cluster
}

func (p *kubectlApply) Prepare(ctx context.Context, s world.Spec, base *world.World) (err error) {
	if p.bed, p.cluster, err = OpenCluster(ctx, p.dir); err != nil {
		return err
	}
	var spaces strings.Builder
	for i := range s.Clusters {
		fmt.Fprintf(&spaces, "---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: %s\n", world.Cluster(i))
	}
	if err := p.cluster.Apply(ctx, spaces.String()); err != nil || base == nil {
		return err
	}
	return p.applyAll(ctx, base.All())
}

// OpenCluster starts etcd and a cluster without nodes below a folder.
func OpenCluster(ctx context.Context, dir string) (*bed.Bed, *cluster.Cluster, error) {
	b, err := bed.Open(ctx, bed.Options{Dir: filepath.Join(dir, "bed")})
	if err != nil {
		return nil, nil, err
	}
	c, err := cluster.Start(ctx, cluster.Options{Bed: b, Name: "all", Nodes: -1})
	if err != nil {
		b.Close()
		return nil, nil, err
	}
	return b, c, nil
}

func (p *kubectlApply) Apply(ctx context.Context, t Turn) (Cost, error) {
	before := p.cpu()
	err := p.applyAll(ctx, t.Pairs)
	return Cost{Renders: -1, CPU: p.cpu() - before}, err
}

func (p *kubectlApply) applyAll(ctx context.Context, pairs []world.Pair) error {
	dir := filepath.Join(p.dir, "pair")
	for _, pair := range pairs {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		for name, text := range pair.Files {
			if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
				return err
			}
		}
		if _, err := p.cluster.Kubectl(ctx, "apply", "--server-side", "-n", pair.Cluster, "-f", dir); err != nil {
			return err
		}
	}
	return nil
}

// cpu is the processor time of the servers; kubectl counts as an ended child.
func (p *kubectlApply) cpu() (total time.Duration) {
	for _, pid := range p.cluster.PIDs() {
		total += CPUOf(pid)
	}
	return total + CPUOf(p.bed.EtcdPID())
}

// Probe lists the objects on the API server.
func (p *kubectlApply) Probe(ctx context.Context) (world.State, error) {
	text, err := p.cluster.Kubectl(ctx, "get", "configmaps", "-A", "-o", "json")
	if err != nil {
		return nil, err
	}
	var list struct {
		Items []struct {
			Metadata struct{ Name, Namespace string }
			Data     map[string]string
		}
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, err
	}
	out := world.State{}
	for _, o := range list.Items {
		if app, resource, ok := strings.Cut(o.Metadata.Name, "-"); ok && o.Data["version"] != "" {
			out["clusters/"+o.Metadata.Namespace+"/"+app+"/"+resource+".yaml"] = contentID(o.Data["cluster"], o.Data["version"], o.Data["text"])
		}
	}
	return out, nil
}

// Want is the world by the contents of its objects.
func (p *kubectlApply) Want(w *world.World) world.State {
	out := world.State{}
	for _, pair := range w.All() {
		for name, text := range pair.Files {
			out[pair.Dir()+"/"+name] = contentOf(text)
		}
	}
	return out
}

var manifest = regexp.MustCompile(`(?s)\n  cluster: ([^\n]*)\n  version: "([^"]*)"\n  text: \|\n(.*)kind: ConfigMap\n`)

// contentOf is the content of a manifest of the world.
func contentOf(text []byte) string {
	m := manifest.FindSubmatch(text)
	if m == nil {
		return "no manifest"
	}
	return contentID(string(m[1]), string(m[2]), string(bytes.ReplaceAll(m[3], []byte("    "), nil)))
}

func contentID(cluster, version, text string) string {
	sum := sha1.Sum([]byte(cluster + "\n" + version + "\n" + text))
	return hex.EncodeToString(sum[:])
}

// Close ends the cluster.
func (p *kubectlApply) Close(context.Context) error {
	if p.cluster == nil {
		return nil
	}
	err := errors.Join(p.cluster.Check(), p.bed.Check())
	p.cluster.Stop()
	p.bed.Close()
	return err
}
