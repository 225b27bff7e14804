package kind

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/nearest"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/anchor"
)

// comments are the comments of the types of documents, by type and by field: TestComments
// writes them.
//
//go:generate go test -run TestComments . -args -update
//go:embed comments.json
var comments []byte

// Comments returns the comments of the types of documents: of "Cluster", and of its field
// "Cluster.Spec".
func Comments() (map[string]string, error) {
	var all map[string]string
	err := json.Unmarshal(comments, &all)
	return all, err
}

// limits are what the server demands of members, by the type of a document and the path of a member: TestLimits reads them from the
// pages of the reference.
//
//go:generate go test -run TestLimits . -args -update
//go:embed limits.json
var limits []byte

// Limits returns what the server demands of the members of a document, by their paths, such as "spec.role": "required; a name", and
// defaults. Members without a path have none.
func (k Kind) Limits() (map[string]string, error) {
	var all map[string]map[string]string
	err := json.Unmarshal(limits, &all)
	return all[k.Type], err
}

// Lookup returns the kind and the member of a path such as clusters.spec.gitops, with the path of the member in its own spelling,
// spec.gitOps; the member is the zero Member for a kind alone. The error is NotFound, with the nearest name.
func Lookup(path string) (k Kind, found v2.Member, at string, err error) {
	words := strings.Split(path, ".")
	k, ok := Named(words[0])
	if !ok {
		return k, found, "", missing(words[0], "kind of documents", collections(), "list them with: emcoctl api-resources")
	}
	members := k.Members
	for i, word := range words[1:] {
		next, ok := memberOf(members, word)
		if !ok {
			names, rest := memberNames(members), "it has no members"
			if len(names) > 0 {
				rest = "there are " + strings.Join(names, ", ")
			}
			return k, found, at, missing(word, "member of "+strings.Join(words[:i+1], "."), names, rest)
		}
		found, members = next, next.Members
		at = strings.TrimPrefix(at+"."+found.Name, ".")
	}
	return k, found, at, nil
}

func memberOf(members []v2.Member, name string) (v2.Member, bool) {
	for _, m := range members {
		if m.Is(name) {
			return m, true
		}
	}
	return v2.Member{}, false
}

func memberNames(members []v2.Member) (names []string) {
	for _, m := range members {
		names = append(names, m.Name)
	}
	return names
}

// collections lists the names of all kinds, with the short ones.
func collections() (names []string) {
	for _, k := range table {
		names = append(append(names, k.Collection), k.Short...)
	}
	return names
}

// missing returns the error for a name that resembles one of the known names; rest is what helps otherwise.
func missing(name, what string, known []string, rest string) error {
	if similar, ok := nearest.To(name, known); ok {
		rest = fmt.Sprintf("did you mean %q?", similar)
	}
	return errs.New(errs.NotFound, fmt.Sprintf("%q is no %s; %s", name, what, rest))
}

// Path returns the anchors of a kind, with the names of items in braces.
func (k Kind) Path() string {
	path := anchor.Last(k.Collection)
	for parents := k.Parents; len(parents) > 0 && parents[0] != ""; {
		parent, _ := Of(parents[0])
		name := "{name}"
		if parent.Collection == "composite-apps" {
			name = "{name}/{version}"
		}
		path, parents = anchor.Last(parent.Collection)+"/"+name+"/"+path, parent.Parents
	}
	return path
}
