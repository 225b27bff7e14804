package dial

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git/transport"
)

// exitGrace is how long a service may take to exit after its last reply.
const exitGrace = 5 * time.Second

const (
	maxRest   = 1 << 20 // bytes after the last reply that are read, so that the service can exit
	maxStderr = 4 << 10 // bytes of the error stream that are kept
)

// streamConversation speaks the protocol over the standard streams of a service, which runs on another
// machine by ssh, or here.
type streamConversation struct {
	in     io.WriteCloser
	out    *bufio.Reader
	stderr *tailBuffer
	wait   func() error                  // ends when the service ended
	kill   func()                        // ends the service at once; may be called twice
	kindOf func(stderr string) errs.Kind // classifies an early exit; nil: as any message of a server

	asked  bool
	writer sync.WaitGroup
	closed bool
	exit   error
}

func (s *streamConversation) Advert() io.Reader { return s.out }

func (s *streamConversation) Endpoint() string { return "" }

// Exchange copies the request in the background: a service may write while it reads, and would
// block if its output were not read.
func (s *streamConversation) Exchange(_ context.Context, body io.Reader, _ int64) (io.Reader, error) {
	s.asked = true
	s.writer.Go(func() {
		_, _ = io.Copy(s.in, body) // a service that stops reading reports why on its output
		_ = s.in.Close()
	})
	return s.out, nil
}

// Close ends an unused conversation with a flush: a receive-pack whose input stays open would wait
// for ever.
func (s *streamConversation) Close(clean bool) {
	if s.closed {
		return
	}
	s.closed = true
	if !clean {
		s.kill()
	}
	timer := time.AfterFunc(exitGrace, s.kill)
	defer timer.Stop()
	if !s.asked {
		_, _ = s.in.Write(pktline.FlushPkt)
		_ = s.in.Close()
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(s.out, maxRest))
	s.exit = s.wait()
	s.kill()
	s.writer.Wait()
}

// Explain prefers what the service wrote to its error stream.
func (s *streamConversation) Explain(err error) error {
	if _, ok := err.(*errs.Error); ok {
		return err
	}
	s.Close(false)
	if said := s.stderr.String(); said != "" {
		if s.kindOf != nil {
			return errs.E(s.kindOf(said), "", "", &transport.RemoteError{Text: said})
		}
		return &transport.RemoteError{Text: said}
	}
	return err
}

// tailBuffer keeps the end of the written bytes.
type tailBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

// Write keeps the last bytes and never fails.
func (t *tailBuffer) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf.Write(p)
	if over := t.buf.Len() - maxStderr; over > 0 {
		t.buf.Next(over)
	}
	return len(p), nil
}

// String returns what was kept.
func (t *tailBuffer) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(t.buf.String())
}
