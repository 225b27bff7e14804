package jsonread_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/jsonread"
)

type jsonRecord struct {
	Name  string
	Size  uint64
	Count int
	Good  bool
	At    time.Time
	Parts []string
}

func read(text string) (x jsonRecord, ok bool) {
	t := jsonread.New(text)
	t.Object([]jsonread.Member{
		{Name: "name", Text: &x.Name},
		{Name: "size", Uint: &x.Size},
		{Name: "count", Int: &x.Count},
		{Name: "good", Bool: &x.Good},
		{Name: "at", Time: &x.At},
		{Name: "parts", Read: func() { x.Parts = jsonread.List(t, t.String) }},
	})
	return x, t.Done()
}

func TestWhatIsRead(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	for text, want := range map[string]jsonRecord{
		`{}`: {},
		`{"name":"a","size":18446744073709551615,"count":2147483647,"good":true,"at":"2026-01-02T03:04:05.000000006Z","parts":["x","y"]}`: {"a", 1<<64 - 1, 1<<31 - 1, true, at, []string{"x", "y"}},
		" {\n\"parts\" : [ ] , \"good\" : false , \"name\" : \"\\u00e9\\\"\" } ":                                                          {Name: `é"`, Parts: []string{}},
		`{"parts":null,"size":0}`: {},
	} {
		if got, ok := read(text); !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", text, got, ok)
		}
	}
}

// All of this is for encoding/json to judge.
func TestOtherFormsAreLeftToEncodingJSON(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		``, `x`, `null`, `[]`, `{`, `{"name"}`, `{"name":}`, `{"name":"a"`, `{"name":"a",}`, `{"name":"a"}x`, `{"name":null}`, `{"name":"a","name":"b"}`, `{"Name":"a"}`, `{"other":1}`,
		`{"name":"a`, `{"name":"\`, `{"name":"\x"}`, "{\"name\":\"\n\"}", `{"size":-1}`, `{"size":01}`, `{"size":+1}`, `{"size":1.0}`, `{"size":1e3}`, `{"size":}`, `{"size":18446744073709551616}`, `{"count":2147483648}`,
		`{"good":1}`, `{"good":tru}`, `{"at":5}`, `{"at":"today"}`, `{"parts":[}`, `{"parts":["a",]}`, `{"parts":["a"`, `{"parts":nul}`, `{"parts":["a" "b"]}`,
	} {
		if got, ok := read(text); ok {
			t.Errorf("%s: %+v", text, got)
		}
	}
}
