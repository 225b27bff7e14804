// Package jsontree holds any JSON value as a tree that can be compared, pruned of empty members, printed, and searched
// by the path of a member.
package jsontree

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Node is one JSON value. At most one of its fields is set; the zero Node is null or absent.
// reflect.DeepEqual compares Nodes.
type Node struct {
	Object map[string]Node
	List   []Node
	Text   *string // a string
	Plain  string  // a number, true or false, as written
}

// maxDepth bounds how deeply values may nest.
const maxDepth = 200

// Parse reads one JSON value.
func Parse(text []byte) (Node, error) { return parse(text, 0) }

// parse reads a value level by level, so that the depth is known.
func parse(text json.RawMessage, depth int) (n Node, err error) {
	text = bytes.TrimSpace(text)
	if depth > maxDepth {
		return n, fmt.Errorf("nests deeper than %d levels", maxDepth)
	}
	switch {
	case bytes.HasPrefix(text, []byte("{")):
		var members map[string]json.RawMessage
		if err := json.Unmarshal(text, &members); err != nil {
			return n, err
		}
		n.Object = make(map[string]Node, len(members))
		for key, member := range members {
			if n.Object[key], err = parse(member, depth+1); err != nil {
				return Node{}, err
			}
		}
	case bytes.HasPrefix(text, []byte("[")):
		var items []json.RawMessage
		if err := json.Unmarshal(text, &items); err != nil {
			return n, err
		}
		n.List = make([]Node, len(items))
		for i, item := range items {
			if n.List[i], err = parse(item, depth+1); err != nil {
				return Node{}, err
			}
		}
	case bytes.HasPrefix(text, []byte(`"`)):
		err = json.Unmarshal(text, &n.Text)
	default:
		return scalar(text)
	}
	return n, err
}

// scalar reads null, true, false or a number.
func scalar(text json.RawMessage) (Node, error) {
	var check json.RawMessage
	if err := json.Unmarshal(text, &check); err != nil {
		return Node{}, err
	}
	if string(text) == "null" {
		return Node{}, nil
	}
	return Node{Plain: string(text)}, nil
}

// Empty reports whether the node is null, "", [] or {}.
func (n Node) Empty() bool {
	return len(n.Object) == 0 && len(n.List) == 0 && n.Plain == "" && (n.Text == nil || *n.Text == "")
}

// Prune returns the node without empty members, at all levels; list items stay.
func (n Node) Prune() Node {
	switch {
	case n.Object != nil:
		out := Node{Object: map[string]Node{}}
		for key, member := range n.Object {
			if member = member.Prune(); !member.Empty() {
				out.Object[key] = member
			}
		}
		n = out
	case n.List != nil:
		out := Node{List: make([]Node, len(n.List))}
		for i, item := range n.List {
			out.List[i] = item.Prune()
		}
		n = out
	}
	if n.Empty() {
		return Node{}
	}
	return n
}

// JSON writes the node, with members sorted by name.
func (n Node) JSON() ([]byte, error) {
	var out bytes.Buffer
	err := n.write(&out)
	return out.Bytes(), err
}

func (n Node) write(out *bytes.Buffer) error {
	switch {
	case n.Object != nil:
		return n.writeObject(out)
	case n.List != nil:
		out.WriteByte('[')
		for i, item := range n.List {
			out.WriteString(map[bool]string{true: ","}[i > 0])
			if err := item.write(out); err != nil {
				return err
			}
		}
		out.WriteByte(']')
		return nil
	case n.Plain != "":
		out.WriteString(n.Plain)
		return nil
	}
	text, err := json.Marshal(n.Text)
	out.Write(text)
	return err
}

func (n Node) writeObject(out *bytes.Buffer) error {
	out.WriteByte('{')
	for i, key := range slices.Sorted(maps.Keys(n.Object)) {
		name, err := json.Marshal(key)
		if err != nil {
			return err
		}
		out.WriteString(map[bool]string{true: ","}[i > 0])
		out.Write(append(name, ':'))
		if err := n.Object[key].write(out); err != nil {
			return err
		}
	}
	out.WriteByte('}')
	return nil
}

// At returns the node at a path of member names, separated by dots; the zero Node if it
// does not exist.
func (n Node) At(path string) Node {
	for member := range strings.SplitSeq(path, ".") {
		n = n.Object[member]
	}
	return n
}

// String returns a scalar's text; of lists and objects it returns the sorted names of
// their members, which is what a table shows of them.
func (n Node) String() string {
	switch {
	case n.Text != nil:
		return *n.Text
	case n.Plain != "":
		return n.Plain
	}
	var names []string
	for _, item := range append([]Node{n}, n.List...) {
		names = slices.AppendSeq(names, maps.Keys(item.Object))
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}
