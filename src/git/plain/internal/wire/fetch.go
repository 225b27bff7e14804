package wire

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"

	"github.com/emco-orchestrator/emco/src/git/plain/internal/pack"
)

// FetchRequest is a request to upload-pack.
type FetchRequest struct {
	Want    []plumbing.Hash
	Have    []plumbing.Hash // commits whose trees we hold, without their history
	Shallow bool            // just the wanted commits, not their history
	NoBlobs bool            // if the server can filter

	MaxBlob     int64 // leave out larger files, if the server can filter; 0 for no limit
	CommitsOnly bool  // if the server can filter
	Depth       int   // so many commits of history, if not 0
}

// filter is the object filter of the request, "" without one.
func (q FetchRequest) filter() string {
	switch {
	case q.CommitsOnly:
		return "tree:0"
	case q.NoBlobs:
		return "blob:none"
	case q.MaxBlob > 0:
		return fmt.Sprintf("blob:limit=%d", q.MaxBlob+1) // Git leaves out what has at least that
	}
	return ""
}

// deepen is how many commits of history are requested, 0 for all.
func (q FetchRequest) deepen() int {
	if q.Shallow {
		return 1
	}
	return q.Depth
}

// body returns the request: wants with capabilities, where our history is cut, the depth, the
// filter, a flush, the haves and "done".
func (q FetchRequest) body(c *Conn) (body *bytes.Buffer, deepened bool) {
	body = &bytes.Buffer{}
	line := pktline.NewEncoder(body)
	caps := q.capabilities(c)
	for _, id := range q.Want {
		_ = line.Encodef("want %s%s\n", id, caps)
		caps = ""
	}
	deepened = q.deepen() > 0 && c.Has(capability.Shallow)
	if deepened {
		for _, id := range q.Have {
			if !q.CommitsOnly { // a log needs nothing from before these commits
				_ = line.Encodef("shallow %s\n", id)
			}
		}
		_ = line.Encodef("deepen %d\n", q.deepen())
	}
	if f := q.filter(); f != "" && c.Has(capability.Filter) {
		_ = line.Encodef("filter %s\n", f)
	}
	_ = line.Flush()
	for _, id := range q.Have {
		_ = line.Encodef("have %s\n", id)
	}
	_ = line.EncodeString("done\n")
	return body, deepened
}

func (q FetchRequest) capabilities(c *Conn) string {
	caps := " " + agentCapability
	for _, name := range []capability.Capability{
		capability.MultiACKDetailed, capability.Sideband64k, capability.NoProgress,
	} {
		if c.Has(name) {
			caps += " " + name.String()
		}
	}
	if len(q.Have) > 0 && !q.CommitsOnly && c.Has(capability.ThinPack) {
		caps += " " + capability.ThinPack.String() // else the server sends trees that we have
	}
	if q.filter() != "" && c.Has(capability.Filter) {
		caps += " " + capability.Filter.String()
	}
	return caps
}

// Fetch sends a request and reads the pack of the reply. Limits of p that are zero default to those
// of the client. It returns how many deltas lack their base.
func (c *Conn) Fetch(ctx context.Context, q FetchRequest, p *pack.Reader) (unresolved int, err error) {
	body, deepened := q.body(c)
	reply, err := c.conversation.Exchange(ctx, bytes.NewReader(body.Bytes()), int64(body.Len()))
	if c.outdated(err) {
		fresh, err := c.client.Open(ctx, c.repo, c.service)
		if err != nil {
			return 0, err
		}
		*c = *fresh
		return c.Fetch(ctx, q, p)
	}
	if err != nil {
		return 0, err
	}
	p.MaxObject, p.MaxBytes = cmp.Or(p.MaxObject, c.client.MaxBlob), cmp.Or(p.MaxBytes, c.client.MaxFetch)
	in := &limitedReader{r: reply, limit: min(c.client.MaxFetch, p.MaxBytes)}
	defer func() { c.client.received.Add(uint64(in.n)) }()
	c.client.fetches.Add(1)
	r := bufio.NewReaderSize(in, 64<<10)
	if deepened {
		err = shallowLines(r)
	}
	if err == nil {
		err = ackLines(r)
	}
	if err != nil {
		return 0, c.conversation.Explain(said(err))
	}
	if !c.Has(capability.Sideband64k) {
		return p.Read(r)
	}
	band := newSideband(r)
	if unresolved, err = p.Read(band); err != nil {
		return 0, said(err)
	}
	_, err = io.Copy(io.Discard, band) // to the flush at the end
	return unresolved, said(err)
}
