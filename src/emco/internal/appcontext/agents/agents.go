// Package agents stores the agents that report for clusters: their tokens, their last documents, what was
// refused, and what the nodes of their clusters have free.
//
//	heard/<cluster>         Agent
//	said/<cluster>/<part>   Document, in values of at most 256 KiB
//	capacity/<cluster>      Capacity
//	denied/<cluster>        Refusals
package agents

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/status"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
)

// Agent is the record of a cluster's agent: its last report, and the tokens with which it may
// report over HTTPS. It is one small value, so that a sign of life is one small write. It
// changes only by compare-and-swap, so a revoked token and an outdated report are refused,
// whichever process receives them.
type Agent struct {
	Cluster      v2.ClusterKey `json:"-"`
	Seq          uint64        `json:"seq,omitempty"`      // of its last report
	At           time.Time     `json:"at,omitzero"`        // when its last report was received
	Sent         uint64        `json:"sent,omitempty"`     // when it sent that report, by the cluster's clock, in milliseconds since 1970; 0 if the stored document contains this time
	DocumentID   string        `json:"said,omitempty"`     // identifies the content of its document; empty if none is kept
	Parts        int           `json:"parts,omitempty"`    // values that the document takes
	Registration string        `json:"identity,omitempty"` // of the registration that the tokens were made for
	Tokens       []Token       `json:"tokens,omitempty"`   // the newest last
	Mod          int64         `json:"-"`                  // etcd revision at which it was read or written; 0: it does not exist
}

// Token allows its bearer to report for one cluster. Only its sum is stored.
type Token struct {
	ID   string    `json:"id"`  // for people
	Sum  []byte    `json:"sum"` // SHA-256
	Made time.Time `json:"made"`
	Ends time.Time `json:"ends,omitzero"`   // it is invalid from then on; zero: it does not expire
	By   string    `json:"actor,omitempty"` // who requested it
}

// Update replaces an agent, which must be as it was read (Agent.Mod).
type Update struct {
	Agent    Agent
	Document *Document // nil: the document stays
	OldParts int       // Agent.Parts of the document that is replaced; UpdateAgents sets those of the new one
}

// Document is a document of an agent as it was received.
type Document struct {
	Cluster v2.ClusterKey `json:"-"`
	Seq     uint64        `json:"seq"`
	At      time.Time     `json:"at"` // when it was received
	Gzip    bool          `json:"gzip,omitempty"`
	Text    []byte        `json:"-"` // compressed if Gzip

	Capacity status.Capacity `json:"-"` // what is stored of the cluster's nodes
}

// The most that UpdateAgents accepts in one call, and the largest document.
const (
	MaxUpdateOps   = etcdkv.MaxOps
	MaxUpdateBytes = etcdkv.MaxTxnBytes
	MaxDocument    = 3 * etcdkv.MaxValue
)

// Store stores the agents of clusters and their documents.
type Store struct {
	kv      *etcdkv.Client
	damaged *damageLog // of capacities
}

// New returns the agents below the client's prefix.
func New(kv *etcdkv.Client) *Store { return &Store{kv, newDamageLog(kv.Log())} }

func agentKey(kv *etcdkv.Client, cluster v2.ClusterKey) string {
	return kv.Key("heard", string(cluster))
}

// documentKey is the key of a part of a document; "" is the prefix of all parts.
func documentKey(kv *etcdkv.Client, cluster v2.ClusterKey, part string) string {
	return kv.Key("said", string(cluster), part)
}

func documentPart(n int) string { return fmt.Sprintf("%02x", n) }

// Weight returns upper bounds of the operations and bytes that u takes. OldParts must be
// set.
func (u Update) Weight() (ops, bytes int) {
	ops, bytes = 1, 512+160*len(u.Agent.Tokens)
	if u.Document != nil {
		parts := (len(u.Document.Text)+512)/etcdkv.MaxValue + 1 // with its header
		if ops += parts; u.OldParts > 1 {                       // parts of the old document may be removed
			ops++
		}
		bytes += len(u.Document.Text) + 256
	}
	return ops, bytes
}

// UpdateAgents writes updates in one transaction: all of them, if all agents are still at
// their Mod, and none otherwise. now are the agents afterwards, in the order of updates.
// Together the updates must not weigh more than MaxUpdateOps and MaxUpdateBytes.
func (s *Store) UpdateAgents(ctx context.Context, updates []Update) (now []Agent, ok bool, err error) {
	cmps, names := make([]clientv3.Cmp, len(updates)), make([]v2.ClusterKey, len(updates))
	then := make([]clientv3.Op, 0, 2*len(updates))
	updates = slices.Clone(updates)
	for i := range updates {
		u := &updates[i]
		key := agentKey(s.kv, u.Agent.Cluster)
		cmps[i], names[i] = clientv3.Compare(clientv3.ModRevision(key), "=", u.Agent.Mod), u.Agent.Cluster
		if then, err = s.appendUpdate(then, u); err != nil {
			return nil, false, err
		}
	}
	rev, ok, err := s.kv.Commit(ctx, "reports of agents", cmps, then)
	if err == nil && !ok {
		now, err = s.agentsAt(ctx, names)
	}
	if err != nil || !ok {
		return now, false, err
	}
	now = make([]Agent, len(updates))
	for i, u := range updates {
		now[i] = u.Agent
		now[i].Mod = rev
	}
	return now, true, nil
}

