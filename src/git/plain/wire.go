package plain

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
)

// The two services of a Git server.
const (
	uploadPack  = "git-upload-pack"
	receivePack = "git-receive-pack"
)

const (
	agentCapability = "agent=emco"
	maxAdvert       = 128 << 20 // bytes of an advertisement: two million refs
	maxProgress     = 4 << 10   // bytes of the server's messages that are kept
	maxReport       = 1 << 20   // bytes of a status report with messages
)

// session is one conversation with a service over some transport: the service sends an
// advertisement, gets at most one request unless it is reusable, and replies.
type session interface {
	// advert is the advertisement of the service; it must be read before exchange.
	advert() io.Reader
	// exchange sends a request of size bytes, -1 if unknown, and returns the reply.
	exchange(ctx context.Context, body io.Reader, size int64) (io.Reader, error)
	// reusable reports whether another exchange is possible after one that was closed.
	reusable() bool
	// close ends the conversation and waits for its goroutines and programs. clean means that the
	// reply was read to its end, so that the server may finish on its own.
	close(clean bool)
	// explain returns a better error for one that came from reading.
	explain(error) error
}

// serviceConn is a session whose advertisement was read.
type serviceConn struct {
	session
	refs *packp.AdvRefs
	repo git.Repo
}

// open dials the repository and reads the advertisement.
func (h *Host) open(ctx context.Context, r git.Repo, service string) (*serviceConn, error) {
	if err := h.checkURL(r); err != nil {
		return nil, err
	}
	a, err := git.ParseURL(r.URL)
	if err != nil {
		return nil, err
	}
	if err := h.opt.Budget.Spend(ctx, r, git.Cost{Reads: 1}); err != nil {
		return nil, h.fail(ctx, r, service, err)
	}
	h.adverts.Add(1)
	s, err := h.dial(ctx, r, a, service)
	if err != nil {
		return nil, h.learn(r, h.fail(ctx, r, service, err))
	}
	refs, err := readAdvert(s.advert())
	if err != nil {
		err = s.explain(err)
		s.close(false)
		return nil, h.fail(ctx, r, service, err)
	}
	c := &serviceConn{session: s, refs: refs, repo: r}
	if formats := refs.Capabilities.Get("object-format"); len(formats) > 0 && formats[0] != "sha1" {
		c.close(true)
		return nil, errs.E(errs.Invalid, service, r.URL, errors.New("only repositories with SHA-1 object names are supported"))
	}
	return c, nil
}

// learn records in the budget when a server asks for a pause.
func (h *Host) learn(r git.Repo, err error) error {
	if wait := errs.RetryAfter(err); wait > 0 {
		h.opt.Budget.Observe(r, git.RateStatus{Until: time.Now().Add(wait)})
	}
	return err
}

func (h *Host) dial(ctx context.Context, r git.Repo, a git.Address, service string) (session, error) {
	switch a.Scheme {
	case "http", "https":
		return h.dialHTTP(ctx, r, service)
	case "ssh":
		return h.dialSSH(ctx, r, a, service)
	default:
		return h.dialFile(ctx, a, service)
	}
}

// readAdvert reads references and capabilities; a repository without references is fine.
func readAdvert(r io.Reader) (*packp.AdvRefs, error) {
	refs := packp.NewAdvRefs()
	err := refs.Decode(io.LimitReader(r, maxAdvert))
	if errors.Is(err, packp.ErrEmptyAdvRefs) {
		return refs, nil
	}
	if errors.Is(err, packp.ErrEmptyInput) {
		return nil, io.ErrUnexpectedEOF
	}
	if _, ok := errors.AsType[*packp.ErrUnexpectedData](err); ok {
		return nil, malformed("the advertisement")
	}
	return refs, err
}

// has reports whether the server has a capability.
func (c *serviceConn) has(name capability.Capability) bool {
	return c.refs.Capabilities.Supports(name)
}

// sideband reads the data channel of a multiplexed reply. Progress messages are kept for error
// texts, up to a limit; a message on the error channel ends the data as remoteError.
type sideband struct {
	lines *pktline.Scanner
	rest  []byte
	chat  bytes.Buffer
	err   error
}

func newSideband(r io.Reader) *sideband { return &sideband{lines: pktline.NewScanner(r)} }

func (s *sideband) Read(p []byte) (int, error) {
	for len(s.rest) == 0 && s.err == nil {
		s.next()
	}
	if len(s.rest) == 0 {
		return 0, s.err
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

func (s *sideband) next() {
	if !s.lines.Scan() {
		if s.err = s.lines.Err(); s.err == nil {
			s.err = io.ErrUnexpectedEOF // the flush at the end is missing
		}
		return
	}
	line := s.lines.Bytes()
	if len(line) == 0 {
		s.err = io.EOF
		return
	}
	switch line[0] {
	case 1:
		s.rest = line[1:]
	case 2:
		s.keep(line[1:])
	case 3:
		s.keep(line[1:])
		s.err = &remoteError{text: strings.TrimSpace(string(line[1:]))}
	default:
		s.err = malformed("a reply")
	}
}

func (s *sideband) keep(text []byte) {
	s.chat.Write(text[:min(len(text), maxProgress-s.chat.Len())])
}

// ackLines reads the answers to "have" lines, up to the last one before the pack.
func ackLines(r io.Reader) error {
	lines := pktline.NewScanner(r)
	for lines.Scan() {
		line := strings.TrimSpace(string(lines.Bytes()))
		fields := strings.Fields(line)
		switch {
		case line == "NAK", len(fields) == 2 && fields[0] == "ACK":
			return nil
		case len(fields) == 3 && fields[0] == "ACK":
			continue // multi_ack: common, ready
		default:
			return malformed(fmt.Sprintf("the negotiation, %d bytes,", len(line)))
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return io.ErrUnexpectedEOF
}

// shallowLines skips the lines about where history is cut.
func shallowLines(r io.Reader) error {
	lines := pktline.NewScanner(r)
	for lines.Scan() {
		line := lines.Bytes()
		if len(line) == 0 {
			return nil
		}
		if !bytes.HasPrefix(line, []byte("shallow ")) && !bytes.HasPrefix(line, []byte("unshallow ")) {
			return malformed("the negotiation")
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return io.ErrUnexpectedEOF
}

// limitedReader counts the bytes that it reads, and fails above a limit.
type limitedReader struct {
	r     io.Reader
	n     int64
	limit int64
}

func (c *limitedReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	if c.n > c.limit {
		return 0, errs.E(errs.TooLarge, "receive", "", fmt.Errorf("more than %d bytes", c.limit))
	}
	return n, err
}

func buffered(r io.Reader) *bufio.Reader { return bufio.NewReaderSize(r, 64<<10) }
