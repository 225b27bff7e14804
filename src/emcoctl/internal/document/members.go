package document

import (
	"fmt"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/emco-orchestrator/emco/src/api/nearest"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/anchor"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/kind"
)

// memberCheck finds the keys of a document that its kind does not have. The server drops them.
type memberCheck struct {
	file  string
	owner string // what the documents are called
	found []string
}

// unknownMembers describes the unknown keys of a document, with their lines. It describes only
// those at the top if the kind is unknown.
func unknownMembers(at Position, path string, node *yaml.Node) []string {
	top := node.Content[0]
	if top.Kind != yaml.MappingNode {
		return nil
	}
	check := memberCheck{file: at.File, owner: anchor.Collection(path)}
	if anchor.IsAction(path) {
		check.owner = "documents of " + anchor.Last(path)
	}
	members := kind.MembersAt(path)
	for i := 0; i+1 < len(top.Content); i += 2 {
		key, value := top.Content[i], top.Content[i+1]
		switch {
		case key.Value != merge && !slices.Contains(topKeys, key.Value):
			check.fail(key, key.Value, "", topKeys)
		case key.Value == "metadata" || key.Value == "spec":
			check.member(key, value, members)
		}
	}
	return check.found
}

// topKeys are the keys of all documents.
var topKeys = []string{"version", "resourceContext", "metadata", "spec", "file", "files", "clusterLabel"}

// merge is the YAML key that merges another map.
const merge = "<<"

// member checks metadata or spec.
func (c *memberCheck) member(key, value *yaml.Node, members []v2.Member) {
	for _, m := range members {
		if m.Name == key.Value {
			c.value(key.Value, value, m)
			return
		}
	}
	if len(members) > 0 && len(value.Content) > 0 && key.Value == "spec" {
		c.fail(key, key.Value, c.owner, nil)
	}
}

// value checks the keys of an object, or of the objects of a list.
func (c *memberCheck) value(path string, n *yaml.Node, m v2.Member) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch {
	case !m.Closed():
	case n.Kind == yaml.SequenceNode:
		for i, item := range n.Content {
			c.value(path+"["+strconv.Itoa(i)+"]", item, m)
		}
	case n.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			c.key(path, n.Content[i], n.Content[i+1], m)
		}
	}
}

// key checks one key of an object.
func (c *memberCheck) key(path string, key, value *yaml.Node, m v2.Member) {
	if key.Value == merge {
		c.value(path, value, m)
		return
	}
	for _, member := range m.Members {
		if member.Is(key.Value) {
			c.value(path+"."+member.Name, value, member)
			return
		}
	}
	c.fail(key, path+"."+key.Value, c.owner, names(m.Members))
}

// maxUnknown bounds the unknown keys of a document that are described.
const maxUnknown = 50

// fail describes an unknown key, with the name that it resembles.
func (c *memberCheck) fail(key *yaml.Node, path, owner string, known []string) {
	if len(c.found) == maxUnknown {
		return
	}
	text := fmt.Sprintf("%s: key %q is ignored", Position{c.file, key.Line}, path)
	if owner != "" {
		text += ": " + owner + " have no such member"
	}
	if name, ok := nearest.To(key.Value, known); ok {
		text += fmt.Sprintf("; did you mean %q?", name)
	}
	c.found = append(c.found, text)
}

func names(members []v2.Member) []string {
	all := make([]string, len(members))
	for i, m := range members {
		all[i] = m.Name
	}
	return all
}
