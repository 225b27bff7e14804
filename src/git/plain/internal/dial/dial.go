// Package dial starts the services of Git servers, over http, https, ssh, the ssh program, or as a
// program on this machine.
package dial

import (
	"bufio"
	"context"
	"io"
	"net/netip"
	"sync"
	"time"

	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/transport"
)

// The two services of a Git server.
const (
	UploadPack  = "git-upload-pack"
	ReceivePack = "git-receive-pack"
)

// Conversation is an exchange with a service over some transport: the service sends an
// advertisement, gets at most one request unless the conversation has an endpoint, and replies.
type Conversation interface {
	// Advert is the advertisement of the service; it must be read before Exchange.
	Advert() io.Reader
	// Exchange sends a request of size bytes, -1 if unknown, and returns the reply.
	Exchange(ctx context.Context, body io.Reader, size int64) (io.Reader, error)
	// Endpoint is where further requests go, without a new advertisement: in this conversation once it is closed, or in
	// one of Resume. It is "" where the service takes one request.
	Endpoint() string
	// Close ends the conversation and waits for its goroutines and programs. clean means that the
	// reply was read to its end, so that the server may finish on its own.
	Close(clean bool)
	// Explain returns a better error for one that came from reading.
	Explain(error) error
}

// Dialer starts services.
type Dialer struct {
	Clients   *transport.Clients     // for http and https
	Admit     func(netip.Addr) error // returns an error for addresses that must not be dialled
	Git       string                 // the git program
	SSH       string                 // the ssh program for repositories with SSHProgram
	SSHConfig string                 // file with settings for it, as in ~/.ssh/config; none

	mu    sync.Mutex
	swept time.Time // when leftovers were last looked for; guarded by mu
}

// Dial starts a service for a repository, whose parsed URL is a. The scheme file runs the service of
// the git program; whether that is allowed is up to the caller.
func (d *Dialer) Dial(ctx context.Context, r git.Repo, a git.Address, service string) (Conversation, error) {
	switch {
	case a.Scheme == "http" || a.Scheme == "https":
		return d.dialHTTP(ctx, r, service)
	case a.Scheme == "ssh" && r.SSHProgram:
		return d.dialSSHProgram(ctx, r, a, service)
	case a.Scheme == "ssh":
		return d.dialSSH(ctx, r, a, service)
	}
	return d.dialFile(ctx, a, service)
}

func buffered(r io.Reader) *bufio.Reader { return bufio.NewReaderSize(r, 64<<10) }
