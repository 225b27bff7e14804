// Package anchor maps anchors to requests and services. An anchor is the URL of a
// collection or of an action without "/v2", such as "projects/p1/logical-clouds". Expand and
// Short convert the short form of a deployment's path; package kind has the short names of collections. All
// functions are pure.
package anchor

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// Verb is a command on documents.
type Verb string

// The verbs, with the names of their commands.
const (
	Apply  Verb = "apply"
	Update Verb = "update"
	Get    Verb = "get"
	Delete Verb = "delete"
)

// Names are the parts of a document that its URL contains.
type Names struct {
	Name    string // metadata.name
	Version string // spec.compositeAppVersion, for composite apps
	Label   string // clusterLabel, for documents without a name
}

// Call is the request for a document.
type Call struct {
	Method string // empty: the document is skipped
	Path   string // below /v2
	Empty  bool   // send no body
}

// Skip reports whether there is no request.
func (c Call) Skip() bool { return c.Method == "" }

// The last segments that are actions or queries, not collections. Upstream EMCO skips them for some
// verbs, and sends PUT and DELETE to others, which the server refuses; all are skipped here.
var (
	actions = []string{
		"instantiate", "apply", "approve", "terminate", "stop", "update", "migrate", "rollback", "promote",
		"cancel", "start", "retry", "skip", "abort",
	}
	deleteSkips = []string{"approve", "status", "migrate", "update", "rollback", "promote", "terminate", "stop", "cancel", "start", "retry", "skip", "abort"}
)

// Actions lists the actions that files can ask for.
func Actions() []string { return slices.Clone(actions) }

// IsAction reports whether the anchor names an action, such as "…/instantiate".
func IsAction(anchor string) bool { return slices.Contains(actions, Last(anchor)) }

// Last returns the last segment of an anchor.
func Last(anchor string) string { return anchor[strings.LastIndexByte(anchor, '/')+1:] }

// Parent returns the anchor without its last segment, empty if it has just one.
func Parent(anchor string) string { return anchor[:max(strings.LastIndexByte(anchor, '/'), 0)] }

// Resolve returns the request of verb for a document with this anchor and these names, by
// upstream's rules:
//
//	apply   POST to the anchor as it is
//	update  PUT to the item; actions are skipped
//	get     GET of the item; actions are skipped
//	delete  DELETE of the item; instantiate and apply become POST …/terminate
//	        without a body, other actions are skipped
//
// The error is Invalid if a name cannot be in a URL, or if a delete would remove a whole
// collection because the document has no name.
func Resolve(verb Verb, anchor string, n Names) (Call, error) {
	last := Last(anchor)
	switch {
	case verb == Apply:
		_, err := Item(anchor, n)
		return Call{Method: http.MethodPost, Path: anchor}, err
	case verb == Delete && (last == "instantiate" || last == "apply"):
		return Call{Method: http.MethodPost, Path: join(Parent(anchor), "terminate"), Empty: true}, nil
	case verb == Delete && slices.Contains(deleteSkips, last):
		return Call{}, nil
	case verb != Delete && (slices.Contains(actions, last) || verb == Update && last == "status"):
		return Call{}, nil
	}
	item, err := Item(anchor, n)
	if err != nil {
		return Call{}, err
	}
	if verb == Delete && IsCollection(item) {
		return Call{}, errs.E(errs.Invalid, "delete", anchor,
			errors.New("the document has neither metadata.name nor clusterLabel, so this would delete the whole collection; name one"))
	}
	return Call{Method: method[verb], Path: item}, nil
}

// method is the HTTP method of each verb, except for Delete of an action.
var method = map[Verb]string{
	Apply: http.MethodPost, Update: http.MethodPut, Get: http.MethodGet, Delete: http.MethodDelete,
}

// Item returns the path of a document: the anchor and its name; for composite apps also the
// version; for a document without a name its label; else the anchor alone. Actions are
// their anchor.
func Item(anchor string, n Names) (string, error) {
	var parts []string
	switch {
	case n.Name != "" && Last(anchor) == compositeApps && n.Version != "":
		parts = []string{n.Name, n.Version}
	case n.Name != "":
		parts = []string{n.Name}
	case n.Label != "":
		parts = []string{n.Label}
	}
	for _, part := range parts {
		if strings.Contains(part, noValue) {
			return "", errs.E(errs.Invalid, "name", anchor, errNoValue)
		}
		if part == "." || part == ".." {
			return "", errs.E(errs.Invalid, "name", anchor, errors.New(`"." and ".." cannot be names`))
		}
		anchor += "/" + url.PathEscape(part)
	}
	return anchor, nil
}

func join(parent, last string) string { return strings.TrimPrefix(parent+"/"+last, "/") }

// compositeApps is the one collection whose items have two names.
const compositeApps = "composite-apps"

// IsCollection reports whether a path names a whole collection (or an action), not one
// item: segments alternate between collections and names, except that a composite app has a
// name and a version.
func IsCollection(path string) bool {
	path, _, _ = strings.Cut(path, "?")
	segments := strings.Split(strings.Trim(path, "/"), "/")
	if segments[0] == "policy" {
		segments = segments[1:] // policy/agents/{id}
	}
	for len(segments) > 0 {
		if len(segments) == 1 {
			return true
		}
		width := 2
		if segments[0] == compositeApps {
			width = 3
		}
		segments = segments[min(width, len(segments)):]
	}
	return false
}

// certificates is the collection below which collections of other documents have the names of clusters and
// logical clouds.
const certificates = "ca-certs"

// Collection returns the collection of an item's path or of an anchor, such as "apps". That of a
// collection below ca-certs is "ca-certs/clusters" or the like.
func Collection(path string) string {
	path, _, _ = strings.Cut(path, "?")
	last, s := lastCollection(path), strings.Split(path, "/")
	if len(s) > 4 && s[2] == certificates {
		return certificates + "/" + last
	}
	return last
}

func lastCollection(path string) string {
	if IsCollection(path) {
		return Last(path)
	}
	parent := Parent(path)
	if Last(Parent(parent)) == compositeApps && !IsCollection(parent) {
		return compositeApps
	}
	return Last(parent)
}

// WantsJSON reports whether a GET of the path must request JSON: items with a file are
// served in several forms. For others upstream's client sends no Accept.
func WantsJSON(path string) bool {
	path, _, _ = strings.Cut(path, "?")
	switch Last(Parent(path)) {
	case "apps", "profiles", "clusters", "resources", "customizations":
		return true
	}
	return false
}
