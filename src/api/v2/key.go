package v2

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// DeploymentID identifies what a deployment intent group or a logical cloud has put on
// clusters: in Git paths, in the labels of objects, and in the keys of pairs and reports.
// A migration passes it from one head to another.
type DeploymentID string

// ClusterKey identifies a cluster: two providers may each have a cluster of the same
// name. Its text, "<provider>+<cluster>", is what Git paths, etcd keys, reports and REST
// bodies contain; names never contain a "+".
type ClusterKey struct {
	Provider, Cluster string
}

// ParseClusterKey reads the text of a key; Invalid if it is none.
func ParseClusterKey(s string) (ClusterKey, error) {
	provider, cluster, _ := strings.Cut(s, "+")
	if !ValidName(provider) || !ValidName(cluster) {
		return ClusterKey{}, errs.New(errs.Invalid, fmt.Sprintf("%s is not the key of a cluster; write <provider>+<cluster>", quote(s)))
	}
	return ClusterKey{provider, cluster}, nil
}

// String returns the text of the key, or "" if the key is zero.
func (k ClusterKey) String() string {
	if k.IsZero() {
		return ""
	}
	return k.Provider + "+" + k.Cluster
}

// IsZero reports whether k identifies no cluster.
func (k ClusterKey) IsZero() bool { return k == ClusterKey{} }

// Compare orders keys as their texts are ordered.
func (k ClusterKey) Compare(other ClusterKey) int {
	// "+" is less than all characters of names, so a provider comes before its extensions.
	return cmp.Or(strings.Compare(k.Provider, other.Provider), strings.Compare(k.Cluster, other.Cluster))
}

// MarshalText makes a key a JSON string, and the name of a member of a JSON object.
func (k ClusterKey) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (k *ClusterKey) UnmarshalText(text []byte) (err error) {
	if len(text) == 0 {
		*k = ClusterKey{}
		return nil
	}
	*k, err = ParseClusterKey(string(text))
	return err
}

// StoreKey returns the key of the cluster's document, which is also its path below /v2.
func (k ClusterKey) StoreKey() string {
	return k.ProviderStoreKey() + "/clusters/" + k.Cluster
}

// ProviderStoreKey returns the key of the document of the cluster's provider.
func (k ClusterKey) ProviderStoreKey() string { return "cluster-providers/" + k.Provider }

// ClusterOf returns the cluster whose document has a key of the document store, and
// whether it is such a key.
func ClusterOf(storeKey string) (ClusterKey, bool) {
	part := strings.Split(storeKey, "/")
	if len(part) != 4 || part[0] != "cluster-providers" || part[2] != "clusters" {
		return ClusterKey{}, false
	}
	return ClusterKey{part[1], part[3]}, true
}
