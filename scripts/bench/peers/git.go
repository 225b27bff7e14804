package peers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/emco-orchestrator/emco/scripts/bench/site"
	"github.com/emco-orchestrator/emco/scripts/bench/world"
)

// siteOrigin is the common part of all peers that write to a site.
type siteOrigin struct {
	dir   string
	site  *site.Site
	shard func(cluster string) string // nil: all clusters are on the default branch
}

func (o *siteOrigin) open(ctx context.Context, base *world.World) (err error) {
	if o.shard == nil {
		o.shard = func(string) string { return site.Branch }
	}
	if o.site, err = site.Open(ctx, o.dir); err != nil || base == nil {
		return err
	}
	return o.site.Seed(ctx, base.All(), o.shard)
}

// Probe reads the branches on the server.
func (o *siteOrigin) Probe(ctx context.Context) (world.State, error) {
	out, err := o.site.Bare.Git(ctx, "", "for-each-ref", "--format=%(refname:short)", "refs/heads")
	if err != nil {
		return nil, err
	}
	return o.site.State(ctx, strings.Fields(out)...)
}

// Close checks for damage and ends the server.
func (o *siteOrigin) Close(ctx context.Context) error {
	if o.site == nil {
		return nil
	}
	return errors.Join(o.site.Bare.Fsck(ctx), o.site.Close())
}

// Site is the site of a peer.
func (o *siteOrigin) Site() *site.Site { return o.site }

// workTree is the common part of all peers that use the git program on a work tree.
type workTree struct {
	siteOrigin
	work site.Work
}

func (t *workTree) Prepare(ctx context.Context, _ world.Spec, base *world.World) error {
	err := t.open(ctx, base)
	if err == nil {
		t.work, err = t.site.Clone(ctx)
	}
	return err
}

// commit adds paths, or everything, and commits.
func (t *workTree) commit(ctx context.Context, title string, paths ...string) error {
	add := append([]string{"add", "-A", "--"}, paths...)
	if len(paths) == 0 {
		add = []string{"add", "-A"}
	}
	if err := t.work.Git(ctx, add...); err != nil {
		return err
	}
	return t.work.Git(ctx, "commit", "-q", "-m", title)
}

func (t *workTree) push(ctx context.Context) error {
	return t.work.Git(ctx, "push", "-q", "origin", site.Branch)
}

// Changed writes the files that differ, adds all, commits and pushes once.
func Changed() Maker {
	return Maker{Name: "changed files, git add -A", New: func(dir string) Peer { return &changedFiles{workTree{siteOrigin: siteOrigin{dir: dir}}} }}
}

type changedFiles struct{ workTree }

func (p *changedFiles) Apply(ctx context.Context, t Turn) (Cost, error) {
	err := p.work.Write(t.Pairs...)
	if err == nil {
		err = p.commit(ctx, "change")
	}
	if err == nil {
		err = p.push(ctx)
	}
	return ownFiles, err
}

// Everything writes all files, changed or not: rm, write, add, commit, push.
func Everything() Maker {
	return Maker{Name: "everything anew, git add -A", New: func(dir string) Peer { return &allFiles{workTree{siteOrigin: siteOrigin{dir: dir}}} }}
}

type allFiles struct{ workTree }

func (p *allFiles) Apply(ctx context.Context, t Turn) (Cost, error) {
	err := os.RemoveAll(filepath.Join(p.work.Dir, "clusters"))
	if err == nil {
		err = p.work.Write(t.World.All()...)
	}
	if err == nil {
		err = p.commit(ctx, "everything")
	}
	if err == nil {
		err = p.push(ctx)
	}
	return ownFiles, err
}

// PerCluster commits for each cluster and pushes at the end.
func PerCluster() Maker {
	return Maker{Name: "commit per cluster, one push", New: func(dir string) Peer { return &perCluster{workTree{siteOrigin: siteOrigin{dir: dir}}} }}
}

type perCluster struct{ workTree }

func (p *perCluster) Apply(ctx context.Context, t Turn) (Cost, error) {
	for _, of := range byCluster(t.Pairs) {
		if err := p.work.Write(of...); err != nil {
			return Cost{}, err
		}
		if err := p.commit(ctx, of[0].Cluster, "clusters/"+of[0].Cluster); err != nil {
			return Cost{}, err
		}
	}
	return ownFiles, p.push(ctx)
}

// byCluster splits pairs, ordered by cluster, by cluster.
func byCluster(pairs []world.Pair) (out [][]world.Pair) {
	for i, p := range pairs {
		if i == 0 || pairs[i-1].Cluster != p.Cluster {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], p)
	}
	return out
}

// EmcoGit is EMCO's generic Git backend: under one lock, for each app on each cluster, three times (its
// configuration, its resources, the object of the monitor) staging, a commit and a forced push. An
// update, which commits only the resources, counts as one commit. The git program replaces libgit2.
func EmcoGit() Maker {
	return Maker{Name: "EMCO, generic Git", New: func(dir string) Peer { return &emcoGit{workTree{siteOrigin: siteOrigin{dir: dir}}} }}
}

type emcoGit struct{ workTree }

func (p *emcoGit) Apply(ctx context.Context, t Turn) (Cost, error) {
	for _, pair := range t.Pairs {
		if t.Kind == world.Install {
			if err := p.commitExtraFile(ctx, pair, "kust"); err != nil {
				return Cost{}, err
			}
		}
		if err := p.work.Write(pair); err != nil {
			return Cost{}, err
		}
		if err := p.send(ctx, pair.Dir()); err != nil {
			return Cost{}, err
		}
		if t.Kind == world.Install {
			if err := p.commitExtraFile(ctx, pair, "monitor"); err != nil {
				return Cost{}, err
			}
		}
	}
	return ownFiles, nil
}

// commitExtraFile commits and pushes a file that EMCO writes in addition to the resources of a pair.
func (p *emcoGit) commitExtraFile(ctx context.Context, pair world.Pair, kind string) error {
	path := fmt.Sprintf("clusters/%s/%s-%s.yaml", pair.Cluster, kind, pair.App)
	at := filepath.Join(p.work.Dir, filepath.FromSlash(path))
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(at, []byte(kind+" of "+pair.App+" on "+pair.Cluster+"\n"), 0o644); err != nil {
		return err
	}
	return p.send(ctx, path)
}

func (p *emcoGit) send(ctx context.Context, path string) error {
	if err := p.commit(ctx, "commit for "+path, path); err != nil {
		return err
	}
	return p.work.Git(ctx, "push", "-q", "origin", "+refs/heads/"+site.Branch)
}
