package status

import (
	"encoding/json"

	"github.com/emco-orchestrator/emco/src/api/jsonread"
)

// parse reads a document; its strings may share the memory of text. The form that Encode
// writes takes a fraction of encoding/json's time for other forms, with the
// same result.
func parse(text []byte) (r Report, err error) {
	t := reader{jsonread.New(string(text))}
	if r = t.report(); t.Done() {
		return r, nil
	}
	r = Report{}
	err = json.Unmarshal(text, &r)
	return r, err
}

// reader reads a report as Encode writes it.
type reader struct{ *jsonread.Text }

func (t reader) report() (r Report) {
	t.Object([]jsonread.Member{
		{Name: "schema", Text: &r.Schema},
		{Name: "cluster", Text: &r.Cluster},
		{Name: "seq", Uint: &r.Seq},
		{Name: "at", Time: &r.At},
		{Name: "agent", Text: &r.Agent},
		{Name: "apps", Read: func() { r.Apps = jsonread.List(t.Text, t.app) }},
		{Name: "truncated", Int: &r.Truncated},
		{Name: "unseen", Read: func() { r.Unseen = jsonread.List(t.Text, t.unseen) }},
		{Name: "capacity", Read: func() { r.Capacity = t.capacity() }},
		{Name: "same", Text: &r.Same},
	})
	return r
}

func (t reader) capacity() (c Capacity) {
	t.Object([]jsonread.Member{
		{Name: "nodes", Int: &c.Nodes},
		{Name: "classes", Read: func() { c.Classes = jsonread.List(t.Text, t.nodeClass) }},
		{Name: "cut", Int: &c.Cut},
		{Name: "problem", Text: &c.Problem},
	})
	return c
}

func (t reader) nodeClass() (c NodeClass) {
	t.Object([]jsonread.Member{
		{Name: "count", Int: &c.Count},
		{Name: "only", Text: &c.Only},
		{Name: "resources", Read: func() { c.Resources = jsonread.List(t.Text, t.nodeResource) }},
	})
	return c
}

func (t reader) nodeResource() (r NodeResource) {
	t.Object([]jsonread.Member{
		{Name: "name", Text: &r.Name},
		{Name: "allocatable", Uint: &r.Allocatable},
		{Name: "free", Uint: &r.Free},
	})
	return r
}

func (t reader) app() (a App) {
	t.Object([]jsonread.Member{
		{Name: "label", Text: &a.Label},
		{Name: "commit", Text: &a.Commit},
		{Name: "error", Text: &a.Error},
		{Name: "objects", Read: func() { a.Objects = jsonread.List(t.Text, t.object) }},
		{Name: "truncated", Int: &a.Truncated},
	})
	return a
}

func (t reader) object() (o Object) {
	t.Object([]jsonread.Member{
		{Name: "group", Text: &o.Group},
		{Name: "version", Text: &o.Version},
		{Name: "kind", Text: &o.Kind},
		{Name: "namespace", Text: &o.Namespace},
		{Name: "name", Text: &o.Name},
		{Name: "status", Text: &o.Status},
		{Name: "reason", Text: &o.Reason},
		{Name: "content", Text: &o.Content},
		{Name: "unread", Bool: &o.Unread},
	})
	return o
}

func (t reader) unseen() (u Unseen) {
	t.Object([]jsonread.Member{
		{Name: "group", Text: &u.Group},
		{Name: "kind", Text: &u.Kind},
		{Name: "reason", Text: &u.Reason},
	})
	return u
}
