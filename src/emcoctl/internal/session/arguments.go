package session

import (
	"errors"
	"slices"
	"strings"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/anchor"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/document"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/kind"
)

// ClusterKey returns the cluster of PROVIDER/CLUSTER, of its path, or of its key in the API.
func ClusterKey(word string) (v2.ClusterKey, error) {
	s := strings.Split(strings.Trim(word, "/"), "/")
	if len(s) == 2 && s[0] != "" && s[1] != "" {
		return v2.NewClusterKey(s[0], s[1]), nil
	}
	if key, ok := v2.ClusterOf(strings.Join(s, "/")); ok {
		return key, nil
	}
	if key, err := v2.ParseClusterKey(word); err == nil {
		return key, nil
	}
	return "", Usagef("%q is not a cluster; write PROVIDER/CLUSTER", word)
}

// ClusterPath returns the path of a cluster.
func ClusterPath(word string) (string, error) {
	key, err := ClusterKey(word)
	if err != nil {
		return "", err
	}
	return key.StoreKey(), nil
}

// Deployment returns the path of the deployment intent group, logical cloud or stage of a certificate
// authority of an argument.
func Deployment(word string) (string, error) {
	if meant, ok := kind.Suggest(word); ok && Followable(meant) {
		return "", Usagef("%s: there is no such collection; did you mean %q?", word, meant)
	}
	if key, ok := v2.ClusterOf(strings.Trim(word, "/")); ok {
		return "", Usagef("%s is a cluster and no deployment; see: emcoctl describe cluster %s/%s", word, key.Provider(), key.Cluster())
	}
	path := strings.TrimSuffix(anchor.Expand(word), "/status")
	if parent := anchor.Parent(path); anchor.IsAction(path) && Followable(parent) {
		path = parent
	}
	if !Followable(path) {
		next := "list deployments with: emcoctl get deployments"
		if parts := strings.Split(word, "/"); len(parts) == 2 && !slices.Contains(kind.Below(""), parts[0]) {
			next = "for a cluster: emcoctl describe cluster " + word
		}
		return "", Usagef("%q is no deployment; write PROJECT/COMPOSITEAPP/VERSION/GROUP, or projects/PROJECT/%s/NAME for a logical cloud\n  %s", word, kind.Clouds, next)
	}
	return path, nil
}

// Followable reports whether path is a deployment intent group, a logical cloud, or a stage of a certificate
// authority.
func Followable(path string) bool {
	switch anchor.Collection(path) {
	case kind.Groups, kind.Clouds:
		return !anchor.IsCollection(path)
	case kind.Enrollment, kind.Distribution:
		return anchor.IsCollection(path)
	}
	return false
}

// ErrNoSubject is the error of a command without anything to work on.
var ErrNoSubject = errors.New("give documents with -f, or an anchor")

// Subject returns the anchor, or "" if documents are given by -f.
func (s *Session) Subject(args []string) (string, error) {
	switch {
	case s.WaitTime < 0:
		return "", Usagef("-w: %d seconds is negative", s.WaitTime)
	case len(s.Files) > 0 && len(args) > 0:
		return "", Usagef("give -f or an anchor, not both")
	case len(s.Files) > 0:
		return "", nil
	case len(args) == 0 || args[0] == "":
		return "", Usage(ErrNoSubject)
	}
	return kind.Expand(args[0]), nil
}

// Deployments lists the paths of the deployments that a command is about: that of the anchor, or
// those of the documents of -f.
func (s *Session) Deployments(args []string) ([]string, error) {
	path, err := s.Subject(args)
	if err != nil {
		return nil, err
	}
	if path != "" {
		path, err := Deployment(path)
		return []string{path}, err
	}
	docs, err := s.Load()
	if err != nil {
		return nil, err
	}
	paths, err := followed(docs)
	if err == nil && len(paths) == 0 {
		err = Usagef("no document belongs to a deployment intent group or a logical cloud")
	}
	return paths, err
}

// followed lists the groups and clouds that documents describe or act on, each once.
func followed(docs []document.Document) ([]string, error) {
	var paths []string
	for _, doc := range docs {
		path := anchor.Parent(doc.Anchor)
		if !anchor.IsAction(doc.Anchor) {
			item, err := anchor.Item(doc.Anchor, doc.Names)
			if err != nil {
				return nil, err
			}
			path = item
		}
		if Followable(path) && !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	return paths, nil
}
