// Package clusterhistory stores what clusters held, and when: an entry for each change of what is applied, however many clusters
// changed alike. Entries are written before the pairs say that the change is applied, so a crash leaves an entry too many and never one too
// few: readers drop an entry that says what the one before it says (Fold). The package stores no content: an entry names
// the revision and the commit.
package clusterhistory

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/pairstore"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

// The first parts of keys.
const (
	entrySpace = "clusterhistory"
	listSpace  = "clusterlist"
)

// Bounds of what is kept of a deployment: Trim removes the oldest entries. An entry counts as one, and its list of clusters, once for
// all entries that name it, as one more for each 50 clusters, so that a deployment takes half a MiB, about.
const (
	maxKept         = 1000
	clustersPerUnit = 50
)

// Entry is a change of what clusters hold of a deployment.
type Entry struct {
	Deployment v2.DeploymentID
	At         time.Time
	Document   string          // key of the document that the deployment belonged to
	Apps       []AppChange     // in order of name
	Clusters   []v2.ClusterKey // on which all these apps changed, sorted

	Seq int64 // etcd's revision: it orders entries of processes whose clocks differ; set by those who read
}

// AppChange is what became of an app.
type AppChange struct {
	App    string           `json:"app"`
	Change pairstore.Change `json:"change"`           // what it was; Remove: the app is gone
	Rev    int64            `json:"rev,omitempty"`    // the revision that is applied; 0 after a removal, and if it is not known
	Bundle manifest.Digest  `json:"bundle,omitempty"` // the content that is applied, a SHA-256 in hexadecimal
	Commit string           `json:"commit,omitempty"` // that carries it; empty for direct clusters
}

// storedEntry is an Entry as etcd holds it. The names of many clusters are in a list, which its key names.
type storedEntry struct {
	Document string          `json:"subject,omitempty"`
	Apps     []AppChange     `json:"apps"`
	Clusters []v2.ClusterKey `json:"clusters,omitempty"`
}

// Store stores entries. It is safe for use by many goroutines.
type Store struct {
	kv    *etcdkv.Client
	lists *Lists
}

// New returns the entries below the client's prefix.
func New(kv *etcdkv.Client, lists *Lists) *Store { return &Store{kv, lists} }

// AddClusterHistory stores entries, in as few transactions as possible. A list that this process has stored lately is not stored again.
func (s *Store) AddClusterHistory(ctx context.Context, entries ...Entry) error {
	b, named := s.kv.NewBatch(entrySpace), map[string]list{}
	for _, e := range entries {
		for clusters := range slices.Chunk(e.Clusters, maxListed) {
			e.Clusters = clusters
			if err := s.add(ctx, b, e, named); err != nil {
				return err
			}
		}
	}
	if err := b.Flush(ctx); err != nil {
		return err
	}
	for _, l := range named {
		s.lists.noteStored(l)
	}
	return nil
}

// add adds an entry to a batch, after its list. named are the lists of the batch, by id.
func (s *Store) add(ctx context.Context, b *etcdkv.Batch, e Entry, named map[string]list) error {
	if err := etcdkv.CheckParts(string(e.Deployment)); err != nil {
		return err
	}
	stored, id := storedEntry{Document: e.Document, Apps: e.Apps, Clusters: e.Clusters}, ""
	if len(e.Clusters) >= listFrom {
		l := newList(e.Clusters)
		stored.Clusters, id = nil, l.id
		if _, known := named[id]; !known && !s.lists.storedLately(id) {
			if err := b.Add(ctx, clientv3.OpPut(s.kv.Key(listSpace, id), string(l.pack()))); err != nil {
				return err
			}
		}
		named[id] = l
	}
	key := s.kv.Key(entrySpace, string(e.Deployment), entryKey{at: e.At, clusters: len(e.Clusters), list: id}.name())
	text, err := etcdkv.Encode(key, stored)
	if err != nil {
		return err
	}
	return b.Add(ctx, clientv3.OpPut(key, text))
}

// ClusterHistory yields the entries of a deployment, the oldest first. Like ClusterHistoryOn it leaves out entries that cannot be read, or
// whose list was removed meanwhile, and ends at the first other error.
func (s *Store) ClusterHistory(ctx context.Context, id v2.DeploymentID) iter.Seq2[Entry, error] {
	if err := etcdkv.CheckParts(string(id)); err != nil {
		return etcdkv.Failed[Entry](err)
	}
	return s.entries(ctx, s.kv.Key(entrySpace, string(id))+"/", func(Entry) bool { return true })
}

