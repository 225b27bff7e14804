package appcontext

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
)

// Agent is what is known of the agent of a cluster: what it said last, and by which tokens
// it may say something over HTTPS. It is one small value, so that a sign of life costs no
// more than writing that. It changes by compare-and-swap only: a token that was revoked and
// a report that is older than the last one are refused, whichever process takes them.
type Agent struct {
	Cluster    string    `json:"-"`                  // <provider>+<cluster>
	Seq        uint64    `json:"seq,omitempty"`      // of its last report
	At         time.Time `json:"at,omitzero"`        // when that was received
	DocumentID string    `json:"said,omitempty"`     // identifies what its document says; empty if none is kept
	Parts      int       `json:"parts,omitempty"`    // values that the document takes
	Identity   string    `json:"identity,omitempty"` // of the registration that the tokens were made for
	Tokens     []Token   `json:"tokens,omitempty"`   // the newest last
	Mod        int64     `json:"-"`                  // etcd revision at which it was read or written; 0: it is not there
}

// Token lets whoever has it report for one cluster. Only its sum is kept.
type Token struct {
	ID   string    `json:"id"`              // tells tokens apart, for people
	Sum  []byte    `json:"sum"`             // SHA-256
	Made time.Time `json:"made"`            //
	Ends time.Time `json:"ends,omitzero"`   // it is not valid from then on; zero: it does not end
	By   string    `json:"actor,omitempty"` // who asked for it
}

// AgentUpdate are what an agent is known to have said from now on, in the place of what was known
// at Agent.Mod.
type AgentUpdate struct {
	Agent    Agent
	Document *AgentDocument // nil: the document is not touched
	OldParts int            // Agent.Parts of the document that is replaced; those of the new one are set by Hear
}

// AgentDocument is a document of an agent as it came.
type AgentDocument struct {
	Cluster string    `json:"-"`
	Seq     uint64    `json:"seq"`
	At      time.Time `json:"at"` // when it was received
	Gzip    bool      `json:"gzip,omitempty"`
	Text    []byte    `json:"-"` // compressed if Gzip
}

// The most that Hear takes at once, and the largest document.
const (
	MaxUpdateOps   = maxOps      // operations
	MaxUpdateBytes = maxTxnBytes // bytes
	MaxDocument    = 3 * maxValue
)

func (s *Store) heardKey(cluster string) string { return s.key("heard", cluster) }

func (s *Store) saidKey(cluster string, part int) string {
	const hex = "0123456789abcdef"
	return s.key("said", cluster, string([]byte{hex[part>>4&15], hex[part&15]}))
}

// Weight is how many operations and bytes w takes, about, and never less. Old must be set.
func (w AgentUpdate) Weight() (ops, bytes int) {
	ops, bytes = 1, 512+160*len(w.Agent.Tokens)
	if w.Document != nil {
		parts := w.parts()
		if ops += parts; w.OldParts > 1 { // the rest of the last one may have to go
			ops++
		}
		bytes += len(w.Document.Text) + 256
	}
	return ops, bytes
}

// parts is the number of values that the document takes, with its header.
func (w AgentUpdate) parts() int { return (len(w.Document.Text)+512)/maxValue + 1 }

// UpdateAgents writes what agents said, in one transaction: all of it, if all are still at their
// Mod, and nothing otherwise. now are the agents as they are afterwards, in the order of
// words. Together words must not be above MaxWords and MaxWordsBytes.
func (s *Store) UpdateAgents(ctx context.Context, words []AgentUpdate) (now []Agent, ok bool, err error) {
	cmps, names := make([]clientv3.Cmp, len(words)), make([]string, len(words))
	then := make([]clientv3.Op, 0, 2*len(words))
	words = slices.Clone(words)
	for i := range words {
		w := &words[i]
		key := s.heardKey(w.Agent.Cluster)
		cmps[i], names[i] = clientv3.Compare(clientv3.ModRevision(key), "=", w.Agent.Mod), w.Agent.Cluster
		if then, err = s.appendWords(then, w); err != nil {
			return nil, false, err
		}
	}
	rev, ok, err := s.commit(ctx, "what agents said", cmps, then)
	if err == nil && !ok {
		now, err = s.agentsAt(ctx, names)
	}
	if err != nil || !ok {
		return now, false, err
	}
	now = make([]Agent, len(words))
	for i, w := range words {
		now[i] = w.Agent
		now[i].Mod = rev
	}
	return now, true, nil
}

