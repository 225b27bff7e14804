package v2

import (
	"encoding/json"
	"fmt"
	"sort"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// MaxKVValue is the longest value of a key-value pair, in characters; certificates
// and long tokens must fit.
const MaxKVValue = 8192

// maxKVKey is the longest key.
const maxKVKey = 256

// KV is a list of key-value pairs of a cluster.
type KV struct {
	Named
	Spec KVSpec `json:"spec"` // key-value pairs
}

// SyncObject holds what is needed to deliver through Git: coordinates, credentials,
// intervals. Answers show *** for secret values.
type SyncObject struct {
	Named
	Spec KVSpec `json:"spec"` // key-value pairs
}

// KVSpec is the pairs as the client grouped them into maps; most documents have one
// key in each map.
type KVSpec struct {
	KV []map[string]Scalar `json:"kv"` // the pairs; of a key that stands in several maps the first counts
}

// Scalar is a string that may be given as a JSON number or boolean, too.
type Scalar string

// UnmarshalJSON reads a string, number or boolean; all else is Invalid, as upstream's
// schema has it (400).
func (s *Scalar) UnmarshalJSON(b []byte) error {
	switch {
	case len(b) > 0 && b[0] == '"':
		var text string
		if err := json.Unmarshal(b, &text); err != nil {
			return err
		}
		*s = Scalar(text)
	case len(b) == 0 || strings.ContainsRune("{[n", rune(b[0])):
		return errs.New(errs.Invalid, "Invalid Input:\n- spec.kv: a value is neither a string nor a number nor a boolean")
	default:
		*s = Scalar(b)
	}
	return nil
}

// Merged returns all pairs in one map; the first map that has a key wins, as in
// lookups by ?key=.
func (s KVSpec) Merged() map[string]string {
	all := map[string]string{}
	for _, pairs := range s.KV {
		for key, value := range pairs {
			if _, ok := all[key]; !ok {
				all[key] = string(value)
			}
		}
	}
	return all
}

// Strings returns the maps with plain strings.
func (s KVSpec) Strings() []map[string]string {
	all := make([]map[string]string, 0, len(s.KV))
	for _, pairs := range s.KV {
		plain := make(map[string]string, len(pairs))
		for key, value := range pairs {
			plain[key] = string(value)
		}
		all = append(all, plain)
	}
	return all
}

// Lookup returns the value of the first map that has key.
func (s KVSpec) Lookup(key string) (value string, ok bool) {
	for _, pairs := range s.KV {
		if v, found := pairs[key]; found {
			return string(v), true
		}
	}
	return "", false
}

func (s KVSpec) check(c *violationList) {
	if s.KV == nil {
		c.fail("spec.kv", "missing; give a list of maps")
	}
	s.each(func(at, key, value string) {
		if key == "" || len(key) > maxKVKey {
			c.fail(at, "a key has 1 to %d characters", maxKVKey)
		}
		c.text(at, value, MaxKVValue)
	})
}

// each visits all pairs in a stable order. at is the path of the pair, fit for
// messages.
func (s KVSpec) each(visit func(at, key, value string)) {
	for i, pairs := range s.KV {
		for _, key := range sortedKeys(pairs) {
			visit(join(fmt.Sprintf("spec.kv[%d]", i), key), key, string(pairs[key]))
		}
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}

// Validate checks metadata and pairs; spec.kv is mandatory.
func (k *KV) Validate() error {
	c := begin(&k.Named)
	k.Spec.check(c)
	return c.err()
}
