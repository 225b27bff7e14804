package suite

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/plain"

	"github.com/emco-orchestrator/emco/scripts/bench/figures"
	"github.com/emco-orchestrator/emco/scripts/bench/peers"
	"github.com/emco-orchestrator/emco/scripts/bench/site"
	"github.com/emco-orchestrator/emco/scripts/bench/world"
)

// pulls measures the bytes that one cluster of a fleet receives: P8.
func (s *Suite) pulls(ctx context.Context) error {
	sizes := []int{1000}
	if s.Full {
		sizes = []int{100, 1000}
	}
	for _, clusters := range sizes {
		var err error
		s.turn(fmt.Sprintf("P8 %d clusters", clusters), func() { err = s.pulled(ctx, clusters) })
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (s *Suite) pulled(ctx context.Context, clusters int) error {
	home, err := s.published(ctx, clusters)
	if err != nil {
		return err
	}
	for _, w := range shuffled(s, fetches()) {
		sample := fetched(ctx, home, w, s.folder())
		sample.Metric, sample.Case, sample.Peer = "P8", fmt.Sprintf("one of %d clusters, %d files each", clusters, apps*resources), w.name
		s.add(sample)
	}
	return home.Close()
}

// published is a branch with a fleet, and a derived branch of one cluster: its folder is the root, made
// of the same objects.
func (s *Suite) published(ctx context.Context, clusters int) (*site.Site, error) {
	home, err := site.Open(ctx, s.folder())
	if err != nil {
		return nil, err
	}
	fleet := world.New(world.Spec{Apps: apps, Clusters: clusters, Resources: resources, Bytes: bytesEach})
	if err := home.Seed(ctx, fleet.Make(world.Change{Kind: world.Install}), func(string) string { return site.Branch }); err != nil {
		return nil, err
	}
	tree, err := home.Bare.Git(ctx, "", "rev-parse", site.Branch+":clusters/"+world.Cluster(1))
	if err != nil {
		return nil, err
	}
	commit, err := home.Bare.Git(ctx, "", "commit-tree", "-m", "one cluster", tree)
	if err == nil {
		_, err = home.Bare.Git(ctx, "", "update-ref", "refs/heads/"+oneBranch, commit)
	}
	return home, err
}

const oneBranch = "edge/one"

// fetchMethod is a method to get one cluster's files; it returns the received bytes.
type fetchMethod struct {
	name string
	run  func(ctx context.Context, s *site.Site, dir string) (int64, error)
}

func fetches() []fetchMethod {
	clone := func(args ...string) func(context.Context, *site.Site, string) (int64, error) {
		return func(ctx context.Context, s *site.Site, dir string) (int64, error) {
			if err := runGit(ctx, s.Dir, append(append([]string{"clone", "-q"}, args...), s.CloneURL(), dir)...); err != nil {
				return 0, err
			}
			return packs(dir)
		}
	}
	return []fetchMethod{
		{"git, whole branch, depth 1 (Flux)", clone("--depth=1")},
		{"git, sparse and without blobs", sparse},
		{"git, branch of the cluster alone", clone("--depth=1", "--single-branch", "--branch="+oneBranch)},
		{"ours: branch of the cluster alone", alone},
	}
}

func sparse(ctx context.Context, s *site.Site, dir string) (int64, error) {
	if err := runGit(ctx, s.Dir, "clone", "-q", "--depth=1", "--filter=blob:none", "--sparse", s.CloneURL(), dir); err != nil {
		return 0, err
	}
	if err := runGit(ctx, dir, "sparse-checkout", "set", "clusters/"+world.Cluster(1)); err != nil {
		return 0, err
	}
	return packs(dir)
}

// alone is the fetch of our own packages.
func alone(ctx context.Context, s *site.Site, _ string) (int64, error) {
	host := plain.New(plain.Options{})
	defer host.Close()
	found, err := host.Branches(ctx, s.Repo(), oneBranch, func(string, git.Hash) bool { return true }, git.Limit{Object: 1 << 20, Files: 10_000})
	if err == nil && len(found[oneBranch].Files) != apps*resources {
		err = fmt.Errorf("%d files arrived, want %d: %v", len(found[oneBranch].Files), apps*resources, found[oneBranch].Err)
	}
	return int64(host.Stats().Received), err
}

func fetched(ctx context.Context, s *site.Site, w fetchMethod, dir string) figures.Sample {
	defer os.RemoveAll(dir)
	cpu, began := peers.CPU(), time.Now()
	n, err := w.run(ctx, s, dir)
	if err != nil {
		return figures.Sample{Failed: err.Error()}
	}
	return figures.Sample{Values: map[string]float64{"bytes": float64(n) / 1024, "seconds": time.Since(began).Seconds(), "cpu": (peers.CPU() - cpu).Seconds()}}
}

func runGit(ctx context.Context, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_TERMINAL_PROMPT=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("git %s: %w: %.200s", args[0], err, out)
	}
	return nil
}

// packs is the size of the packs that a clone has received; small ones are unpacked.
func packs(dir string) (n int64, err error) {
	err = filepath.WalkDir(filepath.Join(dir, ".git", "objects"), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || filepath.Ext(path) == ".idx" || filepath.Ext(path) == ".rev" {
			return err
		}
		info, err := e.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	})
	return n, err
}
