package v2

import (
	"fmt"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// DeploymentID identifies what a deployment intent group or a logical cloud has put on
// clusters: in Git paths, in the labels of objects, and in the keys of pairs and reports.
// A migration passes it from one head to another.
type DeploymentID string

// ClusterKey identifies a cluster: two providers may each have a cluster of the same
// name. It is the text "<provider>+<cluster>", which Git paths, etcd keys, reports and REST
// bodies contain; names never contain a "+". The zero key is "".
//
// It is a string so that keys are stored, compared and sorted as their texts, and a fleet's
// keys are read without a copy.
type ClusterKey string

// NewClusterKey returns the key of a cluster of a provider. It does not check the names.
func NewClusterKey(provider, cluster string) ClusterKey {
	return ClusterKey(provider + "+" + cluster)
}

// ParseClusterKey reads the text of a key; Invalid if it is none.
func ParseClusterKey(s string) (ClusterKey, error) {
	if k := ClusterKey(s); k.Valid() {
		return k, nil
	}
	return "", errs.New(errs.Invalid, fmt.Sprintf("%s is not the key of a cluster; write <provider>+<cluster>", quote(s)))
}

// Provider returns the name of the cluster's provider.
func (k ClusterKey) Provider() string {
	provider, _, _ := strings.Cut(string(k), "+")
	return provider
}

// Cluster returns the name of the cluster, which is unique in its provider.
func (k ClusterKey) Cluster() string {
	_, cluster, _ := strings.Cut(string(k), "+")
	return cluster
}

// Valid reports whether both names of k are valid.
func (k ClusterKey) Valid() bool { return ValidName(k.Provider()) && ValidName(k.Cluster()) }

// String returns the text of the key.
func (k ClusterKey) String() string { return string(k) }

// UnmarshalText reads the text of a key, which may be empty; Invalid if it is none.
func (k *ClusterKey) UnmarshalText(text []byte) (err error) {
	if len(text) == 0 {
		*k = ""
		return nil
	}
	*k, err = ParseClusterKey(string(text))
	return err
}

// StoreKey returns the key of the cluster's document, which is also its path below /v2.
func (k ClusterKey) StoreKey() string {
	return ProviderStoreKey(k.Provider()) + "/clusters/" + k.Cluster()
}

// ProviderStoreKey returns the key of the document of a cluster provider, which is also its
// path below /v2.
func ProviderStoreKey(provider string) string { return "cluster-providers/" + provider }

// ClusterOf returns the cluster whose document has a key of the document store, and
// whether it is such a key.
func ClusterOf(storeKey string) (ClusterKey, bool) {
	part := strings.Split(storeKey, "/")
	if len(part) != 4 || part[0] != "cluster-providers" || part[2] != "clusters" {
		return "", false
	}
	return NewClusterKey(part[1], part[3]), true
}
