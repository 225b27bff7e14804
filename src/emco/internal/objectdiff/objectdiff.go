// Package objectdiff compares the objects of two bundles; one of them may exist in memory alone:
// what a dry run has rendered.
package objectdiff

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

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

// itemKey identifies an object across bundles: an object that becomes a hook is another one.
type itemKey struct {
	manifest.ObjectKey
	hook bool
}

func (t bundleItem) key() itemKey { return itemKey{t.ref.ID.Key(), t.part == hookPart} }

func itemsOf(b appcontext.Bundle) map[itemKey]bundleItem {
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

// Compare returns the change of each object from one bundle to another, with the contents of those
// that change, in order of application. Either digest may be empty: no objects.
func (o *Overlay) Compare(ctx context.Context, from, to appcontext.Digest) ([]v2.ObjectChange, error) {
	old, err := o.GetBundle(ctx, from)
	if err != nil {
		return nil, err
	}
	next, err := o.GetBundle(ctx, to)
	if err != nil {
		return nil, err
	}
	before, after := itemsOf(old), itemsOf(next)
	items := make([]bundleItem, 0, len(after)) // each object once, in its later version if it has one
	for _, t := range after {
		items = append(items, t)
	}
	for key, t := range before {
		if _, stays := after[key]; !stays {
			items = append(items, t)
		}
	}
	slices.SortFunc(items, func(a, b bundleItem) int {
		return cmp.Or(cmp.Compare(a.part, b.part), manifest.Compare(a.ref.ID, b.ref.ID))
	})
	out := []v2.ObjectChange{}
	for _, t := range items {
		was, existed := before[t.key()]
		_, stays := after[t.key()]
		c := v2.ObjectChange{
			GVK:  v2.GVK{Group: t.ref.Group, Version: t.ref.Version, Kind: t.ref.Kind},
			Name: t.ref.Name, Namespace: t.ref.Namespace, Hook: t.hook,
		}
		switch {
		case !existed:
			c.Change = v2.ChangeAdd
			c.After, err = o.shown(ctx, t.ref)
		case !stays && manifest.IsCRD(t.ref.ID) && t.part != hookPart:
			c.Change = v2.ChangeKeep // definitions stay on a cluster: objects of other apps may be of their kinds
		case !stays:
			c.Change = v2.ChangeRemove
			c.Before, err = o.shown(ctx, t.ref)
		case was.ref.Digest != t.ref.Digest || was.hook != t.hook:
			c.Change = v2.ChangeChange
			c.Before, c.After, err = o.compared(ctx, was.ref, t.ref)
		default:
			c.Change = v2.ChangeKeep
		}
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// shown returns an object as people may see it.
func (o *Overlay) shown(ctx context.Context, ref appcontext.Ref) (json.RawMessage, error) {
	object, err := o.object(ctx, ref)
	if err != nil {
		return nil, err
	}
	text, err := manifest.Shown(object)
	return bytes.TrimSpace(text), err
}

// compared returns two versions of an object as people may see them.
func (o *Overlay) compared(ctx context.Context, from, to appcontext.Ref) (before, after json.RawMessage, err error) {
	old, err := o.object(ctx, from)
	if err != nil {
		return nil, nil, err
	}
	next, err := o.object(ctx, to)
	if err != nil {
		return nil, nil, err
	}
	was, is, err := manifest.Compared(old, next)
	return bytes.TrimSpace(was), bytes.TrimSpace(is), err
}
