package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git/transport"
)

const maxProgress = 4 << 10 // bytes of the server's messages that are kept

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
		return nil, transport.Malformed("the advertisement")
	}
	return refs, err
}

// sideband reads the data channel of a multiplexed reply. Progress messages are kept for error
// texts, up to a limit; a message on the error channel ends the data as RemoteError.
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
		s.err = &transport.RemoteError{Text: strings.TrimSpace(string(line[1:]))}
	default:
		s.err = transport.Malformed("a reply")
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
			return transport.Malformed(fmt.Sprintf("the negotiation, %d bytes,", len(line)))
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
			return transport.Malformed("the negotiation")
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

// said returns a server's message as one, if the protocol's decoders found it.
func said(err error) error {
	if line, ok := errors.AsType[*pktline.ErrorLine](err); ok {
		return &transport.RemoteError{Text: line.Text}
	}
	return err
}
