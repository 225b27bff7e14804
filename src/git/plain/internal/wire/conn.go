// Package wire speaks Git's protocol, version 0, with the services of a server: an advertisement of
// branches and capabilities, then a request for a pack, or a push. It remembers what services announced, and heads that were just
// read (known.go).
package wire

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/plain/internal/dial"
	"github.com/emco-orchestrator/emco/src/git/transport"
)

const (
	agentCapability = "agent=emco"
	headsPrefix     = "refs/heads/" // the name space of branches
	maxAdvert       = 128 << 20     // bytes of an advertisement: two million refs
	maxReport       = 1 << 20       // bytes of a status report with messages
)

// Client opens conversations. The fields do not change after first use.
type Client struct {
	Dialer   dial.Dialer
	File     bool       // file:// URLs are allowed
	Budget   git.Budget // pays for conversations as reads
	MaxFetch int64      // bytes that one fetch may bring, packed or unpacked
	MaxBlob  int64      // bytes of one object
	Log      *slog.Logger

	announced announced
	heads     recentHeads

	adverts, fetches, pushes, sent, received atomic.Uint64
}

// Stats counts what a Client did.
type Stats struct {
	Adverts  uint64 // advertisements that were asked for
	Fetches  uint64 // packs received
	Pushes   uint64 // packs sent
	Sent     uint64 // bytes of packs sent
	Received uint64 // bytes of packs received
}

// Stats returns the counters.
func (c *Client) Stats() Stats {
	return Stats{
		Adverts: c.adverts.Load(), Fetches: c.fetches.Load(), Pushes: c.pushes.Load(),
		Sent: c.sent.Load(), Received: c.received.Load(),
	}
}

// Open dials a service of a repository's server and reads the advertisement.
func (c *Client) Open(ctx context.Context, r git.Repo, name string) (*Conn, error) {
	if err := git.CheckURL(r.URL, c.File); err != nil {
		return nil, err
	}
	a, err := git.ParseURL(r.URL)
	if err != nil {
		return nil, err
	}
	of := service{r, name}
	if err := c.pay(ctx, of); err != nil {
		return nil, err
	}
	c.adverts.Add(1)
	s, err := c.Dialer.Dial(ctx, r, a, name)
	if err != nil {
		return nil, c.observe(r, transport.Fail(ctx, r, name, err))
	}
	refs, err := readAdvert(s.Advert())
	if err != nil {
		err = s.Explain(said(err))
		s.Close(false)
		return nil, transport.Fail(ctx, r, name, err)
	}
	if formats := refs.Capabilities.Get("object-format"); len(formats) > 0 && formats[0] != "sha1" {
		s.Close(true)
		return nil, errs.E(errs.Invalid, name, r.URL, errors.New("only repositories with SHA-1 object names are supported"))
	}
	if s.Endpoint() != "" {
		c.announced.add(of, announcement{s.Endpoint(), refs.Capabilities, time.Now().Add(announcedFor)})
	}
	return &Conn{client: c, conversation: s, refs: refs, repo: r, service: name}, nil
}

// pay spends a read from the budget.
func (c *Client) pay(ctx context.Context, s service) error {
	if err := c.Budget.Spend(ctx, s.repo, git.Cost{Reads: 1}); err != nil {
		return transport.Fail(ctx, s.repo, s.name, err)
	}
	return nil
}

// observe records in the budget when a server asks for a pause.
func (c *Client) observe(r git.Repo, err error) error {
	if wait := errs.RetryAfter(err); wait > 0 {
		c.Budget.Observe(r, git.RateStatus{Until: time.Now().Add(wait)})
	}
	return err
}

// Head returns the commit that a branch points at.
func (c *Client) Head(ctx context.Context, r git.Repo, branch string) (plumbing.Hash, error) {
	conn, err := c.Open(ctx, r, dial.UploadPack)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	defer conn.Close(true)
	id, ok := conn.Branch(branch)
	if !ok {
		return plumbing.ZeroHash, errs.E(errs.NotFound, "head", r.URL, errors.New("no branch "+branch))
	}
	c.heads.add(r, branch, id)
	return id, nil
}

// Moved reports whether a branch is known to be at another commit than id, zero if it must not
// exist.
func (c *Client) Moved(ctx context.Context, r git.Repo, branch string, id plumbing.Hash) bool {
	at, err := c.Head(ctx, r, branch)
	switch {
	case errs.Is(err, errs.NotFound):
		return !id.IsZero()
	case err != nil:
		return false
	}
	return at != id
}

// Conn is a conversation with a service whose capabilities are known.
type Conn struct {
	client       *Client
	conversation dial.Conversation
	refs         *packp.AdvRefs
	repo         git.Repo
	service      string
	withoutRefs  bool // refs has capabilities, but no branches
}

// Has reports whether the server has a capability.
func (c *Conn) Has(name capability.Capability) bool { return c.refs.Capabilities.Supports(name) }

// Branch returns the advertised head of a branch.
func (c *Conn) Branch(name string) (plumbing.Hash, bool) {
	id, ok := c.refs.References[headsPrefix+name]
	return id, ok
}

// Branches returns the names of the advertised branches that start with prefix, in order.
func (c *Conn) Branches(prefix string) []string {
	var names []string
	for ref := range c.refs.References {
		if name, ok := strings.CutPrefix(ref, headsPrefix); ok && strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Again prepares another request in this conversation, and reports whether that is possible.
func (c *Conn) Again(ctx context.Context) (bool, error) {
	if c.conversation.Endpoint() == "" {
		return false, nil
	}
	return true, c.client.Budget.Spend(ctx, c.repo, git.Cost{Reads: 1})
}

// Close ends the conversation. clean means that the last reply was read to its end.
func (c *Conn) Close(clean bool) { c.conversation.Close(clean) }
