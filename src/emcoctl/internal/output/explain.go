package output

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/anchor"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/config"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/kind"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/printable"
)

// explain writes a failure: what, where, why, and what to do.
func explain(w io.Writer, r Result) {
	name := r.Path
	if name == "" {
		name = "document"
	}
	if r.Below != "" {
		fmt.Fprintf(w, "error: %s not %s (%s): neither is %s\n", name, intent(r), r.At, r.Below)
		return
	}
	fmt.Fprintf(w, "error: %s not %s\n", name, intent(r))
	if r.At.File != "" {
		fmt.Fprintf(w, "  where: %s\n", r.At)
	}
	fmt.Fprintf(w, "  why:   %s\n", indent(why(r.Err)))
	if advice := advise(r); advice != "" {
		fmt.Fprintf(w, "  next:  %s\n", indent(advice))
	}
}

// indent aligns further lines of a text with the first, and makes the text plain.
func indent(s string) string { return strings.ReplaceAll(printable.Text(s), "\n", "\n         ") }

// intent returns the intended outcome.
func intent(r Result) string {
	switch {
	case anchor.IsAction(r.Path) && r.Status == http.StatusAccepted:
		return "finished"
	case anchor.IsAction(r.Path):
		return "accepted"
	}
	switch r.Verb {
	case anchor.Apply:
		return "applied"
	case anchor.Update:
		return "updated"
	case anchor.Delete:
		return "deleted"
	}
	return "read"
}

// why returns the server's text if there is one, else the error.
func why(err error) string {
	if refusal, ok := errors.AsType[*client.Refusal](err); ok {
		return fmt.Sprintf("%s (%d)", refusal.Text, refusal.Status)
	}
	return err.Error()
}

// noRoute begins the text of servers, ours and upstream's, for a path that none of their routes has.
const noRoute = "404 page not found"

// advise returns what to do: the advice of package apply, else that for the kind of error.
func advise(r Result) string {
	if r.Advice != "" {
		return r.Advice
	}
	if text := Next(r.Err); text != "" {
		return text
	}
	switch errs.KindOf(r.Err) {
	case errs.NotFound:
		if refusal, ok := errors.AsType[*client.Refusal](r.Err); ok && strings.HasPrefix(refusal.Text, noRoute) {
			return "the server has no such collection; list those that it has with: emcoctl api-resources"
		}
		return adviseMissing(r, anchor.Parent(r.Path))
	case errs.Conflict:
		if r.Verb == anchor.Delete && !anchor.IsAction(r.Path) {
			return "delete its dependents first; terminate its deployments"
		}
	case errs.Malformed, errs.Invalid:
		if refusal, ok := errors.AsType[*client.Refusal](r.Err); ok && strings.Contains(refusal.Text, noFile) {
			return adviseFile(r)
		}
		switch refusal, ok := errors.AsType[*client.Refusal](r.Err); {
		case r.At.File != "" && ok:
			return "correct the document and apply it again"
		case ok && refusal.Text == emptyBody:
			return "give its document with -f FILE"
		}
	}
	return ""
}

// emptyBody is the text of servers for a document that was not sent.
const emptyBody = "Empty body"

// noFile is part of the text of servers, ours and upstream's, for a document that came without its file.
const noFile = "isn't multipart/form-data"

// adviseFile is the advice for a document without the file that it needs.
func adviseFile(r Result) string {
	if anchor.Collection(r.Path) == "clusters" {
		return "name its kubeconfig in a line file: PATH, or, for a cluster that pulls, spec.gitOps.gitOpsType"
	}
	return "name its package in a line file: PATH"
}

// Next returns what to do about an error of the connection or of access, or an anchor that leads nowhere;
// "" for others.
func Next(err error) string {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return ""
	}
	if unknown, ok := errors.AsType[*anchor.UnknownRootError](err); ok {
		return nextAnchor(unknown.Anchor)
	}
	if missing, ok := errors.AsType[*config.MissingSection](err); ok {
		return fmt.Sprintf("give the section %s a host and a port in the file, or one address for all services: a section ingress, or --server", missing.Section)
	}
	if errs.Is(err, errs.Unavailable) || errs.Is(err, errs.Invalid) { // of the server, and not of an issuer
		if text := NextOfTLS(err); text != "" {
			return text
		}
	}
	switch errs.KindOf(err) {
	case errs.Unavailable:
		if client.StatusOf(err) != 0 {
			return "the server answers, but something that it needs does not; see: emcoctl doctor"
		}
		return "start the server (emco), or give its address with --server, --config or $EMCO_URL"
	case errs.Unauthorized:
		return "sign in with emcoctl login, or give a token with -t or $EMCO_TOKEN"
	case errs.Forbidden:
		return "ask for the permission, or use another token with -t"
	case errs.Throttled:
		return fmt.Sprintf("try again in %s", max(errs.RetryAfter(err), time.Second))
	case errs.Conflict:
		return nextAction(err)
	}
	return ""
}

