package gitops

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
)

// Not in upstream EMCO: how clusters share the branches of a repository.
const (
	keyRefMode    = "refMode"
	keyShardSize  = "shardSize"
	keyShards     = "shards"
	keyViewPrefix = "viewPrefix"
)

// How clusters share the branches of a repository.
const (
	RefBranch  = "branch"  // all are on one branch
	RefShard   = "shard"   // they are spread over branches, some clusters on each
	RefCluster = "cluster" // likewise, and each cluster reads a branch of its own that shows its directory
)

// DefaultShardSize is the number of clusters of a branch shard by default. A push costs the
// server all trees below its branch, changed or not.
const DefaultShardSize = 1000

// DefaultViewPrefix is where the branches of clusters are that read one of their own.
const DefaultViewPrefix = "clusters/"

// Bounds of what a sync object may ask for.
const (
	maxShardSize = 100_000
	maxShards    = 1000
)

// Sharding describes how new clusters share the branches of a repository. The Seat of a
// cluster stays with its registration.
type Sharding struct {
	Mode  string // RefBranch, RefShard or RefCluster
	Size  int    // clusters that a shard takes
	First int    // shards that there are from the start; more come when these are full
	Views string // what the names of the branches of RefCluster begin with
}

// Seat is the place of a cluster in its repository, from its registration. The zero Seat
// is upstream's place on the one branch.
type Seat struct {
	Mode   string // RefShard or RefCluster; empty: the branch itself
	Shard  string // such as "s000"; empty if Mode is
	FanOut bool   // its directory is one level deeper, among those of the same hash
}

// ShardName returns the name of the n-th shard, from 0.
func ShardName(n int) string { return fmt.Sprintf("s%03d", n) }

// At returns the settings of the cluster that has a seat: Branch is the one that is
// written, View the one that the cluster reads, if that is another one.
// Of what is published nothing changes.
func (s Settings) At(cluster string, seat Seat) Settings {
	if s.Published() {
		return s
	}
	if seat.Shard != "" {
		s.Branch += "-" + seat.Shard
	}
	if seat.Mode == RefCluster {
		s.View = s.Sharding.Views + cluster
	}
	s.FanOut = seat.FanOut
	return s
}

// ReadBranch returns the branch that a reconciler on the edge reads.
func (s Settings) ReadBranch() string {
	if s.View != "" {
		return s.View
	}
	return s.Branch
}

// CheckView refuses a cluster that can have no branch of its own: its name is none that Git
// takes in that of a branch, or what writes the repository keeps no such branches. It returns Invalid.
func (s Settings) CheckView() error {
	err := checkBranch(s.View)
	if err == nil {
		err = checkViews(s.Sharding.as(RefCluster), s)
	}
	if err != nil {
		return errs.E(errs.Invalid, "register", "a cluster that reads branch "+s.View, err)
	}
	return nil
}

// as returns the same sharding with another mode.
func (v Sharding) as(mode string) Sharding {
	v.Mode = mode
	return v
}

// readSharding reads how clusters share the repository.
func readSharding(p pairs, s Settings) (Sharding, error) {
	out := Sharding{Mode: p.kv[keyRefMode], Views: p.kv[keyViewPrefix]}
	switch out.Mode {
	case "":
		out.Mode = RefBranch
	case RefBranch, RefShard, RefCluster:
	default:
		return out, fmt.Errorf("%s: %q is none of %s, %s, %s", keyRefMode, out.Mode, RefBranch, RefShard, RefCluster)
	}
	var err error
	if out.Size, err = count(p, keyShardSize, DefaultShardSize, maxShardSize); err != nil {
		return out, err
	}
	if out.First, err = count(p, keyShards, 1, maxShards); err != nil {
		return out, err
	}
	if out.Views == "" {
		out.Views = DefaultViewPrefix
	}
	return out, checkViews(out, s)
}

// count reads a whole number from 1 to most.
func count(p pairs, key string, otherwise, most int) (int, error) {
	text := p.kv[key]
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, fmt.Errorf("%s: give a number from 1 to %d", key, most)
	}
	return n, nil
}

// checkViews refuses branches of clusters whose names Git cannot hold next to the others, or
// that mean something else.
func checkViews(v Sharding, s Settings) error {
	if err := checkBranch(v.Views + "a+b"); err != nil {
		return fmt.Errorf("%s: %w", keyViewPrefix, err)
	}
	if v.Mode != RefCluster {
		return nil
	}
	rest, below := strings.CutPrefix(v.Views, s.Branch)
	if below && (strings.HasPrefix(rest, "/") || strings.HasPrefix(rest, "-s") && strings.Contains(rest, "/")) {
		return fmt.Errorf("%s: Git cannot hold branches below %s next to %s", keyViewPrefix, v.Views, s.Branch)
	}
	return nil
}

// checkApart refuses branches of clusters among those that agents report to.
func checkApart(s Settings) error {
	if s.Sharding.Mode != RefCluster || s.Status.Mode != StatusRef || s.Status.Repo.URL != s.Repo.URL {
		return nil
	}
	if strings.HasPrefix(s.Sharding.Views, s.Status.Branch) || strings.HasPrefix(s.Status.Branch, s.Sharding.Views) {
		return errors.New(keyViewPrefix + " and " + keyStatusBranch + " lead to the same branches")
	}
	return nil
}

// ViewOf returns the view of a cluster's directory.
func (s Settings) ViewOf(dir string) []git.DerivedBranch {
	if s.View == "" {
		return nil
	}
	return []git.DerivedBranch{{Branch: s.View, Dir: dir, Empty: map[string][]byte{"kustomization.yaml": []byte(nothing)}}}
}

// nothing is a kustomization that builds to nothing. It is what a cluster reads that is to
// hold nothing: a reconciler takes a directory that is missing for a fault, and removes nothing.
const nothing = `# Nothing is deployed on this cluster.
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
generatorOptions:
  disableNameSuffixHash: true
`
