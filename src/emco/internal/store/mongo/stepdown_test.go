package mongo_test

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
)

// message is a message of MongoDB's protocol: a command or an answer.
type message struct {
	head []byte // length, request id, id of the request that it answers, code
	text []byte
}

// Codes of messages.
const (
	opReply = 1    // of the first hello
	opMsg   = 2013 // of all others
)

func readMessage(r io.Reader) (m message, err error) {
	m.head = make([]byte, 16)
	if _, err := io.ReadFull(r, m.head); err != nil {
		return m, err
	}
	n := binary.LittleEndian.Uint32(m.head)
	if n < 16 || n > 48_000_000 {
		return m, fmt.Errorf("a message of %d bytes", n)
	}
	m.text = make([]byte, n-16)
	_, err = io.ReadFull(r, m.text)
	return m, err
}

func (m message) code() uint32 { return binary.LittleEndian.Uint32(m.head[12:]) }

// at is where the first document begins.
func (m message) at() int {
	if m.code() == opReply {
		return 20
	}
	return 5 // after the flags and the type of the section
}

// document returns the first document: a command with its arguments, or an answer; nil if the message has another form.
func (m message) document() bson.D {
	var d bson.D
	if code := m.code(); code != opMsg && code != opReply || len(m.text) < m.at()+4 {
		return nil
	}
	n := binary.LittleEndian.Uint32(m.text[m.at():])
	if uint32(len(m.text)-m.at()) < n || bson.Unmarshal(m.text[m.at():m.at()+int(n)], &d) != nil {
		return nil
	}
	return d
}

// with returns the message with another first document.
func (m message) with(d bson.D) (message, error) {
	text, err := bson.Marshal(d)
	if err != nil {
		return m, err
	}
	n := int(binary.LittleEndian.Uint32(m.text[m.at():]))
	m.text = slices.Concat(m.text[:m.at()], text, m.text[m.at()+n:])
	m.head = slices.Clone(m.head)
	binary.LittleEndian.PutUint32(m.head, uint32(len(m.head)+len(m.text)))
	return m, nil
}

func (m message) write(w io.Writer) error {
	_, err := w.Write(slices.Concat(m.head, m.text))
	return err
}

func get(d bson.D, key string) any {
	for _, e := range d {
		if e.Key == key {
			return e.Value
		}
	}
	return nil
}

// fault is what happens to one command and its answer.
type fault struct {
	carriedOut bool   // the server gets the command
	answer     bson.D // instead of the server's; nil: the connection ends
}

func refusal(code int32, name string) bson.D {
	return bson.D{
		{Key: "ok", Value: 0.0},
		{Key: "errmsg", Value: "planted"},
		{Key: "code", Value: code},
		{Key: "codeName", Value: name},
		{Key: "errorLabels", Value: bson.A{"RetryableWriteError"}},
	}
}

var faults = map[string]fault{
	"the request is lost":             {},
	"the answer is lost":              {carriedOut: true},
	"NotWritablePrimary":              {answer: refusal(10107, "NotWritablePrimary")},
	"PrimarySteppedDown, carried out": {carriedOut: true, answer: refusal(189, "PrimarySteppedDown")},
	"not replicated before a step-down": {carriedOut: true, answer: bson.D{
		{Key: "ok", Value: 1.0},
		{Key: "n", Value: int32(1)},
		{Key: "nModified", Value: int32(1)},
		{Key: "writeConcernError", Value: bson.D{{Key: "code", Value: int32(189)}, {Key: "codeName", Value: "PrimarySteppedDown"}, {Key: "errmsg", Value: "planted"}}},
	}},
}

// proxy is a server in front of a real one. It can cause one fault. In front of a single server it can present itself as the
// primary of a replica set, so that the client sends a write again; then it carries out a write once, as a replica set does, which
// knows it by its session and number.
type proxy struct {
	listener   net.Listener
	server     string
	replicaSet bool

	mu      sync.Mutex
	fault   *fault             // guarded by mu
	skip    int                // guarded by mu; commands before the fault
	writes  bool               // guarded by mu; only writes count
	fired   string             // guarded by mu; the command that the fault struck
	answers map[string]message // guarded by mu; of writes, by session and number
	repeats int                // guarded by mu; writes that came again
}

