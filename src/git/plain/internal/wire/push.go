package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/plain/internal/dial"
	"github.com/emco-orchestrator/emco/src/git/plain/internal/pack"
	"github.com/emco-orchestrator/emco/src/git/transport"
)

// bufferUpTo bounds the size of objects that a push sends with a known length; larger pushes
// stream. The git program has the same default.
const bufferUpTo = 1 << 20

// RefUpdate moves a branch from its current commit, zero if it must not exist, to another, zero to
// delete it.
type RefUpdate struct {
	Branch   string
	From, To plumbing.Hash
	Dir      string // of a derived branch; empty for others
}

// PushRequest is one push: updates, all or nothing where the server can do that, and objects that
// it may lack. It is sent only if the guard, which may be nil, allows it.
type PushRequest struct {
	Updates []RefUpdate
	Objects []pack.Object
	Bytes   int64 // of the objects
	Guard   func(context.Context) error
}

// onlyRemoves reports whether a push only deletes branches.
func (p PushRequest) onlyRemoves() bool {
	return !slices.ContainsFunc(p.Updates, func(m RefUpdate) bool { return !m.To.IsZero() })
}

// ErrObjectsLost is the cause of a Conflict: the server lost what a push builds on.
var ErrObjectsLost = errors.New("the server lacks objects that the push builds on")

// Push sends a push. It first looks where the branches are, so that nothing is sent once the race is lost, unless Head has just
// read that they are where the push expects them.
func (c *Client) Push(ctx context.Context, r git.Repo, p PushRequest) error {
	open := c.Open
	if c.heads.take(r, p.Updates) {
		open = c.OpenWithoutRefs
	}
	conv, err := open(ctx, r, dial.ReceivePack)
	if err != nil {
		return err
	}
	return conv.Push(ctx, p)
}

// Push sends a push and ends the conversation, which must be one with receive-pack. It returns
// Conflict if a branch is not where the push expects it.
func (c *Conn) Push(ctx context.Context, p PushRequest) error {
	if err := c.checkPush(ctx, p); err != nil {
		c.Close(true)
		return err
	}
	clean := false
	defer func() { c.Close(clean) }()
	body, size, done := c.pushBody(p)
	defer done()
	reply, err := c.conversation.Exchange(ctx, body, size)
	if c.outdated(err) {
		return c.client.Push(ctx, c.repo, p)
	}
	if err != nil {
		return c.client.observe(c.repo, transport.Fail(ctx, c.repo, "push", err))
	}
	report, chat, err := c.readReport(reply)
	if err != nil {
		return transport.Fail(ctx, c.repo, "push", c.conversation.Explain(said(err)))
	}
	clean = true
	c.client.pushes.Add(1)
	return c.checkReport(ctx, p, report, chat)
}

// checkPush refuses a push that cannot succeed: a lost race, a server without reports, or a guard
// that fails.
func (c *Conn) checkPush(ctx context.Context, p PushRequest) error {
	for _, m := range p.Updates {
		if at, _ := c.Branch(m.Branch); at != m.From && !c.withoutRefs {
			return c.Conflict(m.Branch)
		}
	}
	if !c.Has(capability.ReportStatus) {
		return errs.E(errs.Invalid, "push", c.repo.URL, errors.New("the server does not report the outcome of pushes"))
	}
	if p.Guard != nil {
		return p.Guard(ctx)
	}
	return nil
}

// Conflict is the error of a branch that is not where a push expects it.
func (c *Conn) Conflict(branch string) error {
	return errs.E(errs.Conflict, "push", c.repo.URL, fmt.Errorf("branch %s is not where it was expected", branch))
}

// commands returns the lines that ask for updates; several are all or nothing.
func (c *Conn) commands(moves []RefUpdate) []byte {
	caps := "\x00 " + capability.ReportStatus.String() + " " + agentCapability
	for _, name := range []capability.Capability{capability.Sideband64k, capability.Quiet, capability.Atomic} {
		if c.Has(name) && (name != capability.Atomic || len(moves) > 1) {
			caps += " " + name.String()
		}
	}
	var head bytes.Buffer
	line := pktline.NewEncoder(&head)
	for _, m := range moves {
		_ = line.Encodef("%s %s %s%s", m.From, m.To, headsPrefix+m.Branch, caps)
		caps = ""
	}
	_ = line.Flush()
	return head.Bytes()
}

