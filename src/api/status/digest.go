package status

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// Digest names what a report says, whenever it says so: equal reports with other
// sequences, at other times, have the same. A receiver tells it to the agent, which may
// say later that all is still the same. Names are compared with those that the same side
// made before: those of two versions of this package may differ.
func Digest(r Report) string {
	p := page(make([]byte, 0, 1024))
	p.texts(r.Schema, r.Cluster, r.Agent)
	p.numbers(r.Truncated, len(r.Apps), len(r.Unseen))
	for _, a := range r.Apps {
		p.texts(a.Label, a.Commit, a.Error)
		p.numbers(a.Truncated, len(a.Objects))
		for _, o := range a.Objects {
			p.object(o)
		}
	}
	for _, u := range r.Unseen {
		p.texts(u.Group, u.Kind, u.Reason)
	}
	sum := sha256.Sum256(p)
	return hex.EncodeToString(sum[:16])
}

// page is what is said in a form in which no two things look alike: each text comes after
// its length, and what follows what is always the same.
type page []byte

func (p *page) texts(all ...string) {
	for _, text := range all {
		*p = append(binary.AppendUvarint(*p, uint64(len(text))), text...)
	}
}

func (p *page) numbers(all ...int) {
	for _, n := range all {
		*p = binary.AppendVarint(*p, int64(n))
	}
}

func (p *page) object(o Object) {
	p.texts(o.Group, o.Version, o.Kind, o.Namespace, o.Name, o.Status, o.Reason, o.Content)
	unread := 0
	if o.Unread {
		unread = 1
	}
	p.numbers(unread)
}
