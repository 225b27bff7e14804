package status

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// DefaultPrefix is the prefix of the branches that clusters report to: a cluster's branch
// is the prefix and the cluster's key.
const DefaultPrefix = "status/"

// File is the name of the one file of such a branch.
const File = "report.json"

// maxBranch is the length of a branch's last element that every server accepts.
const maxBranch = 200

// Branch returns the name of the branch that a cluster reports to. Keys that Git refuses
// as branches (with two dots, ".lock" at the end, too long) are rewritten; no two clusters
// share a branch.
func Branch(prefix, cluster string) string {
	name := strings.ReplaceAll(cluster, "..", "%2E%2E")
	if base, found := strings.CutSuffix(name, ".lock"); found {
		name = base + "%2Elock"
	}
	if len(name) > maxBranch {
		sum := sha256.Sum256([]byte(cluster))
		name = name[:maxBranch-17] + "%" + hex.EncodeToString(sum[:8])
	}
	return prefix + name
}
