package manifest

import (
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// objectTree is a decoded mapping. Its values are objectTree, []any, string, bool, json.Number
// and nil, so that no number passes through a float.
type objectTree = map[string]any

// maxAliased bounds the nodes that aliases add to one document. Honest manifests add a
// handful; an attack of 300 bytes can add a hundred thousand.
const maxAliased = 10_000

// documentFault is an error in a document, with its line.
type documentFault struct {
	line   int
	reason string
}

func (f *documentFault) Error() string { return f.reason }

func faultAt(n *yaml.Node, format string, args ...any) error {
	return &documentFault{n.Line, fmt.Sprintf(format, args...)}
}

// locate returns err as a fault; without a line of its own it gets that of root.
func locate(err error, root *yaml.Node) *documentFault {
	if f, ok := errors.AsType[*documentFault](err); ok {
		return f
	}
	return &documentFault{contentLine(root), err.Error()}
}

// convert turns a document into plain values. It refuses duplicate keys, deep nesting,
// aliases that multiply, and what JSON cannot express.
func convert(root *yaml.Node) (any, error) {
	var c converter
	return c.value(root, 0)
}

type converter struct {
	aliasing int // number of aliases above the current node
	aliased  int // number of nodes that aliases added
}

func (c *converter) value(n *yaml.Node, depth int) (any, error) {
	if depth > MaxDepth {
		return nil, faultAt(n, "is nested deeper than %d levels", MaxDepth)
	}
	if c.aliasing > 0 {
		if c.aliased++; c.aliased > maxAliased {
			return nil, faultAt(n, "expands to more than %d nodes through aliases", maxAliased)
		}
	}
	switch n.Kind {
	case yaml.DocumentNode:
		if len(n.Content) == 0 {
			return nil, nil
		}
		return c.value(n.Content[0], depth)
	case yaml.AliasNode:
		c.aliasing++
		defer func() { c.aliasing-- }()
		return c.value(n.Alias, depth+1)
	case yaml.SequenceNode:
		return c.sequence(n, depth)
	case yaml.MappingNode:
		return c.mapping(n, depth)
	case yaml.ScalarNode:
		return scalar(n)
	}
	return nil, nil
}

func (c *converter) sequence(n *yaml.Node, depth int) (any, error) {
	if err := checkTag(n, "!!seq"); err != nil {
		return nil, err
	}
	out := make([]any, len(n.Content))
	for i, item := range n.Content {
		v, err := c.value(item, depth+1)
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, nil
}

func (c *converter) mapping(n *yaml.Node, depth int) (any, error) {
	if err := checkTag(n, "!!map"); err != nil {
		return nil, err
	}
	out := make(objectTree, len(n.Content)/2)
	var merges []*yaml.Node
	for i := 0; i < len(n.Content); i += 2 {
		k := n.Content[i]
		if isMerge(k) {
			merges = append(merges, n.Content[i+1])
			continue
		}
		name, err := c.key(k)
		if err != nil {
			return nil, err
		}
		if _, ok := out[name]; ok {
			return nil, faultAt(k, "key %q is given twice", name)
		}
		if out[name], err = c.value(n.Content[i+1], depth+1); err != nil {
			return nil, err
		}
	}
	for _, m := range merges {
		if err := c.merge(out, m, depth); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// merge adds the keys of the mappings that a "<<" names. It keeps existing keys, so the
// mapping's own keys win, then the first of several sources.
func (c *converter) merge(into objectTree, n *yaml.Node, depth int) error {
	v, err := c.value(n, depth+1)
	if err != nil {
		return err
	}
	sources, ok := v.([]any)
	if !ok {
		sources = []any{v}
	}
	for _, s := range sources {
		m, ok := s.(objectTree)
		if !ok {
			return faultAt(n, "a merge key needs a mapping or a list of mappings")
		}
		for k, v := range m {
			if _, ok := into[k]; !ok {
				into[k] = v
			}
		}
	}
	return nil
}

func isMerge(k *yaml.Node) bool {
	return k.Kind == yaml.ScalarNode && k.Value == "<<" && k.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) == 0 && k.Style&yaml.TaggedStyle == 0
}

// key returns a mapping's key as in JSON: numbers and booleans become text.
func (c *converter) key(n *yaml.Node) (string, error) {
	at := n
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.ScalarNode {
		return "", faultAt(at, "a key must be a plain value")
	}
	v, err := scalar(n)
	if err != nil {
		return "", err
	}
	switch v := v.(type) {
	case string:
		return v, nil
	case nil:
		return "", faultAt(at, "a key must not be empty")
	default:
		return fmt.Sprint(v), nil
	}
}

// checkTag refuses tags that have no meaning in JSON.
func checkTag(n *yaml.Node, want string) error {
	if n.Style&yaml.TaggedStyle != 0 && n.ShortTag() != want {
		return faultAt(n, "tag %s is not supported", n.ShortTag())
	}
	return nil
}