func newProxy(t *testing.T, server string, replicaSet bool) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, server: server, replicaSet: replicaSet, answers: map[string]message{}}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { defer client.Close(); p.relay(client) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	return p
}

// relay passes messages on until either side ends.
func (p *proxy) relay(client net.Conn) {
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		return
	}
	defer server.Close()
	in, out := bufio.NewReader(client), bufio.NewReader(server)
	for {
		question, err := readMessage(in)
		if err != nil {
			return
		}
		answer, err := p.answer(question, server, out)
		if err != nil || answer.write(client) != nil {
			return
		}
	}
}

// answer asks the server, or causes the fault.
func (p *proxy) answer(question message, server io.Writer, out io.Reader) (message, error) {
	command := question.document()
	name, number := "", ""
	if len(command) > 0 {
		name = command[0].Key
	}
	if p.replicaSet && question.code() == opMsg {
		if n := get(command, "txnNumber"); n != nil {
			number = fmt.Sprint(get(command, "lsid"), n)
		}
		var err error
		if question, err = question.with(slices.DeleteFunc(command, func(e bson.E) bool { return e.Key == "lsid" || e.Key == "txnNumber" || e.Key == "$clusterTime" })); err != nil {
			return message{}, err
		}
	}
	f := p.strikes(name)
	p.mu.Lock()
	known, again := p.answers[number]
	if again = again && number != ""; again {
		p.repeats++
	}
	p.mu.Unlock()
	var answer message
	switch {
	case again:
		answer = known
		answer.head = slices.Clone(known.head)
		copy(answer.head[8:12], question.head[4:8])
	case f == nil || f.carriedOut:
		err := question.write(server)
		if err == nil {
			answer, err = readMessage(out)
		}
		if err != nil {
			return message{}, err
		}
		if number != "" {
			p.mu.Lock()
			p.answers[number] = answer
			p.mu.Unlock()
		}
	default: // the form of an answer
		answer = message{head: slices.Clone(question.head), text: append([]byte{0, 0, 0, 0, 0}, 5, 0, 0, 0, 0)}
		copy(answer.head[8:12], question.head[4:8])
	}
	if f != nil {
		if f.answer == nil {
			return message{}, io.EOF
		}
		return answer.with(f.answer)
	}
	if hello := answer.document(); p.replicaSet && get(hello, "maxWireVersion") != nil {
		at := p.listener.Addr().String()
		hello = slices.DeleteFunc(hello, func(e bson.E) bool { return e.Key == "logicalSessionTimeoutMinutes" })
		return answer.with(append(hello,
			bson.E{Key: "setName", Value: "rs"}, bson.E{Key: "setVersion", Value: int32(1)}, bson.E{Key: "hosts", Value: bson.A{at}}, bson.E{Key: "me", Value: at},
			bson.E{Key: "primary", Value: at}, bson.E{Key: "secondary", Value: false}, bson.E{Key: "logicalSessionTimeoutMinutes", Value: int32(30)}))
	}
	return answer, nil
}

// strikes returns the fault if it is this command's turn.
func (p *proxy) strikes(name string) *fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	isWrite := name == "insert" || name == "update" || name == "delete"
	if p.fault == nil || !isWrite && (name != "find" || p.writes) {
		return nil
	}
	if p.skip--; p.skip >= 0 {
		return nil
	}
	f := p.fault
	p.fault, p.fired = nil, name
	return f
}

// arm causes a fault at a command after some others.
func (p *proxy) arm(f fault, skip int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault, p.skip, p.fired = &f, skip, ""
	p.writes = f.carriedOut && f.answer != nil // a read is not carried out and refused
}

// struck returns the command that the fault struck; empty if there were too few commands.
func (p *proxy) struck() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = nil
	return p.fired
}

// seen returns how many writes came again.
func (p *proxy) seen() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.repeats
}

