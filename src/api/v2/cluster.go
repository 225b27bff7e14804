package v2

import (
	"regexp"
	"slices"
	"strings"
)

// ClusterProvider groups clusters.
type ClusterProvider struct {
	Named
}

// Cluster is a cluster to deploy to: a Kubernetes API server whose kubeconfig is uploaded
// with the document, or a cluster that pulls from Git.
type Cluster struct {
	Named
	Spec ClusterSpec `json:"spec"` // how the cluster gets its state; without it EMCO reaches the API server
}

// ClusterSpec always shows gitOps in answers, as upstream EMCO does.
type ClusterSpec struct {
	GitOps GitOps `json:"gitOps"` // how the cluster gets its state through Git; empty for a direct cluster
}

// GitOps defines how a cluster gets its state through Git. It is empty for a direct
// cluster.
type GitOps struct {
	Type      string `json:"gitOpsType"`            // what reads its state: fluxcd, argocd, anthos, azureArcV2, git, exec, oci or s3; empty for a direct cluster
	Reference string `json:"gitOpsReferenceObject"` // a cluster-sync-object of the same provider
	Resource  string `json:"gitOpsResourceObject"`  // another cluster-sync-object, or the same

	// The location of the cluster in its repository. The control plane chooses it at
	// registration, unless the client does.
	RefMode string `json:"gitOpsRefMode,omitempty"` // "shard" or "cluster"; empty: the branch itself
	Shard   string `json:"gitOpsShard,omitempty"`   // such as "s000": part of the name of the branch
	FanOut  bool   `json:"gitOpsFanOut,omitempty"`  // its directory is one level deeper than upstream's

	Moved GitOpsMove `json:"gitOpsMoved,omitzero"` // the last move of the cluster with its deployments; set by the server
}

// GitOpsMove is a move of a cluster, with its deployments, to another location in Git.
type GitOpsMove struct {
	Number int64          `json:"number"` // counts the moves of the cluster
	From   GitOpsLocation `json:"from"`   // where it was before
}

// GitOpsLocation is a location of a cluster in Git, with the type that reads it there.
type GitOpsLocation struct {
	Type    string `json:"gitOpsType"`              // as in gitOps
	RefMode string `json:"gitOpsRefMode,omitempty"` // as in gitOps
	Shard   string `json:"gitOpsShard,omitempty"`   // as in gitOps
	FanOut  bool   `json:"gitOpsFanOut,omitempty"`  // as in gitOps
}

// Location returns the present location.
func (g GitOps) Location() GitOpsLocation {
	return GitOpsLocation{Type: g.Type, RefMode: g.RefMode, Shard: g.Shard, FanOut: g.FanOut}
}

// MovedTo returns g with another location.
func (g GitOps) MovedTo(p GitOpsLocation) GitOps {
	g.Type, g.RefMode, g.Shard, g.FanOut = p.Type, p.RefMode, p.Shard, p.FanOut
	return g
}

// ClusterMoveRequest is the body of POST …/clusters/{cluster}/move: the cluster's next
// location in its repository, and its next type. Absent members are chosen as for a new
// cluster; with the type alone, the location stays. Finish alone finishes the running move.
type ClusterMoveRequest struct {
	Type    string `json:"gitOpsType,omitempty"`
	RefMode string `json:"gitOpsRefMode,omitempty"`
	Shard   string `json:"gitOpsShard,omitempty"`
	Abort   bool   `json:"abort,omitempty"`  // alone: take the cluster back to its old location, unless that is being cleared
	Finish  bool   `json:"finish,omitempty"` // remove the cluster from its old location, although its reconciler may still read it
}

// ClusterMove is the progress of the last move of a cluster, as GET
// …/clusters/{cluster}/move returns it.
type ClusterMove struct {
	Number     int64          `json:"number"`
	From       GitOpsLocation `json:"from"`
	To         GitOpsLocation `json:"to"`
	Done       bool           `json:"done"`
	Written    string         `json:"written,omitempty"` // commit that wrote it to the new location
	Cleared    string         `json:"cleared,omitempty"` // commit that removed it from the old location
	Error      string         `json:"error,omitempty"`   // why the last attempt failed; the control plane retries
	Conditions []Condition    `json:"conditions"`        // Written, TakenOver, Cleared
}

// shardName matches names of shards.
var shardName = regexp.MustCompile(`^s[0-9]{3,6}$`)

// The canonical values of gitOpsType.
const (
	FluxCD  = "fluxcd"
	Azure   = "azureArcV2"
	Anthos  = "anthos"
	ArgoCD  = "argocd"
	PureGit = "git"
	Exec    = "exec" // planned by an executable that the operator installs
	OCI     = "oci"  // as an artifact of a registry
	S3      = "s3"   // as objects of a bucket
)