// appendWords adds what is to be written to ops.
func (s *Store) appendWords(ops []clientv3.Op, w *AgentUpdate) ([]clientv3.Op, error) {
	if err := checkParts(w.Agent.Cluster); err != nil {
		return nil, err
	}
	if w.Document != nil {
		var err error
		if ops, err = s.appendSaying(ops, w); err != nil {
			return nil, err
		}
	}
	key := s.heardKey(w.Agent.Cluster)
	text, err := encodeAgent(key, w.Agent)
	return append(ops, clientv3.OpPut(key, text)), err
}

// appendSaying has the parts of a document take the place of those of the one before.
func (s *Store) appendSaying(ops []clientv3.Op, w *AgentUpdate) ([]clientv3.Op, error) {
	whole, err := w.Document.packed()
	if err != nil {
		return nil, err
	}
	w.Agent.Parts = 0
	for ; len(whole) > 0; w.Agent.Parts++ {
		n := min(len(whole), maxValue)
		ops = append(ops, clientv3.OpPut(s.saidKey(w.Agent.Cluster, w.Agent.Parts), whole[:n]))
		whole = whole[n:]
	}
	if w.OldParts > w.Agent.Parts {
		end := clientv3.GetPrefixRangeEnd(s.key("said", w.Agent.Cluster) + "/")
		ops = append(ops, clientv3.OpDelete(s.saidKey(w.Agent.Cluster, w.Agent.Parts), clientv3.WithRange(end)))
	}
	return ops, nil
}

// packed is the header in a line, and the text after it.
func (d AgentDocument) packed() (string, error) {
	if len(d.Text) > MaxDocument {
		return "", errs.E(errs.TooLarge, "store", "report of "+d.Cluster, fmt.Errorf("%d bytes are above the limit of %d", len(d.Text), MaxDocument))
	}
	w := object{text: make([]byte, 0, 128)}
	w.open()
	w.name("seq")
	w.text = strconv.AppendUint(w.text, d.Seq, 10)
	w.name("at")
	w.moment(d.At)
	if d.Gzip {
		w.name("gzip")
		w.text = append(w.text, "true"...)
	}
	if w.close(); w.err != nil {
		return "", errs.E(errs.Internal, "encode", "report of "+d.Cluster, w.err)
	}
	var out strings.Builder
	out.Grow(len(w.text) + 1 + len(d.Text))
	out.Write(w.text)
	out.WriteByte('\n')
	out.Write(d.Text)
	return out.String(), nil
}

// parseAgent reads an agent; nil is one of which nothing is known.
func (s *Store) parseAgent(cluster string, kv *mvccpb.KeyValue) (Agent, error) {
	if kv == nil {
		return Agent{Cluster: cluster}, nil
	}
	a, err := decodeAgent(kv)
	a.Cluster, a.Mod = cluster, kv.ModRevision
	return a, err
}

// Agent returns what is known of the agent of a cluster; nothing but its name, and Mod 0,
// if there is nothing.
func (s *Store) Agent(ctx context.Context, cluster string) (Agent, error) {
	if err := checkParts(cluster); err != nil {
		return Agent{}, err
	}
	r, err := s.get(ctx, s.heardKey(cluster))
	if err != nil || len(r.Kvs) == 0 {
		return Agent{Cluster: cluster}, err
	}
	return s.parseAgent(cluster, r.Kvs[0])
}

// AgentsOf returns what is known of the agents of clusters, those left out of which
// nothing is.
func (s *Store) AgentsOf(ctx context.Context, clusters []string) ([]Agent, error) {
	all, err := s.agentsAt(ctx, clusters)
	return slices.DeleteFunc(all, func(a Agent) bool { return a.Mod == 0 }), err
}

