package appcontext

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// Numbers in keys have a fixed width, so that keys sort as numbers do.
const numberWidth = 19

func number(n int64) string { return fmt.Sprintf("%0*d", numberWidth, n) }

func (s *Store) key(parts ...string) string { return s.prefix + strings.Join(parts, "/") }

func (s *Store) headKey(uid string) string           { return s.key("head", uid) }
func (s *Store) actKey(uid string, seq int64) string { return s.key("dep", uid, "act", number(seq)) }
func (s *Store) revKey(uid string, n int64) string   { return s.key("dep", uid, "rev", number(n)) }
func (s *Store) opKey(uid, id string) string         { return s.key("op", uid, id) }
func (s *Store) useKey(uid string) string            { return s.key("use", uid) }

func (s *Store) commitKey(uid string, n int64) string {
	return s.key("dep", uid, "commit", number(n))
}

// placeKey is the prefix of the placements of one try to publish revision n.
func (s *Store) placeKey(uid string, n int64, try string) string {
	return s.key("dep", uid, "place", number(n), try) + "/"
}

func (s *Store) blobKey(d Digest, chunk int) string {
	return s.key("blob", string(d), fmt.Sprintf("%04x", chunk))
}

// pairKey is the key of k in space, which is "pair" or "report".
func (s *Store) pairKey(space string, k PairKey) string { return s.key(space, k.Cluster, k.UID, k.App) }

// split returns the parts of a key below our prefix.
func (s *Store) split(key []byte) []string {
	return strings.Split(strings.TrimPrefix(string(key), s.prefix), "/")
}

func (s *Store) parsePairKey(key []byte) (PairKey, error) {
	p := s.split(key)
	if len(p) != 4 {
		return PairKey{}, corrupt(string(key), fmt.Errorf("the key has %d parts, not 4", len(p)))
	}
	return PairKey{Cluster: p[1], UID: p[2], App: p[3]}, nil
}

// checkParts refuses names that would not come back from a key as they went in.
func checkParts(parts ...string) error {
	for _, p := range parts {
		if p == "" || len(p) > 512 || strings.ContainsFunc(p, func(r rune) bool { return r == '/' || r < ' ' }) {
			return errs.E(errs.Invalid, "store", strconv.Quote(p), fmt.Errorf("a name must have 1 to 512 bytes and no slash or control character"))
		}
	}
	return nil
}
