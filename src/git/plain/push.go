package plain

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
	"github.com/emco-orchestrator/emco/src/git/transport"
)

// bufferUpTo bounds the size of objects that a push sends with a known length; larger pushes
// stream. The git program has the same default.
const bufferUpTo = 1 << 20

// refUpdate moves a branch from its current commit, zero if it must not exist, to another.
type refUpdate struct {
	branch   string
	from, to plumbing.Hash
	dir      string // of a derived branch; empty for others
}

// pushRequest is one push: updates, all or nothing where the server can do that, and objects that
// it may lack. It is sent only if the guard, which may be nil, allows it.
type pushRequest struct {
	updates []refUpdate
	objs    []gitObject
	bytes   int64
	guard   func(context.Context) error
}

// onlyRemoves reports whether a push only deletes branches.
func (p pushRequest) onlyRemoves() bool {
	return !slices.ContainsFunc(p.updates, func(m refUpdate) bool { return !m.to.IsZero() })
}

// pushOfBranch moves a branch to the commit of c, the last of its objects.
func pushOfBranch(branch string, from plumbing.Hash, c *treeChange, guard func(context.Context) error) pushRequest {
	m := refUpdate{branch: branch, from: from, to: c.objs[len(c.objs)-1].id}
	return pushRequest{updates: []refUpdate{m}, objs: c.objs, bytes: c.bytes, guard: guard}
}

// push opens a conversation and sends a push.
func (h *Host) push(ctx context.Context, r git.Repo, p pushRequest) error {
	conv, err := h.open(ctx, r, receivePack)
	if err != nil {
		return err
	}
	return h.send(ctx, r, conv, p)
}

// send sends a push and ends the conversation.
func (h *Host) send(ctx context.Context, r git.Repo, conv *serviceConn, p pushRequest) error {
	if err := h.checkPush(ctx, r, p, conv); err != nil {
		conv.close(true)
		return err
	}
	clean := false
	defer func() { conv.close(clean) }()
	body, size, done := h.packBody(commands(conv, p.updates), p)
	defer done()
	reply, err := conv.exchange(ctx, body, size)
	if err != nil {
		return h.learn(r, h.fail(ctx, r, "push", err))
	}
	report, chat, err := readReport(conv, reply)
	if err != nil {
		return h.fail(ctx, r, "push", conv.explain(err))
	}
	clean = true
	h.pushes.Add(1)
	return h.checkReport(ctx, r, p, report, chat)
}

// checkPush refuses a push that cannot succeed: a lost race, a server without reports, or a guard
// that fails.
func (h *Host) checkPush(ctx context.Context, r git.Repo, p pushRequest, conv *serviceConn) error {
	for _, m := range p.updates {
		if at := conv.refs.References[headsPrefix+m.branch]; at != m.from {
			return h.conflict(r, m.branch)
		}
	}
	if !conv.has(capability.ReportStatus) {
		return errs.E(errs.Invalid, "push", r.URL, errors.New("the server does not report the outcome of pushes"))
	}
	if p.guard != nil {
		return p.guard(ctx)
	}
	return nil
}

func (h *Host) conflict(r git.Repo, branch string) error {
	return errs.E(errs.Conflict, "push", r.URL, fmt.Errorf("branch %s is not where it was expected", branch))
}

// commands returns the lines that ask for updates; several are all or nothing.
func commands(conv *serviceConn, moves []refUpdate) []byte {
	caps := "\x00 " + capability.ReportStatus.String() + " " + agentCapability
	for _, name := range []capability.Capability{capability.Sideband64k, capability.Quiet, capability.Atomic} {
		if conv.has(name) && (name != capability.Atomic || len(moves) > 1) {
			caps += " " + name.String()
		}
	}
	var head bytes.Buffer
	line := pktline.NewEncoder(&head)
	for _, m := range moves {
		_ = line.Encodef("%s %s %s%s", m.from, m.to, headsPrefix+m.branch, caps)
		caps = ""
	}
	_ = line.Flush()
	return head.Bytes()
}

