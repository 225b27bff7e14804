package status

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// ErrSchema is wrapped by errors about documents of an unknown form: the agent is newer
// than the control plane, or the document is no report.
var ErrSchema = errors.New("the schema is not known")

// Limits of names, as Kubernetes has them.
const (
	maxName    = 253
	maxLabel   = 63
	maxCluster = 300
	maxContent = 64
	maxCommit  = 64
)

// Decode reads a report. It returns TooLarge for a document above MaxSize, Malformed if it
// is no report, and Invalid, wrapping ErrSchema, if it has another form.
//
// The agent may be compromised. Texts are cut to their limits. An object that cannot exist
// (without a name, with an impossible one, with an unknown status) is left out and counted
// as Truncated, so that its absence means nothing.
//
// Strings of the report share the memory of one copy of the text: clone those that are
// kept for long.
func Decode(text []byte) (Report, error) {
	if len(text) > MaxSize {
		return Report{}, errs.E(errs.TooLarge, "read", "status report", fmt.Errorf("%d bytes, the limit is %d", len(text), MaxSize))
	}
	if !utf8.Valid(text) {
		return Report{}, malformed(errors.New("not UTF-8"))
	}
	r, err := parse(text)
	if err != nil || r.Schema != Schema {
		return Report{}, misfit(text)
	}
	return sanitize(r)
}

// misfit returns why a text is no report of our form. Another form may have members of
// other types.
func misfit(text []byte) error {
	var form struct {
		Schema string `json:"schema"`
	}
	switch err := json.Unmarshal(text, &form); {
	case err != nil:
		return malformed(errors.New("not a JSON document of a report"))
	case form.Schema != Schema:
		return errs.E(errs.Invalid, "read", "status report", fmt.Errorf("%w: %q", ErrSchema, short(form.Schema, maxLabel)))
	}
	return malformed(errors.New("a member has the wrong type"))
}

func malformed(err error) error { return errs.E(errs.Malformed, "read", "status report", err) }

// sanitize enforces the limits.
func sanitize(r Report) (Report, error) {
	if !plain(r.Cluster, maxCluster) {
		return Report{}, malformed(errors.New("it names no cluster, or an impossible one"))
	}
	seen := make(map[string]bool, len(r.Apps))
	apps := r.Apps[:0]
	for _, a := range r.Apps {
		if !plain(a.Label, maxLabel) || seen[a.Label] {
			r.Truncated++
			continue
		}
		seen[a.Label] = true
		apps = append(apps, cleanApp(a))
	}
	r.Apps = apps
	if !plain(r.Same, maxContent) {
		r.Same = ""
	}
	r.Truncated = max(0, r.Truncated)
	r.Agent = printable(r.Agent, maxName)
	r.Capacity = cleanCapacity(r.Capacity)
	r.Unseen = r.Unseen[:min(len(r.Unseen), maxUnseen)]
	for i, u := range r.Unseen {
		r.Unseen[i] = Unseen{Group: printable(u.Group, maxName), Kind: printable(u.Kind, maxName), Reason: printable(u.Reason, MaxReason)}
	}
	return r, nil
}

func cleanApp(a App) App {
	a.Error = printable(a.Error, MaxError)
	if !plain(a.Commit, maxCommit) {
		a.Commit = ""
	}
	a.Truncated = max(0, a.Truncated)
	objects := a.Objects[:0]
	for _, o := range a.Objects {
		if !sound(o) {
			a.Truncated++
			continue
		}
		o.Reason = printable(o.Reason, MaxReason)
		objects = append(objects, o)
	}
	a.Objects = objects
	return a
}

// sound reports whether an object can exist on a cluster.
func sound(o Object) bool {
	return plain(o.Name, maxName) && plain(o.Kind, maxLabel) && plain(o.Version, maxLabel) &&
		(o.Group == "" || plain(o.Group, maxName)) && (o.Namespace == "" || plain(o.Namespace, maxName)) &&
		(o.Content == "" || plain(o.Content, maxContent)) && known(o.Status)
}

func known(status string) bool {
	switch status {
	case Current, InProgress, Failed, Terminating, NotFound, Unknown:
		return true
	}
	return false
}

// plain reports whether a name has visible characters only, and at most limit bytes.
func plain(name string, limit int) bool {
	if graphic(name, '!') {
		return name != "" && len(name) <= limit
	}
	return name != "" && len(name) <= limit && !strings.ContainsFunc(name, func(r rune) bool {
		return r == unicode.ReplacementChar || !unicode.IsPrint(r) || unicode.IsSpace(r)
	})
}

// printable returns a text for people, in one line.
func printable(text string, limit int) string {
	if len(text) <= limit && graphic(text, ' ') {
		return strings.TrimSpace(text)
	}
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
	return strings.TrimSpace(short(text, limit))
}

// graphic reports whether a text has only visible ASCII characters from from on. Most texts
// do, and need no further check.
func graphic(text string, from byte) bool {
	for i := range len(text) {
		if text[i] < from || text[i] > '~' {
			return false
		}
	}
	return true
}