// appendUpdate appends the writes of an update to ops.
func (s *Store) appendUpdate(ops []clientv3.Op, u *Update) ([]clientv3.Op, error) {
	if err := etcdkv.CheckParts(string(u.Agent.Cluster)); err != nil {
		return nil, err
	}
	if u.Document != nil {
		var err error
		if ops, err = s.appendDocument(ops, u); err != nil {
			return nil, err
		}
	}
	key := agentKey(s.kv, u.Agent.Cluster)
	text, err := encodeAgent(key, u.Agent)
	return append(ops, clientv3.OpPut(key, text)), err
}

// appendDocument replaces the parts of the old document by those of the new one.
func (s *Store) appendDocument(ops []clientv3.Op, u *Update) ([]clientv3.Op, error) {
	rest, err := u.Document.encode()
	if err != nil {
		return nil, err
	}
	cluster := u.Agent.Cluster
	u.Agent.Parts = 0
	for ; len(rest) > 0; u.Agent.Parts++ {
		n := min(len(rest), etcdkv.MaxValue)
		ops = append(ops, clientv3.OpPut(documentKey(s.kv, cluster, documentPart(u.Agent.Parts)), rest[:n]))
		rest = rest[n:]
	}
	if u.OldParts > u.Agent.Parts {
		end := clientv3.GetPrefixRangeEnd(documentKey(s.kv, cluster, ""))
		ops = append(ops, clientv3.OpDelete(documentKey(s.kv, cluster, documentPart(u.Agent.Parts)), clientv3.WithRange(end)))
	}
	return ops, nil
}

// encode returns a line of JSON with the text after it.
func (d Document) encode() (string, error) {
	if len(d.Text) > MaxDocument {
		return "", errs.E(errs.TooLarge, "store", "report of "+string(d.Cluster), fmt.Errorf("%d bytes are above the limit of %d", len(d.Text), MaxDocument))
	}
	w := jsonWriter{text: make([]byte, 0, 128)}
	w.open()
	w.name("seq")
	w.text = strconv.AppendUint(w.text, d.Seq, 10)
	w.name("at")
	w.quoteTime(d.At)
	if d.Gzip {
		w.name("gzip")
		w.text = append(w.text, "true"...)
	}
	if w.close(); w.err != nil {
		return "", errs.E(errs.Internal, "encode", "report of "+string(d.Cluster), w.err)
	}
	var out strings.Builder
	out.Grow(len(w.text) + 1 + len(d.Text))
	out.Write(w.text)
	out.WriteByte('\n')
	out.Write(d.Text)
	return out.String(), nil
}

// ParseAgent reads an agent; nil is one that does not exist.
func (s *Store) ParseAgent(cluster v2.ClusterKey, kv *mvccpb.KeyValue) (Agent, error) {
	if kv == nil {
		return Agent{Cluster: cluster}, nil
	}
	a, err := decodeAgent(kv)
	a.Cluster, a.Mod = cluster, kv.ModRevision
	return a, err
}

// Agent returns the agent of a cluster; nothing but its name, and Mod 0, if it does not
// exist.
func (s *Store) Agent(ctx context.Context, cluster v2.ClusterKey) (Agent, error) {
	if err := etcdkv.CheckParts(string(cluster)); err != nil {
		return Agent{}, err
	}
	r, err := s.kv.Get(ctx, agentKey(s.kv, cluster))
	if err != nil || len(r.Kvs) == 0 {
		return Agent{Cluster: cluster}, err
	}
	return s.ParseAgent(cluster, r.Kvs[0])
}

// AgentsOf returns the agents of clusters, without those that do not exist.
func (s *Store) AgentsOf(ctx context.Context, clusters []v2.ClusterKey) ([]Agent, error) {
	all, err := s.agentsAt(ctx, clusters)
	return slices.DeleteFunc(all, func(a Agent) bool { return a.Mod == 0 }), err
}

// agentsAt returns the agents of clusters, in their order.
func (s *Store) agentsAt(ctx context.Context, clusters []v2.ClusterKey) ([]Agent, error) {
	keys := make([]string, len(clusters))
	for i, c := range clusters {
		keys[i] = agentKey(s.kv, c)
	}
	out := make([]Agent, len(clusters))
	err := s.kv.GetEach(ctx, keys, func(i int, kv *mvccpb.KeyValue) (err error) {
		out[i], err = s.ParseAgent(clusters[i], kv)
		return err
	})
	return out, err
}

