package clusterhistory

import (
	"bytes"
	"compress/flate"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"time"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/bytelru"
)

// A fleet changes again and again, and its names stay. So the names of many clusters are a list of their own, which entries name by
// its digest.
const (
	listFrom  = 20   // clusters from which on an entry names a list
	maxListed = 2000 // clusters of a list: with long names, compressed badly, it fits into a value
)

// trustedFor is how long a process relies on a list that it has stored with an entry. Trim keeps the lists of all entries of that time, and of some
// more.
const trustedFor = time.Hour

// Lists keeps the lists that were used last in memory. It is safe for use by many goroutines.
type Lists struct {
	cache *bytelru.Cache[string, knownList] // by id
}

// knownList is a list in memory.
type knownList struct {
	clusters []v2.ClusterKey // shared: nobody changes them
	stored   time.Time       // when this process stored an entry that names it; zero: it has only read it
}

// NewLists returns an empty cache of some bytes.
func NewLists(size int) *Lists { return &Lists{bytelru.New[string, knownList](size)} }

// storedLately reports whether this process has stored an entry with the list lately.
func (l *Lists) storedLately(id string) bool {
	known, ok := l.cache.Get(id)
	return ok && time.Since(known.stored) < trustedFor
}

// noteStored notes that an entry with the list was stored just now.
func (l *Lists) noteStored(n list) {
	l.cache.Remove(n.id)
	l.cache.Put(n.id, knownList{n.clusters, time.Now()}, len(n.text))
}

// list is the names of clusters, sorted.
type list struct {
	id       string // the first half of the SHA-256 of text, in hexadecimal
	clusters []v2.ClusterKey
	text     string // the names by line
}

func newList(clusters []v2.ClusterKey) list {
	var text strings.Builder
	for _, c := range clusters {
		text.WriteString(string(c))
		text.WriteByte('\n')
	}
	sum := sha256.Sum256([]byte(text.String()))
	return list{hex.EncodeToString(sum[:16]), clusters, text.String()}
}

// pack compresses the names.
func (n list) pack() []byte {
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, flate.BestSpeed)
	if err != nil {
		panic(err) // the level is a constant
	}
	_, _ = io.WriteString(w, n.text) // a Buffer takes all
	_ = w.Close()
	return out.Bytes()
}

// list returns the clusters of a stored list.
func (s *Store) list(ctx context.Context, id string) ([]v2.ClusterKey, error) {
	known, ok := s.lists.cache.Get(id)
	if ok {
		return known.clusters, nil
	}
	key := s.kv.Key(listSpace, id)
	r, err := s.kv.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	if len(r.Kvs) == 0 {
		return nil, etcdkv.Corrupt(key, errors.New("the list is missing"))
	}
	text, err := io.ReadAll(flate.NewReader(bytes.NewReader(r.Kvs[0].Value)))
	if err != nil {
		return nil, etcdkv.Corrupt(key, err)
	}
	for name := range strings.Lines(string(text)) {
		known.clusters = append(known.clusters, v2.ClusterKey(strings.TrimSuffix(name, "\n")))
	}
	s.lists.cache.Put(id, known, len(text))
	return known.clusters, nil
}
