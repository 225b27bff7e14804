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

// ErrSchema is wrapped by errors about documents of a form that is not known here: the
// agent is newer than the control plane, or it is no report at all.
var ErrSchema = errors.New("the schema is not known here")

// Limits of names, as Kubernetes has them.
const (
	maxName    = 253
	maxLabel   = 63
	maxCluster = 300
	maxContent = 64
	maxCommit  = 64
)

// Decode reads a report. It returns TooLarge for a document above MaxSize, Malformed for
// one that is no report, and Invalid, wrapping ErrSchema, for one of another form.
//
// Whoever wrote it may be compromised. Text is cut to its limit, and an object that
// cannot be (no name, an absurd one, a status that nobody knows) is left out and counted
// as Truncated, so that nothing is concluded from its absence.
//
// Strings of the report may be parts of one copy of the text: who keeps some of them for
// long clones them.
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

// misfit says why a text is no report of our form: another form may have members of other
// types.
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

// sanitize keeps the limits, whatever the agent did.
func sanitize(r Report) (Report, error) {
	if !plain(r.Cluster, maxCluster) {
		return Report{}, malformed(errors.New("no cluster is named, or an absurd one"))
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

// sound says whether an object may exist on a cluster.
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

// plain says whether a name has characters that are seen, and not too many.
func plain(name string, limit int) bool {
	if graphic(name, '!') {
		return name != "" && len(name) <= limit
	}
	return name != "" && len(name) <= limit && !strings.ContainsFunc(name, func(r rune) bool {
		return r == unicode.ReplacementChar || !unicode.IsPrint(r) || unicode.IsSpace(r)
	})
}

// printable is a text for people, in one line.
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

// graphic reports whether a text is of ASCII's characters from one to the last that is seen:
// most are, and then nothing else needs to be asked.
func graphic(text string, from byte) bool {
	for i := range len(text) {
		if text[i] < from || text[i] > '~' {
			return false
		}
	}
	return true
}
