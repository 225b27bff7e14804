package etcdkv

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// Key joins parts to a key below the prefix.
func (c *Client) Key(parts ...string) string { return c.prefix + strings.Join(parts, "/") }

// Split returns the parts of a key below the prefix.
func (c *Client) Split(key []byte) []string {
	return strings.Split(strings.TrimPrefix(string(key), c.prefix), "/")
}

// Number returns n as a part of a key. It has a fixed width, so that keys sort as numbers
// do.
func Number(n int64) string { return fmt.Sprintf("%019d", n) }

// CheckParts refuses names that would not come back from a key as they went in.
func CheckParts(parts ...string) error {
	for _, p := range parts {
		if p == "" || len(p) > 512 || strings.ContainsFunc(p, func(r rune) bool { return r == '/' || r < ' ' }) {
			return errs.E(errs.Invalid, "store", strconv.Quote(p), fmt.Errorf("a name must have 1 to 512 bytes and no slash or control character"))
		}
	}
	return nil
}

// Encode returns v as the value of key, or TooLarge.
func Encode[T any](key string, v T) (string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return "", errs.E(errs.Internal, "encode", key, err)
	}
	if len(text) > MaxValue {
		return "", errs.E(errs.TooLarge, "store", key, fmt.Errorf("%d bytes are above the limit of %d", len(text), MaxValue))
	}
	return string(text), nil
}

// Decode reads a value that Encode wrote.
func Decode[T any](kv *mvccpb.KeyValue) (T, error) {
	var v T
	if err := json.Unmarshal(kv.Value, &v); err != nil {
		return v, Corrupt(string(kv.Key), err)
	}
	return v, nil
}

// Records parses key-value pairs; it ends at the first error.
func Records[T any](kvs iter.Seq2[*mvccpb.KeyValue, error], parse func(*mvccpb.KeyValue) (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for kv, err := range kvs {
			var v T
			if err == nil {
				v, err = parse(kv)
			}
			if !yield(v, err) || err != nil {
				return
			}
		}
	}
}

// Failed returns a sequence that yields an error and ends.
func Failed[T any](err error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) { yield(*new(T), err) }
}

// Corrupt returns the error for a value of subject that cannot be read.
func Corrupt(subject string, err error) error {
	return errs.E(errs.Internal, "read", subject, err)
}

// NotFound returns the error for a subject without a value.
func NotFound(subject string) error {
	return errs.E(errs.NotFound, "read", subject, errors.New("not found"))
}
