package orchestrator

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// maxDryRunBytes bounds what one dry run may render.
const maxDryRunBytes = 256 << 20

// dryRunBlobs holds in memory what a dry run renders, and reads everything else from the
// AppContext.
type dryRunBlobs struct {
	contexts *appcontext.Store

	mu   sync.Mutex
	held map[appcontext.Digest][]byte // guarded by mu
	size int                          // of held, in bytes; guarded by mu
}

// PutBlobs keeps contents until the dry run ends.
func (m *dryRunBlobs) PutBlobs(_ context.Context, contents map[appcontext.Digest][]byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for d, content := range contents {
		if _, ok := m.held[d]; !ok {
			m.held[d], m.size = content, m.size+len(content)
		}
	}
	if m.size > maxDryRunBytes {
		return errs.New(errs.TooLarge, "the apps render to more than a dry run can hold (256 MiB)")
	}
	return nil
}

func (m *dryRunBlobs) blob(ctx context.Context, d appcontext.Digest) ([]byte, error) {
	m.mu.Lock()
	content, ok := m.held[d]
	m.mu.Unlock()
	if ok {
		return content, nil
	}
	return m.contexts.GetBlob(ctx, d)
}

func (m *dryRunBlobs) bundle(ctx context.Context, d appcontext.Digest) (b appcontext.Bundle, err error) {
	if d == "" {
		return b, nil
	}
	m.mu.Lock()
	text, ok := m.held[d]
	m.mu.Unlock()
	if !ok {
		return m.contexts.GetBundle(ctx, d)
	}
	return b, json.Unmarshal(text, &b)
}

// bundleItem is an object of a bundle.
type bundleItem struct {
	ref  appcontext.Ref
	hook string // its events, if it is a hook
	part bundlePart
}

// bundlePart is the part of a bundle that an object belongs to, in order of application.
type bundlePart uint8

const (
	crdPart bundlePart = iota
	objectPart
	hookPart
)

// itemKey identifies an object across bundles.
type itemKey struct {
	manifest.ObjectKey
	hook bool
}

func (t bundleItem) key() itemKey { return itemKey{t.ref.ID.Key(), t.part == hookPart} }

func bundleItems(b appcontext.Bundle) map[itemKey]bundleItem {
	out := map[itemKey]bundleItem{}
	for part, refs := range [][]appcontext.Ref{crdPart: b.CRDs, objectPart: b.Objects} {
		for _, ref := range refs {
			t := bundleItem{ref: ref, part: bundlePart(part)}
			out[t.key()] = t
		}
	}
	for _, h := range b.Hooks {
		t := bundleItem{ref: h.Ref, hook: strings.Join(h.Events, ","), part: hookPart}
		out[t.key()] = t
	}
	return out
}

// compare returns the change of each object, sorted in apply order.
func (m *dryRunBlobs) compare(ctx context.Context, c bundleChange) ([]v2.ObjectChange, error) {
	from, err := m.bundle(ctx, c.from)
	if err != nil {
		return nil, err
	}
	to, err := m.bundle(ctx, c.to)
	if err != nil {
		return nil, err
	}
	before, after := bundleItems(from), bundleItems(to)
	out := []v2.ObjectChange{}
	for _, t := range mergedItems(before, after) {
		old, was := before[t.key()]
		_, is := after[t.key()]
		change := v2.ObjectChange{
			GVK:  v2.GVK{Group: t.ref.Group, Version: t.ref.Version, Kind: t.ref.Kind},
			Name: t.ref.Name, Namespace: t.ref.Namespace, Hook: t.hook, Change: changeOf(old, t, was, is),
		}
		if err := m.addContents(ctx, &change, old, t); err != nil {
			return nil, err
		}
		out = append(out, change)
	}
	return out, nil
}

// mergedItems returns each item once, in its later version if it has one, in order of application.
func mergedItems(before, after map[itemKey]bundleItem) []bundleItem {
	var out []bundleItem
	for _, t := range after {
		out = append(out, t)
	}
	for key, t := range before {
		if _, stays := after[key]; !stays {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(a, b bundleItem) int {
		return cmp.Or(cmp.Compare(a.part, b.part), manifest.Compare(a.ref.ID, b.ref.ID))
	})
	return out
}

// changeOf returns the change of an item. CRDs stay on a cluster when an app no longer has
// them: objects of other apps may be of their kinds.
func changeOf(old, t bundleItem, was, is bool) string {
	switch {
	case !was:
		return v2.ChangeAdd
	case !is && manifest.IsCRD(t.ref.ID) && t.part != hookPart:
		return v2.ChangeKeep
	case !is:
		return v2.ChangeRemove
	case old.ref.Digest != t.ref.Digest || old.hook != t.hook:
		return v2.ChangeChange
	}
	return v2.ChangeKeep
}

// addContents adds the contents of an object that changes.
func (m *dryRunBlobs) addContents(ctx context.Context, c *v2.ObjectChange, old, t bundleItem) (err error) {
	switch c.Change {
	case v2.ChangeAdd:
		c.After, err = m.readable(ctx, t.ref)
	case v2.ChangeRemove:
		c.Before, err = m.readable(ctx, t.ref)
	case v2.ChangeChange:
		err = m.addBoth(ctx, c, old.ref, t.ref)
	}
	return err
}

func (m *dryRunBlobs) readable(ctx context.Context, ref appcontext.Ref) (json.RawMessage, error) {
	o, err := m.read(ctx, ref)
	if err != nil {
		return nil, err
	}
	text, err := manifest.Shown(o)
	return bytes.TrimSpace(text), err
}

func (m *dryRunBlobs) addBoth(ctx context.Context, c *v2.ObjectChange, old, ref appcontext.Ref) error {
	before, err1 := m.read(ctx, old)
	after, err2 := m.read(ctx, ref)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	was, is, err := manifest.Compared(before, after)
	c.Before, c.After = bytes.TrimSpace(was), bytes.TrimSpace(is)
	return err
}

func (m *dryRunBlobs) read(ctx context.Context, ref appcontext.Ref) (manifest.Object, error) {
	content, err := m.blob(ctx, ref.Digest)
	return manifest.Object{ID: ref.ID, Digest: ref.Digest, Content: content}, err
}
