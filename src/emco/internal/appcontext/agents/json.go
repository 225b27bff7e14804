package agents

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/jsonread"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
)

// encodeAgent returns what etcdkv.Encode does, in less time: it runs for each report.
func encodeAgent(key string, a Agent) (string, error) {
	w := jsonWriter{text: make([]byte, 0, 512)}
	w.open()
	w.number("seq", a.Seq)
	w.time("at", a.At)
	w.number("sent", a.Sent)
	w.string("said", a.DocumentID)
	w.number("parts", uint64(a.Parts))
	w.string("identity", a.Registration)
	if len(a.Tokens) > 0 {
		w.name("tokens")
		w.text = append(w.text, '[')
		for i, t := range a.Tokens {
			if i > 0 {
				w.text = append(w.text, ',')
			}
			w.token(t)
		}
		w.text = append(w.text, ']')
	}
	w.close()
	if w.err != nil {
		return "", errs.E(errs.Internal, "encode", key, w.err)
	}
	return string(w.text), nil
}

// jsonWriter writes a JSON object as encoding/json does. It leaves out members without a
// value.
type jsonWriter struct {
	text []byte
	err  error
}

func (w *jsonWriter) open()  { w.text = append(w.text, '{') }
func (w *jsonWriter) close() { w.text = append(w.text, '}') }

func (w *jsonWriter) name(name string) {
	if w.text[len(w.text)-1] != '{' {
		w.text = append(w.text, ',')
	}
	w.text = append(append(append(w.text, '"'), name...), '"', ':')
}

func (w *jsonWriter) number(name string, v uint64) {
	if v != 0 {
		w.name(name)
		w.text = strconv.AppendUint(w.text, v, 10)
	}
}

func (w *jsonWriter) string(name, v string) {
	if v != "" {
		w.name(name)
		w.quote(v)
	}
}

func (w *jsonWriter) time(name string, v time.Time) {
	if !v.IsZero() {
		w.name(name)
		w.quoteTime(v)
	}
}

func (w *jsonWriter) quoteTime(v time.Time) {
	text, err := v.AppendText(append(w.text, '"'))
	if err != nil {
		w.err = err
		return
	}
	w.text = append(text, '"')
}

// quote writes a string. encoding/json escapes characters that may need it.
func (w *jsonWriter) quote(v string) {
	if strings.ContainsFunc(v, func(r rune) bool { return r < ' ' || r > '~' || strings.ContainsRune(`"\<>&`, r) }) {
		text, err := json.Marshal(v)
		w.text, w.err = append(w.text, text...), err
		return
	}
	w.text = append(append(append(w.text, '"'), v...), '"')
}

func (w *jsonWriter) token(t Token) {
	w.open()
	w.name("id")
	w.quote(t.ID)
	w.name("sum")
	w.text = append(base64.StdEncoding.AppendEncode(append(w.text, '"'), t.Sum), '"')
	w.name("made")
	w.quoteTime(t.Made)
	w.time("ends", t.Ends)
	w.string("actor", t.By)
	w.close()
}

// decodeAgent reads what encodeAgent has written; encoding/json reads everything else.
func decodeAgent(kv *mvccpb.KeyValue) (a Agent, err error) {
	t := jsonread.New(string(kv.Value))
	t.Object([]jsonread.Member{
		{Name: "seq", Uint: &a.Seq},
		{Name: "at", Time: &a.At},
		{Name: "sent", Uint: &a.Sent},
		{Name: "said", Text: &a.DocumentID},
		{Name: "parts", Int: &a.Parts},
		{Name: "identity", Text: &a.Registration},
		{Name: "tokens", Read: func() { a.Tokens = jsonread.List(t, func() Token { return readToken(t) }) }},
	})
	for i := range a.Tokens {
		if a.Tokens[i].Sum == nil {
			return etcdkv.Decode[Agent](kv)
		}
	}
	if !t.Done() {
		return etcdkv.Decode[Agent](kv)
	}
	a.DocumentID, a.Registration = strings.Clone(a.DocumentID), strings.Clone(a.Registration) // they outlive the rest of the text
	return a, nil
}

// readToken reads a token. One without a sum must be read by encoding/json.
func readToken(t *jsonread.Text) (out Token) {
	sum := ""
	t.Object([]jsonread.Member{
		{Name: "id", Text: &out.ID},
		{Name: "sum", Text: &sum},
		{Name: "made", Time: &out.Made},
		{Name: "ends", Time: &out.Ends},
		{Name: "actor", Text: &out.By},
	})
	if bytes, err := base64.StdEncoding.DecodeString(sum); err == nil && len(bytes) > 0 {
		out.Sum = bytes
	}
	return out
}