// At each command of a creation, a replacement and a deletion, the answer gets lost, or the server is no longer the primary: the write
// succeeds, or is Unavailable and made wholly or not at all; a client that asks again gets what it asked for, and nothing is made twice.
func TestH37StepDownsAndLostAnswers(t *testing.T) {
	t.Parallel()
	uri, _ := database(t)
	server, err := url.Parse(uri)
	if err != nil {
		t.Fatal(err)
	}
	for _, replicaSet := range []bool{false, true} {
		for _, op := range []string{"create", "replace", "delete"} {
			t.Run(fmt.Sprintf("%s, replica set %t", op, replicaSet), func(t *testing.T) {
				t.Parallel()
				_, name := database(t)
				direct, blobs := open(t, uri, name)
				sealer := seal.New(seal.NewKey())
				a := attempt{T: t, truth: store.New(direct, blobs, sealer), proxy: newProxy(t, server.Host, replicaSet)}
				behind := *server
				behind.Host = a.proxy.listener.Addr().String()
				d, _ := open(t, behind.String(), name)
				if d.Replicated() != replicaSet {
					t.Fatalf("the driver takes the server for a replica set: %t", d.Replicated())
				}
				a.db = store.New(d, blobs, sealer)
				struck, succeeded := map[string]int{}, 0
				for title, f := range faults {
					for skip := 0; ; skip++ {
						command, ok := a.make(op, store.Key(fmt.Sprintf("projects/%s-%d", slug(title), skip)), f, skip)
						if command == "" {
							break
						}
						struck[title+" at "+command]++
						if ok {
							succeeded++
						}
					}
					write := map[string]string{"create": "insert", "replace": "update", "delete": "delete"}[op]
					if struck[title+" at "+write] == 0 {
						t.Errorf("%s never struck at %s", title, write)
					}
				}
				if a.proxy.seen() == 0 && replicaSet {
					t.Error("the client sent no write again")
				}
				t.Logf("%d writes succeeded at once, %d commands came again; %v", succeeded, a.proxy.seen(), struck)
			})
		}
	}
}

func slug(title string) string {
	out := []byte(title)
	for i, c := range out {
		if c == ' ' || c == ',' {
			out[i] = '-'
		}
	}
	return string(out)
}

// attempt is a client of a store behind a proxy.
type attempt struct {
	*testing.T
	db, truth *store.DB
	proxy     *proxy
}

// make carries out one write of a document while a fault strikes, and compares what is stored with the answer.
func (a attempt) make(op string, key store.Key, f fault, skip int) (command string, ok bool) {
	first, second := store.Write{Key: key, Body: []byte(`{"n":1}`)}, store.Write{Key: key, Body: []byte(`{"n":2}`)}
	if op != "create" {
		if _, err := a.truth.Create(a.Context(), first); err != nil {
			a.Errorf("%s: %v", key, err)
			return "", false
		}
	}
	write := func() (err error) {
		switch op {
		case "create":
			_, err = a.db.Create(a.Context(), first)
		case "replace":
			_, err = a.db.Replace(a.Context(), second, 0)
		default:
			err = a.db.Delete(a.Context(), key, nil)
		}
		return err
	}
	a.proxy.arm(f, skip)
	err := write()
	command = a.proxy.struck()
	ok = err == nil
	last := map[string]string{"create": "update", "replace": "update", "delete": "delete"}[op] // on a replica set a list begins with an update
	if f.carriedOut && command == last && !ok && !a.proxy.replicaSet {
		a.Errorf("%s, struck at %s: %v; want success, because it was made", key, command, err)
	}
	if err != nil && !errs.Is(err, errs.Unavailable) {
		a.Errorf("%s, struck at %s: %v; want success or unavailable", key, command, err)
	}
	if err != nil {
		a.Logf("%s, struck at %s: %v", key, command, err)
		err = write()
		if op == "create" && errs.Is(err, errs.Exists) || op == "delete" && errs.Is(err, errs.NotFound) {
			err = nil // it was made
		}
		if err != nil {
			a.Errorf("%s, struck at %s, asked again: %v", key, command, err)
		}
	}
	doc, err := a.truth.Get(a.Context(), key)
	switch {
	case op == "delete" && !errs.Is(err, errs.NotFound):
		a.Errorf("%s, struck at %s: it is there: %+v, %v", key, command, doc, err)
	case op == "create" && (err != nil || doc.Rev != 1 || string(doc.Body) != `{"n":1}` || doc.State != store.Live):
		a.Errorf("%s, struck at %s: %+v, %v", key, command, doc, err)
	case op == "replace" && (err != nil || string(doc.Body) != `{"n":2}` || ok && doc.Rev != 2 || doc.Rev > 3):
		a.Errorf("%s, struck at %s: %+v, %v", key, command, doc, err)
	}
	return command, ok
}