// agentsAt returns what is known of the agents of clusters, in their order.
func (s *Store) agentsAt(ctx context.Context, clusters []string) ([]Agent, error) {
	out := make([]Agent, 0, len(clusters))
	for some := range slices.Chunk(clusters, maxOps) {
		keys := make([]string, len(some))
		for i, c := range some {
			keys[i] = s.heardKey(c)
		}
		found, err := s.getMany(ctx, keys)
		if err != nil {
			return nil, err
		}
		for i, kv := range found {
			a, err := s.parseAgent(some[i], kv)
			if err != nil {
				return nil, err
			}
			out = append(out, a)
		}
	}
	return out, nil
}

// AgentDocuments returns the documents of the agents of clusters, those left out that have none.
// All of them are in memory at once: ask for few.
func (s *Store) AgentDocuments(ctx context.Context, clusters []string) ([]AgentDocument, error) {
	ops := make([]clientv3.Op, len(clusters))
	for i, c := range clusters {
		ops[i] = clientv3.OpGet(s.key("said", c)+"/", clientv3.WithPrefix())
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	r, err := s.c.Txn(ctx).Then(ops...).Commit()
	if err != nil {
		return nil, classify("read", "reports", err)
	}
	out, size := make([]AgentDocument, 0, len(clusters)), 0
	for i, answer := range r.Responses {
		kvs := answer.GetResponseRange().Kvs
		size += sizeOf(kvs)
		if len(kvs) == 0 {
			continue
		}
		d, err := parseSaying(clusters[i], kvs)
		if err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	s.onOp("get", size)
	return out, nil
}

func parseSaying(cluster string, kvs []*mvccpb.KeyValue) (AgentDocument, error) {
	whole := kvs[0].Value
	if len(kvs) > 1 {
		whole = slices.Clone(whole)
		for _, kv := range kvs[1:] {
			whole = append(whole, kv.Value...)
		}
	}
	head, text, ok := bytes.Cut(whole, []byte("\n"))
	d := AgentDocument{Cluster: cluster}
	err := json.Unmarshal(head, &d)
	if err == nil && !ok {
		err = errors.New("it has no text")
	}
	if err != nil {
		return d, corrupt(string(kvs[0].Key), err)
	}
	d.Text = text
	return d, nil
}

// DeleteAgent removes all that is known of the agent of a cluster, tokens and document
// included, if it is still as it was read. Conflict if it is not.
func (s *Store) DeleteAgent(ctx context.Context, a Agent) error {
	if err := checkParts(a.Cluster); err != nil {
		return err
	}
	key := s.heardKey(a.Cluster)
	_, ok, err := s.commit(ctx, key, []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", a.Mod)}, []clientv3.Op{
		clientv3.OpDelete(key), clientv3.OpDelete(s.key("said", a.Cluster)+"/", clientv3.WithPrefix()),
	})
	if err == nil && !ok {
		err = errs.E(errs.Conflict, "remove", "agent of "+a.Cluster, errors.New("it has said something meanwhile"))
	}
	return err
}

// SweepAgents removes what is known of the agents of clusters that are not registered any
// more. One that says something meanwhile stays until the next time. An error of registered
// ends it; nothing is removed for that.
func (s *Store) SweepAgents(ctx context.Context, registered func(ctx context.Context, cluster string) (bool, error)) error {
	for kv, err := range s.list(ctx, &scan{prefix: s.heardKey(""), keysOnly: true}) {
		if err != nil {
			return err
		}
		a := Agent{Cluster: s.split(kv.Key)[1], Mod: kv.ModRevision}
		there, err := registered(ctx, a.Cluster)
		if err == nil && !there {
			err = s.DeleteAgent(ctx, a)
		}
		if err != nil && (!errs.Is(err, errs.Conflict) || errors.Is(err, ErrFenced)) {
			return err
		}
	}
	return nil
}
