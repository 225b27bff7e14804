package wire

import (
	"context"
	"sync"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/plain/internal/dial"
)

const (
	announcedFor = 10 * time.Minute // capabilities change with the version of a server
	maxAnnounced = 512              // services whose capabilities are remembered
	headReadFor  = 5 * time.Second  // a push that follows the read of a head comes within this time
	maxHeads     = 512              // heads that are remembered
)

// service is a service of the server of a repository. Credentials are part of the repository: a server may offer each
// of them something else.
type service struct {
	repo git.Repo
	name string
}

// announced holds the capabilities that servers announced, so that a conversation that needs no advertised branches can
// begin with its request. An advertisement names all branches, and costs a request. The zero value is ready for use.
type announced struct {
	mu    sync.Mutex
	known map[service]announcement // guarded by mu
}

type announcement struct {
	endpoint     string // see dial.Conversation
	capabilities *capability.List
	until        time.Time
}

func (a *announced) add(s service, n announcement) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.known == nil || len(a.known) >= maxAnnounced {
		a.known = map[service]announcement{}
	}
	a.known[s] = n
}

func (a *announced) get(s service) (announcement, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n, ok := a.known[s]
	return n, ok && time.Now().Before(n.until)
}

func (a *announced) forget(s service) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.known, s)
}

// OpenWithoutRefs returns a conversation for a request that names all that it wants. Where the transport and an earlier
// conversation allow it, nothing was sent for it yet, and it knows no branches.
func (c *Client) OpenWithoutRefs(ctx context.Context, r git.Repo, name string) (*Conn, error) {
	of := service{r, name}
	n, ok := c.announced.get(of)
	if !ok {
		return c.Open(ctx, r, name)
	}
	if name == dial.UploadPack { // a push pays by its guard
		if err := c.pay(ctx, of); err != nil {
			return nil, err
		}
	}
	s, err := c.Dialer.Resume(r, n.endpoint, name)
	if err != nil {
		return nil, err
	}
	refs := packp.NewAdvRefs()
	refs.Capabilities = n.capabilities
	return &Conn{client: c, conversation: s, refs: refs, repo: r, service: name, withoutRefs: true}, nil
}

// outdated reports whether a request failed because the server has moved since its capabilities were read, and forgets
// them after any failure.
func (c *Conn) outdated(err error) bool {
	if err == nil || !c.withoutRefs {
		return false
	}
	c.client.announced.forget(service{c.repo, c.service})
	return errs.Is(err, errs.NotFound)
}

// recentHeads holds heads of branches that were just read. A push on top of one needs no other look at the branch: after a
// lost race each request less makes the next loss less likely. The zero value is ready for use.
type recentHeads struct {
	mu   sync.Mutex
	read map[branchOf]readHead // guarded by mu
}

type branchOf struct {
	repo   git.Repo
	branch string
}

type readHead struct {
	head  plumbing.Hash
	until time.Time
}

func (h *recentHeads) add(r git.Repo, branch string, head plumbing.Hash) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.read == nil || len(h.read) >= maxHeads {
		h.read = map[branchOf]readHead{}
	}
	h.read[branchOf{r, branch}] = readHead{head, time.Now().Add(headReadFor)}
}

// take reports whether the branches of updates were just read and are where the updates expect them. It forgets them: the
// push moves them.
func (h *recentHeads) take(r git.Repo, updates []RefUpdate) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	fresh := true
	for _, u := range updates {
		of := branchOf{r, u.Branch}
		at, ok := h.read[of]
		fresh = fresh && ok && at.head == u.From && time.Now().Before(at.until)
		delete(h.read, of)
	}
	return fresh
}
