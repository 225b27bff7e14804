// Package storetest checks that drivers keep the contracts of package store.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
)

// Check returns all broken rules of store.Driver, or nil. Each call of open opens the same
// store, which is empty at first: as one process does after another, or next to it. Check
// closes what open returns, if it is an io.Closer.
func Check(ctx context.Context, open func() (store.Driver, error)) error {
	return check(ctx, open, "")
}

// check checks one rule, or all if only is empty.
func check(ctx context.Context, open func() (store.Driver, error), only string) error {
	one, err := open()
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	other, err := open()
	if err != nil {
		return errors.Join(fmt.Errorf("open a second time: %w", err), shut(one))
	}
	var broken []error
	for i, r := range driverRules {
		if only != "" && r.name != only {
			continue
		}
		p := pair{Driver: one, other: other, root: store.Key(fmt.Sprintf("rule%02d", i))}
		if err := r.check(ctx, p); err != nil {
			broken = append(broken, fmt.Errorf("%s: %w", r.name, err))
		}
	}
	return errors.Join(append(broken, shut(one), shut(other))...)
}

// pair is one store opened twice, and the part of it that belongs to one rule.
type pair struct {
	store.Driver
	other store.Driver
	root  store.Key
}

// key returns a key below the root of the rule; "" returns the root.
func (p pair) key(rest string) store.Key {
	return store.Key(strings.TrimSuffix(string(p.root)+"/"+rest, "/"))
}

// put creates documents with the given tag.
func (p pair) put(ctx context.Context, tag int64, keys ...string) error {
	for _, k := range keys {
		if err := p.Put(ctx, p.doc(k, tag), 0); err != nil {
			return fmt.Errorf("put %s: %w", k, err)
		}
	}
	return nil
}

// doc returns a document with something in every field.
func (p pair) doc(rest string, tag int64) store.Doc {
	at := time.UnixMilli(1_700_000_000_123).UTC()
	return store.Doc{
		Key: p.key(rest), UID: "9223372036854775807", Rev: tag + 1, Parent: p.key("parent"),
		Refs: []store.Key{p.key("r1"), p.key("r2")}, Claims: []store.Key{p.key("r3")},
		Body: []byte(`{"metadata":{"name":"ü"}}`), Secret: []byte{0, 1, 0xff, '\n'},
		Blobs: []store.Blob{
			{Name: "file", File: "a b.tgz", Digest: manifest.DigestOf([]byte("x")), Size: 1 << 40},
			{Name: "files", Digest: manifest.DigestOf(nil)},
		},
		Created: at, Updated: at.Add(time.Hour), Since: at.Add(2 * time.Hour),
		State: store.Deleting, Tag: tag,
	}
}

// keys lists keys, without the root of the rule.
func (p pair) keys(ctx context.Context, under string, q store.Query) ([]string, error) {
	var got []string
	for d, err := range p.List(ctx, p.key(under), q) {
		if err != nil {
			return got, err
		}
		got = append(got, strings.TrimPrefix(string(d.Key), string(p.root)+"/"))
	}
	return got, nil
}

// lists checks that a listing yields the keys wanted, in their order.
func (p pair) lists(ctx context.Context, under string, q store.Query, want ...string) error {
	got, err := p.keys(ctx, under, q)
	if err != nil {
		return fmt.Errorf("List(%q, %+v): %w", under, q, err)
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("List(%q, %+v) = %q, want %q", under, q, got, want)
	}
	return nil
}

// stored checks that both handles return the document.
func (p pair) stored(ctx context.Context, want store.Doc) error {
	for _, d := range []store.Driver{p.Driver, p.other} {
		got, err := d.Get(ctx, want.Key)
		if err != nil {
			return err
		}
		if !reflect.DeepEqual(got, want) {
			return fmt.Errorf("Get(%s) = %+v, want %+v", want.Key, got, want)
		}
	}
	return nil
}

// kind checks that err is of the kind.
func kind(call string, err error, want errs.Kind) error {
	if !errs.Is(err, want) {
		return fmt.Errorf("%s = %v, want an error of kind %s", call, err, want)
	}
	return nil
}

// first runs checks in order and returns the first error.
func first(checks ...func() error) error {
	for _, c := range checks {
		if err := c(); err != nil {
			return err
		}
	}
	return nil
}

func shut(v any) error {
	if c, ok := v.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
