package syncobjects

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
	keyRefMode       = "refMode"
	keyShardSize     = "shardSize"
	keyShards        = "shards"
	keyDerivedPrefix = "viewPrefix"
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

// DefaultDerivedPrefix begins the names of derived branches by default.
const DefaultDerivedPrefix = "clusters/"

// Bounds of the settings of a sync object.
const (
	maxShardSize = 100_000
	maxShards    = 1000
)

// Sharding describes how new clusters share the branches of a repository. The Slot of a
// cluster stays with its registration.
type Sharding struct {
	Mode          string // RefBranch, RefShard or RefCluster
	Size          int    // clusters that a shard takes
	First         int    // number of shards at the start; EMCO adds more when these are full
	DerivedPrefix string // begins the names of derived branches (RefCluster)
}

// Slot is the place of a cluster in its repository, from its registration. The zero Slot
// is upstream's place on the one branch.
type Slot struct {
	Mode   string // RefShard or RefCluster; empty: the branch itself
	Shard  string // such as "s000"; empty if Mode is
	FanOut bool   // its directory is one level deeper, among those of the same hash
}

// ShardName returns the name of the n-th shard, from 0.
func ShardName(n int) string { return fmt.Sprintf("s%03d", n) }

// At returns the settings of a cluster with this slot. Branch is the branch that the delivery
// writes; DerivedBranch is the branch that the cluster reads, if it is another one. Clusters of
// a registry or bucket keep their settings.
func (s Settings) At(cluster string, slot Slot) Settings {
	if s.Published() {
		return s
	}
	if slot.Shard != "" {
		s.Branch += "-" + slot.Shard
	}
	if slot.Mode == RefCluster {
		s.DerivedBranch = s.Sharding.DerivedPrefix + cluster
	}
	s.FanOut = slot.FanOut
	return s
}

// ReadBranch returns the branch that a reconciler on the edge reads.
func (s Settings) ReadBranch() string {
	if s.DerivedBranch != "" {
		return s.DerivedBranch
	}
	return s.Branch
}

// CheckDerivedBranch returns Invalid if the cluster cannot have a branch of its own: if its name
// is not valid in a branch name, or if the host cannot write derived branches.
func (s Settings) CheckDerivedBranch() error {
	err := checkBranch(s.DerivedBranch)
	if err == nil {
		err = checkDerivedPrefix(s.Sharding.as(RefCluster), s)
	}
	if err != nil {
		return errs.E(errs.Invalid, "register", "a cluster that reads branch "+s.DerivedBranch, err)
	}
	return nil
}

// as returns the same sharding with another mode.
func (v Sharding) as(mode string) Sharding {
	v.Mode = mode
	return v
}

// readSharding reads how clusters share the repository.
func readSharding(p keyValues, s Settings) (Sharding, error) {
	out := Sharding{Mode: p.kv[keyRefMode], DerivedPrefix: p.kv[keyDerivedPrefix]}
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
	if out.DerivedPrefix == "" {
		out.DerivedPrefix = DefaultDerivedPrefix
	}
	return out, checkDerivedPrefix(out, s)
}

// count reads a whole number from 1 to most.
func count(p keyValues, key string, otherwise, most int) (int, error) {
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

// checkDerivedPrefix refuses branches of clusters whose names Git cannot hold next to the others, or
// that mean something else.
func checkDerivedPrefix(v Sharding, s Settings) error {
	if err := checkBranch(v.DerivedPrefix + "a+b"); err != nil {
		return fmt.Errorf("%s: %w", keyDerivedPrefix, err)
	}
	if v.Mode != RefCluster {
		return nil
	}
	rest, below := strings.CutPrefix(v.DerivedPrefix, s.Branch)
	if below && (strings.HasPrefix(rest, "/") || strings.HasPrefix(rest, "-s") && strings.Contains(rest, "/")) {
		return fmt.Errorf("%s: Git cannot hold branches below %s next to %s", keyDerivedPrefix, v.DerivedPrefix, s.Branch)
	}
	return nil
}

// checkApart refuses branches of clusters among those that agents report to.
func checkApart(s Settings) error {
	if s.Sharding.Mode != RefCluster || s.Status.Mode != StatusRef || s.Status.Repo.URL != s.Repo.URL {
		return nil
	}
	if strings.HasPrefix(s.Sharding.DerivedPrefix, s.Status.Branch) || strings.HasPrefix(s.Status.Branch, s.Sharding.DerivedPrefix) {
		return errors.New(keyDerivedPrefix + " and " + keyStatusBranch + " lead to the same branches")
	}
	return nil
}

// DerivedBranches returns the branch that shows a cluster's directory, if it has one.
func (s Settings) DerivedBranches(dir string) []git.DerivedBranch {
	if s.DerivedBranch == "" {
		return nil
	}
	return []git.DerivedBranch{{Branch: s.DerivedBranch, Dir: dir, Empty: map[string][]byte{"kustomization.yaml": []byte(nothing)}}}
}

// nothing is a kustomization that builds to nothing. It is what a cluster reads that is to
// hold nothing: a reconciler takes a directory that is missing for a fault, and removes nothing.
const nothing = `# Nothing is deployed on this cluster.
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
generatorOptions:
  disableNameSuffixHash: true
`
