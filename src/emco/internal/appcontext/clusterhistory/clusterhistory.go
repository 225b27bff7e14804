// Package clusterhistory stores what clusters held, and when: an entry for each change of what is applied, however many clusters
// changed alike. Entries are written before the pairs say that the change is applied, so a crash leaves an entry too many and never one too
// few: readers drop an entry that says what the one before it says (Fold). The package stores no content: an entry names
// the revision and the commit.
package clusterhistory

import (
	"bytes"
	"cmp"
	"compress/flate"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/pairstore"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

const space = "clusterhistory"

// Bounds of what is kept of a deployment: Trim removes the oldest entries. An entry counts as one, and one more for each 50
// clusters, so that a deployment takes half a MiB at most, about.
const (
	maxKept         = 1000
	clustersPerUnit = 50
)

// maxClusters is the number of clusters in one entry: with long names, compressed badly, it fits into a value.
const maxClusters = 2000

// Entry is a change of what clusters hold of a deployment.
type Entry struct {
	Deployment v2.DeploymentID
	At         time.Time
	Document   string          // key of the document that the deployment belonged to
	Apps       []AppChange     // in order of name
	Clusters   []v2.ClusterKey // on which all these apps changed, sorted
}

// AppChange is what became of an app.
type AppChange struct {
	App    string           `json:"app"`
	Change pairstore.Change `json:"change"`           // what it was; Remove: the app is gone
	Rev    int64            `json:"rev,omitempty"`    // the revision that is applied; 0 after a removal
	Bundle manifest.Digest  `json:"bundle,omitempty"` // the content of the revision that is applied
	Commit string           `json:"commit,omitempty"` // that carries it; empty for direct clusters
}

// storedEntry is an Entry as etcd holds it.
type storedEntry struct {
	Document string          `json:"subject,omitempty"`
	Apps     []AppChange     `json:"apps"`
	Clusters []v2.ClusterKey `json:"clusters,omitempty"`
	Packed   []byte          `json:"packed,omitempty"` // of many clusters: their names by line, compressed
}

// packFrom is from how many clusters on their names are compressed.
const packFrom = 20

// Store stores entries. It is safe for use by many goroutines.
type Store struct{ kv *etcdkv.Client }

// New returns the entries below the client's prefix.
func New(kv *etcdkv.Client) *Store { return &Store{kv} }

// AddClusterHistory stores entries, in as few transactions as possible.
func (s *Store) AddClusterHistory(ctx context.Context, entries ...Entry) error {
	b := s.kv.NewBatch(space)
	for _, e := range entries {
		for clusters := range slices.Chunk(e.Clusters, maxClusters) {
			e.Clusters = clusters
			key, text, err := s.encode(e)
			if err != nil {
				return err
			}
			if err := b.Add(ctx, clientv3.OpPut(key, text)); err != nil {
				return err
			}
		}
	}
	return b.Flush(ctx)
}

// encode returns the key of an entry, which sorts by time below its deployment and has the number of clusters for Trim, and its value.
func (s *Store) encode(e Entry) (key, text string, err error) {
	if err := etcdkv.CheckParts(string(e.Deployment)); err != nil {
		return "", "", err
	}
	key = s.kv.Key(space, string(e.Deployment), fmt.Sprintf("%s-%d-%s", etcdkv.Number(e.At.UnixNano()), len(e.Clusters), rand.Text()[:6]))
	stored := storedEntry{Document: e.Document, Apps: e.Apps, Clusters: e.Clusters}
	if len(e.Clusters) >= packFrom {
		stored.Clusters, stored.Packed = nil, pack(e.Clusters)
	}
	text, err = etcdkv.Encode(key, stored)
	return key, text, err
}

// ClusterHistory yields the entries of a deployment, the oldest first; of all deployments, one after the other, if id is empty. It ends at the first error.
func (s *Store) ClusterHistory(ctx context.Context, id v2.DeploymentID) iter.Seq2[Entry, error] {
	prefix := s.kv.Key(space) + "/"
	if id != "" {
		if err := etcdkv.CheckParts(string(id)); err != nil {
			return etcdkv.Failed[Entry](err)
		}
		prefix = s.kv.Key(space, string(id)) + "/"
	}
	return etcdkv.Records(s.kv.List(ctx, etcdkv.Scan{Prefix: prefix}), s.decode)
}

func (s *Store) decode(kv *mvccpb.KeyValue) (Entry, error) {
	k, err := s.parseKey(kv.Key)
	if err != nil {
		return Entry{}, err
	}
	stored, err := etcdkv.Decode[storedEntry](kv)
	e := Entry{Deployment: k.deployment, At: k.at, Document: stored.Document, Apps: stored.Apps, Clusters: stored.Clusters}
	if err == nil && stored.Packed != nil {
		if e.Clusters, err = unpack(stored.Packed); err != nil {
			err = etcdkv.Corrupt(string(kv.Key), err)
		}
	}
	return e, err
}

// entryKey is what the key of an entry tells.
type entryKey struct {
	deployment v2.DeploymentID
	at         time.Time
	clusters   int
}

func (s *Store) parseKey(key []byte) (entryKey, error) {
	parts := s.kv.Split(key)
	if len(parts) == 3 {
		name := strings.Split(parts[2], "-")
		if len(name) == 3 {
			at, atErr := strconv.ParseInt(name[0], 10, 64)
			n, nErr := strconv.Atoi(name[1])
			if err := errors.Join(atErr, nErr); err == nil {
				return entryKey{v2.DeploymentID(parts[1]), time.Unix(0, at).UTC(), n}, nil
			}
		}
	}
	return entryKey{}, etcdkv.Corrupt(string(key), errors.New("it is no key of an entry of the history of clusters"))
}

// TrimClusterHistory removes the oldest entries of each deployment beyond what is kept, and all entries of a deployment that does not
// exist any longer, if all are from before a time.
func (s *Store) TrimClusterHistory(ctx context.Context, exists func(v2.DeploymentID) bool, before time.Time) error {
	b := s.kv.NewBatch(space)
	var keys []string // of one deployment, the oldest first
	var parsed []entryKey
	trim := func() error {
		for _, key := range keys[:removable(parsed, exists, before)] {
			if err := b.Add(ctx, clientv3.OpDelete(key)); err != nil {
				return err
			}
		}
		keys, parsed = nil, nil
		return nil
	}
	for kv, err := range s.kv.List(ctx, etcdkv.Scan{Prefix: s.kv.Key(space) + "/", KeysOnly: true}) {
		if err != nil {
			return err
		}
		k, err := s.parseKey(kv.Key)
		if err != nil {
			return err
		}
		if len(parsed) > 0 && parsed[0].deployment != k.deployment {
			if err := trim(); err != nil {
				return err
			}
		}
		keys, parsed = append(keys, string(kv.Key)), append(parsed, k)
	}
	if err := trim(); err != nil {
		return err
	}
	return b.Flush(ctx)
}

// removable returns how many of a deployment's entries, from the oldest, need not be kept.
func removable(entries []entryKey, exists func(v2.DeploymentID) bool, before time.Time) int {
	if len(entries) == 0 {
		return 0
	}
	if last := entries[len(entries)-1]; !exists(last.deployment) && last.at.Before(before) {
		return len(entries)
	}
	kept := 0
	for i, e := range slices.Backward(entries) {
		if kept += 1 + e.clusters/clustersPerUnit; kept > maxKept {
			return i + 1
		}
	}
	return 0
}

// Interval is a time during which an app on a cluster held the same content.
type Interval struct {
	Cluster    v2.ClusterKey
	Deployment v2.DeploymentID
	Document   string
	AppChange
	From time.Time
	To   time.Time // zero: it holds it still
}

// Fold returns the intervals of a deployment's entries, which are given oldest first, for the places that want picks: those of one place follow each other, the oldest
// first. An entry that says what the one before it says began no interval.
func Fold(entries []Entry, want func(cluster v2.ClusterKey, app string) bool) []Interval {
	type place struct {
		cluster v2.ClusterKey
		app     string
	}
	at := map[place][]Interval{}
	for _, e := range slices.SortedStableFunc(slices.Values(entries), func(a, b Entry) int { return a.At.Compare(b.At) }) {
		for _, c := range e.Clusters {
			for _, a := range e.Apps {
				if !want(c, a.App) {
					continue
				}
				p := place{c, a.App}
				all := at[p]
				if last := len(all) - 1; last >= 0 && all[last].To.IsZero() {
					if all[last].Bundle == a.Bundle && a.Change != pairstore.Remove {
						continue
					}
					all[last].To = e.At
				}
				if a.Change != pairstore.Remove {
					all = append(all, Interval{c, e.Deployment, e.Document, a, e.At, time.Time{}})
				}
				at[p] = all
			}
		}
	}
	var out []Interval
	for _, all := range at {
		out = append(out, all...)
	}
	slices.SortFunc(out, func(a, b Interval) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.App, b.App), a.From.Compare(b.From))
	})
	return out
}

// pack compresses names.
func pack(clusters []v2.ClusterKey) []byte {
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, flate.BestSpeed)
	if err != nil {
		panic(err) // the level is a constant
	}
	for _, c := range clusters {
		_, _ = io.WriteString(w, string(c)+"\n") // a Buffer takes all
	}
	_ = w.Close()
	return out.Bytes()
}

func unpack(packed []byte) (clusters []v2.ClusterKey, err error) {
	text, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(packed)), maxClusters*520))
	for name := range strings.Lines(string(text)) {
		clusters = append(clusters, v2.ClusterKey(strings.TrimSuffix(name, "\n")))
	}
	return clusters, err
}