// ClusterHistoryOn yields the entries of all deployments that name a cluster, without the other clusters: those of a deployment follow each
// other, the oldest first. It reads all entries, a page at a time, and keeps those of one deployment.
func (s *Store) ClusterHistoryOn(ctx context.Context, cluster v2.ClusterKey) iter.Seq2[Entry, error] {
	on := s.entries(ctx, s.kv.Key(entrySpace)+"/", func(e Entry) bool {
		_, found := slices.BinarySearch(e.Clusters, cluster)
		return found
	})
	return func(yield func(Entry, error) bool) {
		for e, err := range on {
			e.Clusters = []v2.ClusterKey{cluster}
			if !yield(e, err) {
				return
			}
		}
	}
}

// entries yields the entries below a prefix that pick picks. Their keys have the times of the processes that wrote them; those of one deployment are
// yielded in the order in which they were written.
func (s *Store) entries(ctx context.Context, prefix string, pick func(Entry) bool) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		var some []Entry // of one deployment
		flush := func() bool {
			slices.SortFunc(some, func(a, b Entry) int { return cmp.Compare(a.Seq, b.Seq) })
			for _, e := range some {
				if !yield(e, nil) {
					return false
				}
			}
			some = some[:0]
			return true
		}
		for kv, err := range s.kv.List(ctx, etcdkv.Scan{Prefix: prefix}) {
			var e Entry
			if err == nil {
				e, err = s.decode(ctx, kv)
			}
			switch {
			case errs.Is(err, errs.Internal): // what etcd holds is not readable
				s.kv.Log().Warn("an entry of the history of clusters is not readable", "key", string(kv.Key), "err", err)
				continue
			case err != nil:
				yield(Entry{}, err)
				return
			}
			if len(some) > 0 && some[0].Deployment != e.Deployment && !flush() {
				return
			}
			if pick(e) {
				some = append(some, e)
			}
		}
		flush()
	}
}

func (s *Store) decode(ctx context.Context, kv *mvccpb.KeyValue) (Entry, error) {
	k, err := s.parseKey(kv.Key)
	if err != nil {
		return Entry{}, err
	}
	stored, err := etcdkv.Decode[storedEntry](kv)
	e := Entry{Deployment: k.deployment, At: k.at, Document: stored.Document, Apps: stored.Apps, Clusters: stored.Clusters, Seq: kv.ModRevision}
	if err == nil && k.list != "" {
		e.Clusters, err = s.list(ctx, k.list)
	}
	return e, err
}

// entryKey is what the key of an entry tells.
type entryKey struct {
	deployment v2.DeploymentID
	at         time.Time
	clusters   int
	list       string // id of the list of clusters; empty if the entry names them itself
}

// name returns the last part of the key, which sorts by time.
func (k entryKey) name() string {
	return fmt.Sprintf("%s-%d-%s-%s", etcdkv.Number(k.at.UnixNano()), k.clusters, rand.Text()[:6], k.list)
}

func (s *Store) parseKey(key []byte) (entryKey, error) {
	parts := s.kv.Split(key)
	if len(parts) == 3 {
		name := strings.Split(parts[2], "-")
		if len(name) == 4 {
			at, atErr := strconv.ParseInt(name[0], 10, 64)
			n, nErr := strconv.Atoi(name[1])
			if atErr == nil && nErr == nil {
				return entryKey{v2.DeploymentID(parts[1]), time.Unix(0, at).UTC(), n, name[3]}, nil
			}
		}
	}
	return entryKey{}, etcdkv.Corrupt(string(key), errors.New("it is no key of an entry of the history of clusters"))
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

// Place returns the pair that the interval is of.
func (i Interval) Place() pairstore.Key {
	return pairstore.Key{Cluster: i.Cluster, Deployment: i.Deployment, App: i.App}
}

// Fold returns the intervals of entries, of each deployment the oldest first, on the clusters that want picks: those of one place follow
// each other, the oldest first. An entry that says what the one before it says begins no interval. The error is that of the entries.
func Fold(entries iter.Seq2[Entry, error], want func(v2.ClusterKey) bool) ([]Interval, error) {
	var all []Interval
	open := map[pairstore.Key]int{} // index in all of what a place holds still
	for e, err := range entries {
		if err != nil {
			return nil, err
		}
		for _, c := range e.Clusters {
			if !want(c) {
				continue
			}
			for _, a := range e.Apps {
				next := Interval{Cluster: c, Deployment: e.Deployment, Document: e.Document, AppChange: a, From: e.At}
				if i, held := open[next.Place()]; held {
					if all[i].Bundle == a.Bundle {
						continue
					}
					all[i].To = e.At
					delete(open, next.Place())
				}
				if a.Bundle != "" {
					open[next.Place()] = len(all)
					all = append(all, next)
				}
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Interval) int { return a.Place().Compare(b.Place()) })
	return all, nil
}
