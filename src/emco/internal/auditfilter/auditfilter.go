// Package auditfilter records requests in the audit log: changes with their outcomes, some reads, refusals, sign-ins and
// sign-outs. It also records operations that the program carries out for users, and commands over the socket.
package auditfilter

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/api/audit"
	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/auditlog"
	"github.com/emco-orchestrator/emco/src/emco/internal/authn"
	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/tracing"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// Filter writes the audit log of requests.
type Filter struct {
	AuditLog *auditlog.Log
	Reads    bool                 // record all requests that read, too
	Veils    func(store.Key) bool // documents whose values are sealed: no digest shows them
	Now      func() time.Time
	Count    func(missed int) // called for requests that were not recorded one by one

	refusals limiter // of callers that are not known, by network
	denials  limiter // of callers that are known, by subject: a flood of others does not hide them
	signIns  limiter // by network
	known    seenCallers
}

// maxPath bounds the paths and names in lines, in bytes.
const maxPath = 512

// watched are the types whose reading is recorded.
func watched() []string { return []string{"audit", "tokens", "report-tokens"} }

// recordKind is how a request is recorded.
type recordKind uint8

const (
	ignored recordKind = iota
	read               // when it was let in
	change             // before it is carried out, and when it is answered
)

func (f *Filter) kindOf(need authz.Permission) recordKind {
	reads := need.Verb == authz.Get || need.Verb == authz.List
	switch {
	case need.Verb == authz.Public, need.Verb == authz.SignedIn:
		return ignored
	case !reads:
		return change
	case f.Reads, slices.Contains(watched(), need.Type):
		return read
	}
	return ignored
}

// Route is middleware of the router: it records what requests do that were let in.
func (f *Filter) Route(next http.Handler) http.Handler {
	return web.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) error {
		need, _ := web.Needed(r)
		kind := f.kindOf(need)
		if kind == ignored {
			next.ServeHTTP(rw, r)
			return nil
		}
		line := f.line(r, authn.From(r.Context()), need)
		if kind == read {
			f.asked(line)
			next.ServeHTTP(rw, r)
			return nil
		}
		return f.change(rw, r, line, next)
	})
}

// asked records a request that only reads.
func (f *Filter) asked(line audit.Line) {
	line.Phase = audit.Read
	f.AuditLog.Note(line)
}

// change records a request that changes something, or shows a credential.
func (f *Filter) change(rw http.ResponseWriter, r *http.Request, line audit.Line, next http.Handler) error {
	e := &requestRecord{line: line, veils: f.Veils}
	dry := web.IsDryRun(r)
	if dry {
		e.line.Reason = "dry run"
	}
	ticket, err := f.AuditLog.Intend(r.Context(), e.line)
	switch {
	case err != nil && dry: // it changes nothing, so it goes on as reads do
		f.asked(e.line)
		next.ServeHTTP(rw, r)
		return nil
	case err != nil:
		return err
	}
	e.ticket = ticket
	if strings.HasPrefix(line.Verb, "act:") && r.Body != nil {
		e.body = &hashedBody{ReadCloser: r.Body, sum: sha256.New()}
		r.Body = e.body
	}
	out := &auditedResponse{ResponseWriter: rw, conclude: func(status int) { e.conclude(r.Context(), f.AuditLog, status) }}
	defer func() {
		if cause := recover(); cause != nil {
			out.begin(http.StatusInternalServerError)
			panic(cause)
		}
		out.begin(http.StatusOK)
	}()
	next.ServeHTTP(out, r.WithContext(store.WithWitness(r.Context(), e.changed)))
	return nil
}

// requestRecord is what is known of one request.
type requestRecord struct {
	veils  func(store.Key) bool
	ticket auditlog.Ticket
	body   *hashedBody // nil: its body is a document, or is not looked at

	mu   sync.Mutex
	line audit.Line // guarded by mu
}