// refusedState finds the state in the server's refusal of an action.
var refusedState = regexp.MustCompile(`not allowed in state (\w+)`)

// nextAction returns the action that must come first, or that was probably meant; "" if there is none.
func nextAction(err error) string {
	refusal, refused := errors.AsType[*client.Refusal](err)
	e, about := errors.AsType[*errs.Error](err)
	if !refused || !about {
		return ""
	}
	state := refusedState.FindStringSubmatch(refusal.Text)
	if state == nil {
		return ""
	}
	path, asked := anchor.Parent(e.Subject), anchor.Last(e.Subject)+" "+state[1]
	if _, ok := v2.LogicalCloudOf(path); ok { // it needs no approval
		switch asked {
		case "instantiate Instantiated":
			return rollOut + path
		case "update Created", "update Terminated":
			return instantiateFirst + path
		}
	}
	group, ok := v2.GroupOf(path)
	if !ok {
		return ""
	}
	switch asked {
	case "instantiate Created", "update Created", "rollback Created", "migrate Created":
		return "approve it first: emcoctl approve " + group.String()
	case "instantiate Instantiated":
		return rollOut + group.String()
	case "update Approved", "rollback Approved", "migrate Approved", "update Terminated", "rollback Terminated", "migrate Terminated":
		return instantiateFirst + group.String()
	}
	return ""
}

// Actions to propose. A path follows, or the short name of a group: commands take no short names of logical clouds.
const (
	rollOut          = "to roll out changed documents: emcoctl update "
	instantiateFirst = "instantiate it first: emcoctl instantiate "
)

// nextAnchor returns what to write in place of an anchor that leads nowhere.
func nextAnchor(path string) string {
	if k, ok := kind.Nested(path); ok {
		return fmt.Sprintf("%s are below %s; name their whole anchor: %s", k.Collection, k.Parents[0], k.Path())
	}
	if path == "" {
		return "list the kinds of documents and their anchors with: emcoctl api-resources; emcoctl dump ANCHOR prints documents of the server with theirs, unlike emcoctl get"
	}
	return "list the kinds of documents and their anchors with: emcoctl api-resources"
}

// NextMissing returns what to do about something that the server does not have; "" for other
// errors.
func NextMissing(err error) string {
	refusal, refused := errors.AsType[*client.Refusal](err)
	e, about := errors.AsType[*errs.Error](err)
	if !refused || !about || e.Kind != errs.NotFound || strings.HasPrefix(refusal.Text, noRoute) {
		return ""
	}
	switch group, rollback := strings.CutSuffix(e.Subject, "/rollback"); {
	case rollback && strings.HasPrefix(refusal.Text, "revision "):
		return "list those that are kept with: emcoctl revisions " + v2.ShortName(group)
	case strings.Contains(e.Subject, "/deployment-intent-groups/") && !strings.Contains(e.Subject, "/revisions/"):
		return "list the existing ones with: emcoctl get deployments"
	case strings.Contains(refusal.Text, "was never moved"), strings.Contains(refusal.Text, "has no token"):
		return ""
	case strings.HasPrefix(e.Subject, "views/clusters/"), strings.Contains(e.Subject, "/clusters/") && (strings.HasSuffix(e.Subject, "/move") || strings.HasSuffix(e.Subject, "/monitor/token")):
		return "list the existing ones with: emcoctl get clusters"
	case strings.HasPrefix(e.Subject, "git/"):
		return "list the branches with: emcoctl branches"
	case strings.HasPrefix(e.Subject, "tokens/"):
		return "list the existing ones with: emcoctl auth token list"
	}
	if parent := anchor.Parent(strings.TrimSuffix(e.Subject, "/usage")); slices.Contains(kind.Below(""), parent) {
		return "list the existing ones with: emcoctl get " + parent
	}
	return ""
}

// adviseMissing is the advice for missing documents.
func adviseMissing(r Result, collection string) string {
	switch {
	case r.Verb == anchor.Update:
		return "create it with: emcoctl apply -f " + fileOr(r, "FILE")
	case anchor.IsCollection(collection):
		return "list the existing ones with: emcoctl get " + collection
	}
	return ""
}

func fileOr(r Result, otherwise string) string {
	if r.At.File != "" {
		return r.At.File
	}
	return otherwise
}
