package status

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// DefaultPrefix is where the branches are to which clusters report: a cluster's branch
// is the prefix and its name.
const DefaultPrefix = "status/"

// File is the name of the one file of such a branch.
const File = "report.json"

// maxBranch is the length of a branch's last element that every server takes.
const maxBranch = 200

// Branch returns the name of the branch that a cluster reports to. Names of clusters
// may hold what Git refuses in a branch (two dots, ".lock" at the end) or be too long;
// such are rewritten, and no two clusters share a branch.
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
