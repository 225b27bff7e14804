package pairstore

import (
	"fmt"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
)

// The key spaces. A watch of all keys from recordSpace to reportTableSpace sees rosters before the
// tables that name their numbers.
const (
	recordSpace      = "pair"
	rosterSpace      = "pairroster"
	tableSpace       = "pairtable"
	reportSpace      = "report"
	reportTableSpace = "reporttable"
)

// RecordKey returns the key of a pair's own record.
func RecordKey(kv *etcdkv.Client, k Key) string {
	return kv.Key(recordSpace, string(k.Cluster), string(k.Deployment), k.App)
}

// ParseKey reads the key of a record by cluster, deployment and app.
func ParseKey(kv *etcdkv.Client, key []byte) (Key, error) {
	p := kv.Split(key)
	if len(p) != 4 {
		return Key{}, etcdkv.Corrupt(string(key), fmt.Errorf("the key has %d parts, not 4", len(p)))
	}
	return Key{Cluster: v2.ClusterKey(p[1]), Deployment: v2.DeploymentID(p[2]), App: p[3]}, nil
}