// gitOpsTypes is the one list of gitOpsTypes: errors, completion and the backends of the
// control plane follow it. Upstream's documents and code have different names for one type.
var gitOpsTypes = [...]struct {
	canonical string
	aliases   []string
	branch    bool // clusters of the type read a branch, and may move to another such type
}{
	{FluxCD, []string{"fluxv2", "flux"}, true},
	{Azure, []string{"azureArc"}, true},
	{Anthos, []string{"googleAnthos", "configsync"}, true},
	{ArgoCD, []string{"argo"}, true},
	{PureGit, []string{"plain"}, true},
	{Exec, nil, true},
	{OCI, nil, false},
	{S3, []string{"bucket"}, false},
}

// GitOpsTypes returns the canonical values of gitOpsType.
func GitOpsTypes() []string {
	out := make([]string, len(gitOpsTypes))
	for i, t := range gitOpsTypes {
		out[i] = t.canonical
	}
	return out
}

// BranchTypes returns those types whose clusters read a branch.
func BranchTypes() (out []string) {
	for _, t := range gitOpsTypes {
		if t.branch {
			out = append(out, t.canonical)
		}
	}
	return out
}

// gitOpsNames lists the accepted values for users.
func gitOpsNames() string {
	out := GitOpsTypes()
	for i, t := range gitOpsTypes {
		if len(t.aliases) > 0 {
			out[i] += " (" + strings.Join(t.aliases, ", ") + ")"
		}
	}
	return strings.Join(out, ", ")
}

// GitOpsType returns the canonical form of a gitOpsType, whatever its case.
func GitOpsType(s string) (canonical string, ok bool) {
	is := func(name string) bool { return strings.EqualFold(name, s) }
	for _, t := range gitOpsTypes {
		if is(t.canonical) || slices.ContainsFunc(t.aliases, is) {
			return t.canonical, true
		}
	}
	return "", false
}

// Direct reports whether the cluster is reached by its API server, not by Git.
func (c *Cluster) Direct() bool { return c.Spec.GitOps.Type == "" }

func (c *Cluster) normalize() {
	if t, ok := GitOpsType(c.Spec.GitOps.Type); ok {
		c.Spec.GitOps.Type = t
	}
}

// Validate checks metadata and the GitOps type. A cluster without a type must name
// no sync objects; one with a type must name at least one, which holds the Git
// coordinates.
func (c *Cluster) Validate() error {
	ck := begin(&c.Named)
	g := c.Spec.GitOps
	ck.optionalName("spec.gitOps.gitOpsReferenceObject", g.Reference)
	ck.optionalName("spec.gitOps.gitOpsResourceObject", g.Resource)
	named := g.Reference != "" || g.Resource != ""
	if _, ok := GitOpsType(g.Type); g.Type != "" && !ok {
		ck.fail("spec.gitOps.gitOpsType", "%s is not known; accepted are %s", quote(g.Type), gitOpsNames())
	}
	if g.Type == "" && named {
		ck.fail("spec.gitOps.gitOpsType", "missing although a sync object is named; accepted are %s", gitOpsNames())
	}
	if g.Type != "" && !named {
		ck.fail("spec.gitOps.gitOpsReferenceObject", "missing; name the cluster-sync-object that holds the Git coordinates")
	}
	if g.RefMode != "" && g.RefMode != "shard" && g.RefMode != "cluster" {
		ck.fail("spec.gitOps.gitOpsRefMode", "%s is neither shard nor cluster", quote(g.RefMode))
	}
	if g.Shard != "" && !shardName.MatchString(g.Shard) {
		ck.fail("spec.gitOps.gitOpsShard", "%s is not a shard; give a name such as s000", quote(g.Shard))
	}
	if g.Type == "" && (g.RefMode != "" || g.Shard != "" || g.FanOut) {
		ck.fail("spec.gitOps.gitOpsType", "missing although a location in Git is given; accepted are %s", gitOpsNames())
	}
	return ck.err()
}

// ClusterLabel labels a cluster, so that placement intents can select all clusters with
// that label. It has no metadata.
type ClusterLabel struct {
	Label string `json:"clusterLabel" alias:"label-name,cluster-label-name"` // placement intents select clusters by it; it is the name of the document
}

// DocName returns the label.
func (l *ClusterLabel) DocName() string { return l.Label }

// SetDocName sets the label if it is empty.
func (l *ClusterLabel) SetDocName(name string) {
	if l.Label == "" {
		l.Label = name
	}
}

// Validate requires a name.
func (l *ClusterLabel) Validate() error { return CheckName("clusterLabel", l.Label) }
