// Package folder has the helpers that sinks oci and s3 share: the root of a cluster's edits, the
// file that keeps a published folder from being empty, and the errors of throttling servers.
package folder

import (
	"errors"
	"fmt"
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
			return "", fmt.Errorf("%s is not in the directory of a cluster", e.Path)
		}
		if of := "clusters/" + parts[1]; root == "" || root == of {
			root = of
		} else {
			return "", fmt.Errorf("%s and %s belong to different clusters", root, of)
		}
	}
	if root == "" {
		return "", errors.New("there are no edits")
	}
	return root, nil
}

// Keep returns a file that every published folder holds: for Flux an empty directory is an
// error, and it would not remove the last app.
func Keep(root string) (path string, content []byte) {
	text := "# Written by EMCO, so that this directory is there when no app is.\n" +
		"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: emco\n  namespace: flux-system\ndata:\n  directory: " + root + "\n"
	return root + "/emco.yaml", []byte(text)
}
