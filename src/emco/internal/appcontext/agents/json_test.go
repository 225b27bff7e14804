package agents

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
)

// The text of an agent is that of encoding/json, and is read with the same result, by hand
// or not.
func TestAgentsAreWrittenAsJSON(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)
	token := Token{ID: "90ab", Sum: []byte{0, 1, 255}, Made: at, Ends: at.Add(time.Hour), By: `"a" <é> & \b` + "\n"}
	for _, a := range []Agent{
		{},
		{Seq: 1<<64 - 1, At: at, DocumentID: "ab", Parts: 3, Registration: "id", Tokens: []Token{token, {Sum: []byte{}}}},
		{DocumentID: "\xff", Tokens: []Token{{Sum: []byte{}, Made: at.In(time.FixedZone("", 7200))}}},
		{Registration: `q"`, Tokens: []Token{{Sum: []byte{1}, Made: at}}},
	} {
		want, err := json.Marshal(a)
		must(t, err)
		got, err := encodeAgent("k", a)
		must(t, err)
		if got != string(want) {
			t.Errorf("written is %s, and encoding/json writes %s", got, want)
		}
		kv := &mvccpb.KeyValue{Value: want}
		slow, err := etcdkv.Decode[Agent](kv)
		must(t, err)
		if fast, err := decodeAgent(kv); err != nil || !reflect.DeepEqual(fast, slow) {
			t.Errorf("read is %+v, %v, and encoding/json reads %+v", fast, err, slow)
		}
	}
	if _, err := encodeAgent("k", Agent{At: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}); err == nil {
		t.Error("a time that JSON does not have is written")
	}
	for _, text := range []string{`{"seq":"1"}`, `[]`, ``, `{"tokens":[{"sum":"?"}]}`} {
		if _, err := decodeAgent(&mvccpb.KeyValue{Value: []byte(text)}); err == nil {
			t.Errorf("%s is read", text)
		}
	}
}

// No update takes more operations than its weight.
func TestWeightIsAnUpperBound(t *testing.T) {
	t.Parallel()
	s := New(etcdkv.New(nil, "/emco", etcdkv.Options{}))
	for _, size := range []int{0, 10, etcdkv.MaxValue - 100, etcdkv.MaxValue + 7, 2 * etcdkv.MaxValue, MaxDocument} {
		for oldParts := range 5 {
			u := Update{Agent: Agent{Cluster: "edge+a"}, Document: &Document{Cluster: "edge+a", Text: make([]byte, size)}, OldParts: oldParts}
			ops, _ := u.Weight()
			if written, err := s.appendUpdate(nil, &u); err != nil || len(written) > ops {
				t.Errorf("a document of %d bytes in the place of %d parts takes %d operations, %v, and weighs %d", size, oldParts, len(written), err, ops)
			}
		}
	}
}

// BenchmarkAgent writes and reads an agent with one token.
func BenchmarkAgent(b *testing.B) {
	a := Agent{Seq: 1, At: time.Now().UTC(), DocumentID: "0123456789abcdef0123456789abcdef", Parts: 1, Registration: "0123456789", Tokens: []Token{{ID: "90ab", Sum: make([]byte, 32), Made: time.Now(), By: "anonymous"}}}
	b.ReportAllocs()
	for b.Loop() {
		text, err := encodeAgent("k", a)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := decodeAgent(&mvccpb.KeyValue{Value: []byte(text)}); err != nil {
			b.Fatal(err)
		}
	}
}