// AgentDocuments returns the documents of the agents of at most 128 clusters, without those
// that have none. All of them are in memory at once: ask for few.
func (s *Store) AgentDocuments(ctx context.Context, clusters []v2.ClusterKey) ([]Document, error) {
	keys := make([]string, len(clusters))
	for i, c := range clusters {
		keys[i] = documentKey(s.kv, c, "")
	}
	found, err := s.kv.GetRanges(ctx, keys, clientv3.WithPrefix())
	if err != nil {
		return nil, err
	}
	nodes, err := s.Capacities(ctx, clusters)
	if err != nil {
		return nil, err
	}
	out := make([]Document, 0, len(clusters))
	for i, parts := range found {
		if len(parts) == 0 {
			continue
		}
		d, err := parseDocument(clusters[i], parts)
		if err != nil {
			return nil, err
		}
		d.Capacity = nodes[i].Capacity
		out = append(out, d)
	}
	return out, nil
}

func parseDocument(cluster v2.ClusterKey, parts []*mvccpb.KeyValue) (Document, error) {
	whole := parts[0].Value
	if len(parts) > 1 {
		whole = slices.Clone(whole)
		for _, kv := range parts[1:] {
			whole = append(whole, kv.Value...)
		}
	}
	head, text, ok := bytes.Cut(whole, []byte("\n"))
	d := Document{Cluster: cluster}
	err := json.Unmarshal(head, &d)
	if err == nil && !ok {
		err = errors.New("it has no text")
	}
	if err != nil {
		return d, etcdkv.Corrupt(string(parts[0].Key), err)
	}
	d.Text = text
	return d, nil
}

// DeleteAgent removes the agent of a cluster, with its tokens, document, capacity and refusals, if it is still
// as a was read. Conflict if it is not.
func (s *Store) DeleteAgent(ctx context.Context, a Agent) error {
	if err := etcdkv.CheckParts(string(a.Cluster)); err != nil {
		return err
	}
	key := agentKey(s.kv, a.Cluster)
	_, ok, err := s.kv.Commit(ctx, key, []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", a.Mod)}, []clientv3.Op{
		clientv3.OpDelete(key), clientv3.OpDelete(documentKey(s.kv, a.Cluster, ""), clientv3.WithPrefix()), clientv3.OpDelete(capacityKey(s.kv, a.Cluster)),
		clientv3.OpDelete(refusalsKey(s.kv, a.Cluster)),
	})
	if err == nil && !ok {
		err = errs.E(errs.Conflict, "remove", "agent of "+string(a.Cluster), errors.New("it has reported meanwhile"))
	}
	return err
}

// SweepAgents removes the agents of clusters that are no longer registered. One that
// reports meanwhile stays until the next sweep. An error of registered ends the sweep.
func (s *Store) SweepAgents(ctx context.Context, registered func(ctx context.Context, cluster v2.ClusterKey) (bool, error)) error {
	remove := func(ctx context.Context, kv *mvccpb.KeyValue, cluster v2.ClusterKey) error {
		return s.DeleteAgent(ctx, Agent{Cluster: cluster, Mod: kv.ModRevision})
	}
	if err := s.sweep(ctx, agentKey(s.kv, ""), registered, remove); err != nil {
		return err
	}
	for _, prefix := range []string{refusalsKey(s.kv, ""), capacityKey(s.kv, "")} { // of clusters without an agent: it never reported well, or is gone
		if err := s.sweep(ctx, prefix, registered, s.deleteRecord); err != nil {
			return err
		}
	}
	return nil
}

// deleteRecord removes a record of a cluster as it was read. Conflict if it has changed.
func (s *Store) deleteRecord(ctx context.Context, kv *mvccpb.KeyValue, _ v2.ClusterKey) error {
	key := string(kv.Key)
	_, ok, err := s.kv.Commit(ctx, key, []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", kv.ModRevision)}, []clientv3.Op{clientv3.OpDelete(key)})
	if err == nil && !ok {
		err = errs.E(errs.Conflict, "remove", key, errors.New("it has changed meanwhile"))
	}
	return err
}

// sweep removes the records below a prefix whose clusters are not registered.
func (s *Store) sweep(ctx context.Context, prefix string, registered func(context.Context, v2.ClusterKey) (bool, error), remove func(context.Context, *mvccpb.KeyValue, v2.ClusterKey) error) error {
	for kv, err := range s.kv.List(ctx, etcdkv.Scan{Prefix: prefix, KeysOnly: true}) {
		if err != nil {
			return err
		}
		cluster := v2.ClusterKey(s.kv.Split(kv.Key)[1])
		known, err := registered(ctx, cluster)
		if err == nil && !known {
			err = remove(ctx, kv, cluster)
		}
		if err != nil && (!errs.Is(err, errs.Conflict) || errors.Is(err, etcdkv.ErrFenced)) {
			return err
		}
	}
	return nil
}
