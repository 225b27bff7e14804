// Package folder says what the folders of clusters have in common wherever they are
// published whole: in a registry or in a bucket.
package folder

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/emco-orchestrator/emco/src/git"
)

// Root returns the directory of the one cluster that all edits are in, such as
// "clusters/<provider>+<cluster>".
func Root(edits []git.Edit) (string, error) {
	root := ""
	for _, e := range edits {
		parts := strings.SplitN(e.Path, "/", 3)
		if len(parts) < 3 || parts[0] != "clusters" {
			return "", fmt.Errorf("%s is in no cluster's directory", e.Path)
		}
		if of := "clusters/" + parts[1]; root == "" || root == of {
			root = of
		} else {
			return "", fmt.Errorf("%s and %s are different clusters", root, of)
		}
	}
	if root == "" {
		return "", errors.New("there are no edits")
	}
	return root, nil
}

// Keep is a file that every published folder holds, by its path: Flux takes a directory
// without files for a fault, and would not remove what was there before.
func Keep(root string) (path string, content []byte) {
	text := "# Written by EMCO, so that this directory is there when no app is.\n" +
		"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: emco\n  namespace: flux-system\ndata:\n  directory: " + root + "\n"
	return root + "/emco.yaml", []byte(text)
}

// Loopback reports whether a host is this machine, so that nobody listens in between.
func Loopback(host string) bool {
	at, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && at.IsLoopback()
}