// pushBody returns the request, and a function that ends its writer.
func (c *Conn) pushBody(p PushRequest) (body io.Reader, size int64, done func()) {
	head, count := c.commands(p.Updates), &countingWriter{client: c.client}
	if p.onlyRemoves() {
		return bytes.NewReader(head), int64(len(head)), func() {} // there is no pack then
	}
	if p.Bytes <= bufferUpTo {
		buf := bytes.NewBuffer(head)
		_ = pack.Write(io.MultiWriter(buf, count), p.Objects) // a buffer takes all
		return bytes.NewReader(buf.Bytes()), int64(buf.Len()), func() {}
	}
	read, write := io.Pipe()
	ended := make(chan struct{})
	go func() { // owned by the caller, who waits for it with done
		defer close(ended)
		_, err := write.Write(head)
		if err == nil {
			err = pack.Write(io.MultiWriter(write, count), p.Objects)
		}
		_ = write.CloseWithError(err)
	}()
	return read, -1, func() {
		_ = read.Close()
		<-ended
	}
}

type countingWriter struct{ client *Client }

// Write counts.
func (c *countingWriter) Write(p []byte) (int, error) {
	c.client.sent.Add(uint64(len(p)))
	return len(p), nil
}

// readReport reads the report of a push, and the messages of the server before it.
func (c *Conn) readReport(reply io.Reader) (*packp.ReportStatus, string, error) {
	reply = io.LimitReader(reply, maxReport)
	report := packp.NewReportStatus()
	if !c.Has(capability.Sideband64k) {
		return report, "", reportError(report.Decode(reply), "")
	}
	band := newSideband(reply)
	err := report.Decode(band)
	if err == nil {
		_, err = io.Copy(io.Discard, band)
	}
	return report, band.chat.String(), reportError(err, band.chat.String())
}

// reportError prefers the messages of the server to a broken report.
func reportError(err error, chat string) error {
	if err == nil || strings.TrimSpace(chat) == "" {
		return err
	}
	if _, ok := errors.AsType[*transport.RemoteError](err); ok || transport.KindOfMessage(chat) != errs.Unavailable {
		return &transport.RemoteError{Text: chat}
	}
	return err
}

// checkReport turns a report into an error. The protocol has no codes, and servers word refusals
// differently; where a refusal may be a lost race, the branch itself is read.
func (c *Conn) checkReport(ctx context.Context, p PushRequest, report *packp.ReportStatus, chat string) error {
	if report.UnpackStatus != "ok" {
		return c.unpackRefused(report.UnpackStatus + " " + chat)
	}
	if bad := refused(report); bad != nil {
		return c.updateRefused(ctx, p.updateOf(bad), bad.Status, chat)
	}
	if len(report.CommandStatuses) == 0 {
		return errs.E(errs.Unavailable, "push", c.repo.URL, errors.New("the server does not report the outcome of the push"))
	}
	return nil
}

// refused returns the update that a server refused, rather than one that it skipped because of
// that; nil without any.
func refused(report *packp.ReportStatus) (first *packp.CommandStatus) {
	for _, status := range report.CommandStatuses {
		switch {
		case status.Status == "ok":
		case status.Status != "atomic push failure":
			return status
		case first == nil:
			first = status
		}
	}
	return first
}

// updateOf returns the update that a status is about.
func (p PushRequest) updateOf(status *packp.CommandStatus) RefUpdate {
	for _, m := range p.Updates {
		if headsPrefix+m.Branch == string(status.ReferenceName) {
			return m
		}
	}
	return p.Updates[0]
}

func (c *Conn) unpackRefused(said string) error {
	kind := transport.KindOfMessage(said)
	if kind == errs.NotFound {
		kind = errs.Unavailable
	}
	return errs.E(kind, "push", c.repo.URL, errors.New("the server refuses the objects: "+transport.Redact(c.repo, said)))
}

func (c *Conn) updateRefused(ctx context.Context, m RefUpdate, why, chat string) error {
	words := why + " " + chat
	if transport.LostObjects(words) {
		return errs.E(errs.Conflict, "push", c.repo.URL, fmt.Errorf("branch %s: %w", m.Branch, ErrObjectsLost))
	}
	if !transport.HookDeclined(words) && (transport.LostRace(words) || c.client.Moved(ctx, c.repo, m.Branch, m.From)) {
		return c.Conflict(m.Branch)
	}
	said := transport.Redact(c.repo, why+": "+chat)
	cause := fmt.Errorf("the server refuses to move branch %s: %s", m.Branch, strings.TrimRight(said, ": "))
	if m.Dir != "" {
		cause = &git.PathError{Path: m.Dir, Err: cause}
	}
	return errs.E(errs.Forbidden, "push", c.repo.URL, cause)
}