// packBody returns the request, and a function that ends its writer.
func (h *Host) packBody(head []byte, p pushRequest) (body io.Reader, size int64, done func()) {
	count := &countingWriter{host: h}
	if p.onlyRemoves() {
		return bytes.NewReader(head), int64(len(head)), func() {} // there is no pack then
	}
	if p.bytes <= bufferUpTo {
		buf := bytes.NewBuffer(head)
		_ = writePack(io.MultiWriter(buf, count), p.objs) // a buffer takes all
		return bytes.NewReader(buf.Bytes()), int64(buf.Len()), func() {}
	}
	read, write := io.Pipe()
	ended := make(chan struct{})
	go func() { // owned by the caller, who waits for it with done
		defer close(ended)
		_, err := write.Write(head)
		if err == nil {
			err = writePack(io.MultiWriter(write, count), p.objs)
		}
		_ = write.CloseWithError(err)
	}()
	return read, -1, func() {
		_ = read.Close()
		<-ended
	}
}

type countingWriter struct{ host *Host }

// Write counts.
func (c *countingWriter) Write(p []byte) (int, error) {
	c.host.sent.Add(uint64(len(p)))
	return len(p), nil
}

// readReport reads the report of a push, and the messages of the server before it.
func readReport(conv *serviceConn, reply io.Reader) (*packp.ReportStatus, string, error) {
	reply = io.LimitReader(reply, maxReport)
	report := packp.NewReportStatus()
	if !conv.has(capability.Sideband64k) {
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
	if _, ok := errors.AsType[*remoteError](err); ok || transport.KindOfMessage(chat) != errs.Unavailable {
		return &remoteError{text: chat}
	}
	return err
}

// checkReport turns a report into an error. The protocol has no codes, and servers word refusals
// differently; where a refusal may be a lost race, the branch itself is read.
func (h *Host) checkReport(ctx context.Context, r git.Repo, p pushRequest, report *packp.ReportStatus, chat string) error {
	if report.UnpackStatus != "ok" {
		return h.unpackRefused(r, report.UnpackStatus+" "+chat)
	}
	if bad := refused(report); bad != nil {
		return h.updateRefused(ctx, r, p.updateOf(bad), bad.Status, chat)
	}
	if len(report.CommandStatuses) == 0 {
		return errs.E(errs.Unavailable, "push", r.URL, errors.New("the server does not report the outcome of the push"))
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
func (p pushRequest) updateOf(status *packp.CommandStatus) refUpdate {
	for _, m := range p.updates {
		if headsPrefix+m.branch == string(status.ReferenceName) {
			return m
		}
	}
	return p.updates[0]
}

func (h *Host) unpackRefused(r git.Repo, said string) error {
	kind := transport.KindOfMessage(said)
	if kind == errs.NotFound {
		kind = errs.Unavailable
	}
	return errs.E(kind, "push", r.URL, errors.New("the server refuses the objects: "+transport.Redact(r, said)))
}

func (h *Host) updateRefused(ctx context.Context, r git.Repo, m refUpdate, why, chat string) error {
	words := why + " " + chat
	if transport.LostObjects(words) {
		h.repo(r).forget() // the server lost what the commit builds on
		return h.conflict(r, m.branch)
	}
	if !transport.HookDeclined(words) && (transport.LostRace(words) || h.moved(ctx, r, m)) {
		return h.conflict(r, m.branch)
	}
	said := transport.Redact(r, why+": "+chat)
	cause := fmt.Errorf("the server refuses to move branch %s: %s", m.branch, strings.TrimRight(said, ": "))
	if m.dir != "" {
		cause = &git.PathError{Path: m.dir, Err: cause}
	}
	return errs.E(errs.Forbidden, "push", r.URL, cause)
}

// moved reports whether the branch left its old commit.
func (h *Host) moved(ctx context.Context, r git.Repo, m refUpdate) bool {
	at, err := h.Head(ctx, r, m.branch)
	switch {
	case errs.Is(err, errs.NotFound):
		return !m.from.IsZero()
	case err != nil:
		return false
	}
	return string(at) != m.from.String()
}
