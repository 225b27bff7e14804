package plain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/transport"
)

// bufferUpTo is the size of objects up to which a push is sent with its length
// known; larger ones stream. It is what the git program does by default.
const bufferUpTo = 1 << 20

// move is how a branch shall change: from the commit that it is at now, zero if it must
// not exist, and only if the guard, which may be nil, allows it.
type move struct {
	branch string
	from   plumbing.Hash
	guard  func(context.Context) error
}

// push moves a branch to c's commit, the last of its objects.
func (h *Host) push(ctx context.Context, r git.Repo, m move, c *change) error {
	conv, err := h.open(ctx, r, receivePack)
	if err != nil {
		return err
	}
	if err := h.mayPush(ctx, r, m, conv); err != nil {
		conv.close(true)
		return err
	}
	clean := false
	defer func() { conv.close(clean) }()
	head := command(conv, m.from, c.objs[len(c.objs)-1].id, heads+m.branch)
	body, size, done := h.packBody(head, c)
	defer done()
	reply, err := conv.exchange(ctx, body, size)
	if err != nil {
		return h.fail(ctx, r, "push", err)
	}
	report, chat, err := readReport(conv, reply)
	if err != nil {
		return h.fail(ctx, r, "push", conv.explain(err))
	}
	clean = true
	h.pushes.Add(1)
	return h.judge(ctx, r, m, report, chat)
}

// mayPush says why a branch cannot be moved, as far as that is known before.
func (h *Host) mayPush(ctx context.Context, r git.Repo, m move, conv *conversation) error {
	if at := conv.refs.References[heads+m.branch]; at != m.from {
		return h.lost(r, m.branch)
	}
	if !conv.has(capability.ReportStatus) {
		return errs.E(errs.Invalid, "push", r.URL, errors.New("the server does not report what became of a push"))
	}
	if m.guard != nil {
		return m.guard(ctx)
	}
	return nil
}

func (h *Host) lost(r git.Repo, branch string) error {
	return errs.E(errs.Conflict, "push", r.URL, fmt.Errorf("branch %s is not where it was expected", branch))
}

// command is the one line that asks for the move.
func command(conv *conversation, from, to plumbing.Hash, ref string) []byte {
	caps := " " + capability.ReportStatus.String() + " " + agent
	for _, name := range []capability.Capability{capability.Sideband64k, capability.Quiet} {
		if conv.has(name) {
			caps += " " + name.String()
		}
	}
	var head bytes.Buffer
	line := pktline.NewEncoder(&head)
	_ = line.Encodef("%s %s %s\x00%s", from, to, ref, caps)
	_ = line.Flush()
	return head.Bytes()
}

// packBody returns the request, and a function that ends what writes it.
func (h *Host) packBody(head []byte, c *change) (body io.Reader, size int64, done func()) {
	count := &countingWriter{host: h}
	if c.bytes <= bufferUpTo {
		buf := bytes.NewBuffer(head)
		_ = writePack(io.MultiWriter(buf, count), c.objs) // a buffer takes all
		return bytes.NewReader(buf.Bytes()), int64(buf.Len()), func() {}
	}
	read, write := io.Pipe()
	ended := make(chan struct{})
	go func() { // owned by the caller, who waits for it with done
		defer close(ended)
		_, err := write.Write(head)
		if err == nil {
			err = writePack(io.MultiWriter(write, count), c.objs)
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

// readReport reads what became of the push, and what the server said meanwhile.
func readReport(conv *conversation, reply io.Reader) (*packp.ReportStatus, string, error) {
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

// reportError adds what the server said, which tells more than a broken report.
func reportError(err error, chat string) error {
	if err == nil || strings.TrimSpace(chat) == "" {
		return err
	}
	if _, ok := errors.AsType[*remoteError](err); ok || kindOfWords(chat) != errs.Unavailable {
		return &remoteError{text: chat}
	}
	return err
}

// judge turns a report into an error. The protocol has no codes, and servers word
// their refusals differently; so where a refusal may mean that the race was lost,
// the branch itself is asked.
func (h *Host) judge(ctx context.Context, r git.Repo, m move, report *packp.ReportStatus, chat string) error {
	if report.UnpackStatus != "ok" {
		return h.unpackRefused(r, report.UnpackStatus+" "+chat)
	}
	for _, status := range report.CommandStatuses {
		if status.Status != "ok" {
			return h.moveRefused(ctx, r, m, status.Status, chat)
		}
	}
	if len(report.CommandStatuses) == 0 {
		return errs.E(errs.Unavailable, "push", r.URL, errors.New("the server does not say what became of the push"))
	}
	return nil
}

func (h *Host) unpackRefused(r git.Repo, said string) error {
	kind := kindOfWords(said)
	if kind == errs.NotFound {
		kind = errs.Unavailable
	}
	return errs.E(kind, "push", r.URL, errors.New("the server refuses the objects: "+transport.Scrub(r, said)))
}

func (h *Host) moveRefused(ctx context.Context, r git.Repo, m move, why, chat string) error {
	low := strings.ToLower(why + " " + chat)
	if strings.Contains(low, "missing necessary objects") {
		h.repo(r).forget() // what we built on is gone from the server
		return h.lost(r, m.branch)
	}
	if !strings.Contains(low, "hook declined") && (raceWords(low) || h.moved(ctx, r, m)) {
		return h.lost(r, m.branch)
	}
	said := transport.Scrub(r, why+": "+chat)
	return errs.E(errs.Forbidden, "push", r.URL, fmt.Errorf("the server refuses to move branch %s: %s", m.branch, strings.TrimRight(said, ": ")))
}

// raceWords tells Git's own words for a lost race, one against a lock file included.
func raceWords(low string) bool {
	for _, words := range []string{"cannot lock", "failed to update ref", "already exists", "but expected", "incorrect old value"} {
		if strings.Contains(low, words) {
			return true
		}
	}
	return false
}

// moved says whether the branch is not where it was.
func (h *Host) moved(ctx context.Context, r git.Repo, m move) bool {
	at, err := h.Head(ctx, r, m.branch)
	switch {
	case errs.Is(err, errs.NotFound):
		return !m.from.IsZero()
	case err != nil:
		return false
	}
	return string(at) != m.from.String()
}