// changed is a store.Witness.
func (e *requestRecord) changed(before, after store.Doc) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.line.Documents++; e.line.Documents > 1 {
		return
	}
	one := after
	if one.Key == "" {
		one = before
	}
	e.line.UID, e.line.Rev = one.UID, one.Rev
	if e.line.Place == "" {
		e.line.Place = placeOf(string(one.Key))
	}
	if !e.veils(one.Key) {
		e.line.Before, e.line.After = audit.Digest(before.Body), audit.Digest(after.Body)
	}
}

func (e *requestRecord) conclude(ctx context.Context, t *auditlog.Log, status int) {
	e.mu.Lock()
	line := e.line
	e.mu.Unlock()
	if line.Documents == 1 {
		line.Documents = 0
	}
	if e.body != nil {
		line.Body = e.body.digest()
	}
	line.Code = status
	t.Conclude(ctx, e.ticket, line)
}

// auditedResponse records the outcome before the status of the response is sent.
type auditedResponse struct {
	http.ResponseWriter
	begun    bool
	conclude func(status int)
}

func (a *auditedResponse) begin(status int) {
	if !a.begun {
		a.begun = true
		a.conclude(status)
	}
}

// WriteHeader records the first final status.
func (a *auditedResponse) WriteHeader(status int) {
	if status >= http.StatusOK {
		a.begin(status)
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write answers 200 if nothing else was.
func (a *auditedResponse) Write(text []byte) (int, error) {
	a.begin(http.StatusOK)
	return a.ResponseWriter.Write(text)
}

// Unwrap lets http.ResponseController reach the connection.
func (a *auditedResponse) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// hashedBody computes the digest of what is read.
type hashedBody struct {
	io.ReadCloser
	sum  hash.Hash
	read int64
	end  bool
}

func (b *hashedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	_, _ = b.sum.Write(p[:n])
	b.read, b.end = b.read+int64(n), b.end || errors.Is(err, io.EOF)
	return n, err
}

// digest returns the SHA-256; empty if there is no body, or if it was not read to its end.
func (b *hashedBody) digest() string {
	if !b.end || b.read == 0 {
		return ""
	}
	return hex.EncodeToString(b.sum.Sum(nil))
}

// line describes a request.
func (f *Filter) line(r *http.Request, c authn.Caller, need authz.Permission) audit.Line {
	l := audit.Line{
		Time: f.Now().UTC(), Request: web.RequestID(r.Context()), Subject: c.Subject, SubjectUID: c.UID, Via: c.Via, Address: address(r),
		Verb: need.Verb, Type: need.Type, Path: cut(r.URL.EscapedPath()), Place: placeOf(strings.TrimPrefix(r.URL.EscapedPath(), "/v2/")),
	}
	if actor := web.Actor(r.Context()); l.Subject == "" && actor != web.Anonymous {
		l.Subject, l.Via = actor, "header"
	}
	l.Trace = cmp.Or(tracing.ID(tracing.Parent(r.Context())), tracing.ID(r.Header.Get(tracing.Header)))
	return l
}

// address is where a request comes from, without the port.
func address(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

func cut(text string) string {
	if len(text) > maxPath {
		return text[:maxPath]
	}
	return text
}

// placeOf returns the project or the cluster provider in a path below /v2; empty if there is none.
func placeOf(path string) string {
	parts := strings.SplitN(path, "/", 3)
	if len(parts) < 2 {
		return ""
	}
	name, err := url.PathUnescape(parts[1])
	if err != nil || v2.CheckName("name", name) != nil {
		return ""
	}
	switch parts[0] {
	case "projects":
		return v2.ProjectStoreKey(name)
	case "cluster-providers":
		return v2.ProviderStoreKey(name)
	}
	return ""
}

// Refused records a request that was not let in. It implements access.Witness.
func (f *Filter) Refused(r *http.Request, c authn.Caller, need authz.Permission, err error) {
	if !errs.Is(err, errs.Unauthorized) && !errs.Is(err, errs.Forbidden) && !errs.Is(err, errs.NotFound) {
		return
	}
	l := f.line(r, c, need)
	l.Phase, l.Code = audit.Refused, web.Status(err)
	if need.Verb == "" {
		l.Verb = strings.ToLower(cut(r.Method))
	}
	if c.Subject != "" {
		f.note(l, &f.denials, c.Subject)
	} else {
		f.note(l, &f.refusals, web.Network(r.RemoteAddr))
	}
}

// note records a line, if the limiter of its subject admits one more.
func (f *Filter) note(l audit.Line, by *limiter, whom string) {
	if by.admit(whom, l.Time) {
		f.AuditLog.Note(l)
	} else {
		f.Count(1)
	}
}

// CarriedOut records that the program ended what a user had asked for: it made a revision of a deployment, or failed.
func (f *Filter) CarriedOut(subject, action, document string, rev int64, failed bool) {
	l := audit.Line{
		Time: f.Now().UTC(), Phase: audit.Program, Subject: subject, Via: "program", Verb: authz.Act(action), Path: cut("/v2/" + document),
		Type: path.Base(path.Dir(document)), Place: placeOf(document), Rev: rev, Reason: "done",
	}
	if failed {
		l.Reason = "failed"
	}
	f.AuditLog.Note(l)
}

// Local records what an operator of this machine asks for over the socket in the data folder.
func (f *Filter) Local(verb, typ string) {
	f.AuditLog.Note(audit.Line{Time: f.Now().UTC(), Phase: audit.Intent, Via: "socket", Verb: verb, Type: typ})
}

// Foreign records a request that a page of another origin sent.
func (f *Filter) Foreign(r *http.Request, err error) {
	f.Refused(r, authn.Caller{}, authz.Permission{}, err)
}

// again is the time after which a caller counts as signing in once more.
const again = time.Hour

// Known records a caller that was not seen for an hour. It implements access.Witness.
func (f *Filter) Known(r *http.Request, c authn.Caller) {
	if !f.known.first(callerAt(r, c), f.Now()) {
		return
	}
	f.session(r, c, audit.SignIn)
}

// SignedIn records a sign-in in a browser. It implements access.Witness.
func (f *Filter) SignedIn(r *http.Request, c authn.Caller) {
	f.known.first(callerAt(r, c), f.Now()) // its first request is no other sign-in
	f.session(r, c, audit.SignIn)
}

// SignedOut records the end of a session. It implements access.Witness.
func (f *Filter) SignedOut(r *http.Request, c authn.Caller) { f.session(r, c, audit.SignOut) }

// SignedOutBy records that an issuer has ended sign-ins of a caller. It implements access.Witness.
func (f *Filter) SignedOutBy(r *http.Request, issuer string, c authn.Caller) {
	l := f.line(r, c, authz.Permission{})
	l.Phase, l.Path, l.Reason = audit.SignOut, "", cut("by the issuer "+issuer)
	f.note(l, &f.signIns, web.Network(r.RemoteAddr))
}

// session records that a caller is there, or has left.
func (f *Filter) session(r *http.Request, c authn.Caller, phase string) {
	l := f.line(r, c, authz.Permission{})
	l.Phase, l.Path, l.Place, l.Reason = phase, "", "", cut(strings.Join(c.Groups, " "))
	f.note(l, &f.signIns, web.Network(r.RemoteAddr))
}

// callerAt identifies a caller at an address.
func callerAt(r *http.Request, c authn.Caller) string {
	return c.Subject + " " + c.UID + " " + c.Via + " " + address(r)
}

// Name is "audit-filter".
func (f *Filter) Name() string { return "audit-filter" }

// Ready returns nil.
func (f *Filter) Ready() error { return nil }

// Run records each ten seconds how many requests were not recorded one by one, until ctx ends.
func (f *Filter) Run(ctx context.Context) error {
	tick := time.NewTicker(10 * time.Second)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
		f.report(&f.refusals, "refused requests", "addresses")
		f.report(&f.denials, "refused requests", "callers")
		f.report(&f.signIns, "sign-ins", "addresses")
	}
	return nil
}

func (f *Filter) report(l *limiter, what, whose string) {
	n, several := l.missed()
	if n == 0 {
		return
	}
	reason := what
	if several > 0 {
		reason += " of " + strconv.Itoa(several) + " " + whose + " or more"
	}
	f.AuditLog.Note(audit.Line{Time: f.Now().UTC(), Phase: audit.Missed, Count: n, Reason: reason})
}
