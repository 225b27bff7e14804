package appcontext

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/jsonread"
)

// encodeAgent returns what encode does, in less time: it is done for each report.
func encodeAgent(key string, a Agent) (string, error) {
	w := object{text: make([]byte, 0, 512)}
	w.open()
	w.number("seq", a.Seq)
	w.time("at", a.At)
	w.string("said", a.DocumentID)
	w.number("parts", uint64(a.Parts))
	w.string("identity", a.Identity)
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

// object is JSON that is written from the front, as encoding/json writes it. Members
// without a value are left out.
type object struct {
	text []byte
	err  error
}

func (w *object) open()  { w.text = append(w.text, '{') }
func (w *object) close() { w.text = append(w.text, '}') }

func (w *object) name(name string) {
	if w.text[len(w.text)-1] != '{' {
		w.text = append(w.text, ',')
	}
	w.text = append(append(append(w.text, '"'), name...), '"', ':')
}

func (w *object) number(name string, v uint64) {
	if v != 0 {
		w.name(name)
		w.text = strconv.AppendUint(w.text, v, 10)
	}
}

func (w *object) string(name, v string) {
	if v != "" {
		w.name(name)
		w.quote(v)
	}
}

func (w *object) time(name string, v time.Time) {
	if !v.IsZero() {
		w.name(name)
		w.moment(v)
	}
}

func (w *object) moment(v time.Time) {
	text, err := v.AppendText(append(w.text, '"'))
	if err != nil {
		w.err = err
		return
	}
	w.text = append(text, '"')
}

// quote leaves it to encoding/json which characters need to be escaped, if there may be any.
func (w *object) quote(v string) {
	if strings.ContainsFunc(v, func(r rune) bool { return r < ' ' || r > '~' || strings.ContainsRune(`"\<>&`, r) }) {
		text, err := json.Marshal(v)
		w.text, w.err = append(w.text, text...), err
		return
	}
	w.text = append(append(append(w.text, '"'), v...), '"')
}

func (w *object) token(t Token) {
	w.open()
	w.name("id")
	w.quote(t.ID)
	w.name("sum")
	w.text = append(base64.StdEncoding.AppendEncode(append(w.text, '"'), t.Sum), '"')
	w.name("made")
	w.moment(t.Made)
	w.time("ends", t.Ends)
	w.string("actor", t.By)
	w.close()
}

// decodeAgent reads what encodeAgent has written; whatever else is there is left to
// encoding/json.
func decodeAgent(kv *mvccpb.KeyValue) (a Agent, err error) {
	t := jsonread.New(string(kv.Value))
	t.Object([]jsonread.Member{
		{Name: "seq", Uint: &a.Seq},
		{Name: "at", Time: &a.At},
		{Name: "said", Text: &a.DocumentID},
		{Name: "parts", Int: &a.Parts},
		{Name: "identity", Text: &a.Identity},
		{Name: "tokens", Read: func() { a.Tokens = jsonread.List(t, func() Token { return readToken(t) }) }},
	})
	for i := range a.Tokens {
		if a.Tokens[i].Sum == nil {
			return decode[Agent](kv)
		}
	}
	if !t.Done() {
		return decode[Agent](kv)
	}
	a.DocumentID, a.Identity = strings.Clone(a.DocumentID), strings.Clone(a.Identity) // they stay longer than the rest
	return a, nil
}

// readToken reads a token; one without a sum is to be read anew.
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
