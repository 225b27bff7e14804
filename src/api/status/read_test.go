package status

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/emco-orchestrator/emco/src/api/jsonread"
)

func written(t testing.TB) string {
	t.Helper()
	o := Object{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "shop", Name: "web", Status: Failed, Reason: `"a" < b`, Content: "90ab", Unread: true}
	text, err := Encode(Report{
		Cluster: "edge+c1", Seq: 1 << 63, At: time.Date(2026, 5, 4, 3, 2, 1, 5, time.FixedZone("", 3600)), Agent: "monitor/1", Truncated: 2,
		Apps: []App{{Label: "42-web", Commit: "aa", Error: "é\n", Objects: []Object{o, {}}, Truncated: 1}, {}}, Unseen: []Unseen{{Kind: "Secret", Reason: "excluded"}},
	}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// What is read by hand is what encoding/json reads, whatever is in the document.
func FuzzParse(f *testing.F) {
	whole := written(f)
	f.Add(whole)
	for _, change := range [][2]string{
		{`"seq":`, `"seq":1,"seq":`},
		{`"seq":`, `"Seq":`},
		{`"seq":`, `"seq":-`},
		{`"seq":`, `"seq":0`},
		{`"truncated":`, `"truncated":9999999999`},
		{`"truncated":2`, `"truncated":2.0`},
		{`"truncated":2`, `"truncated":null`},
		{`"unread":true`, `"unread":truer`},
		{`"unread":true`, `"unread": true `},
		{`"apps":[`, `"apps":[{"label":"x","label":"y"},`},
		{`"apps":[`, `"apps":null,"more":[`},
		{`"apps":[`, `"apps":[,`},
		{`"apps":[`, `"apps":[null,`},
		{`"at":"2026`, `"at":"x2026`},
		{`"at":"2026`, `"at":"\u0032026`},
		{`"label"`, `"l\u0061bel"`},
		{`{}`, `{"objects":[]}`},
		{`"kind"`, "\"kind\x01\""},
		{`:`, ` : `},
		{`}`, `} `},
	} {
		f.Add(strings.Replace(whole, change[0], change[1], 1))
	}
	f.Add(`{"schema":"emco.status/v1","cluster":"edge+c1","seq":3,"at":"2026-05-04T03:02:01Z","apps":null,"same":"aa"}`)
	f.Add(`{"same":"\`)
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) {
			t.Skip() // Decode looks at that before
		}
		var want Report
		failed := json.Unmarshal([]byte(text), &want)
		got, err := parse([]byte(text))
		if (err == nil) != (failed == nil) || err == nil && !reflect.DeepEqual(got, want) {
			t.Errorf("parse = %+v, %v, and encoding/json has %+v, %v", got, err, want, failed)
		}
	})
}

// What Encode writes is read by hand, signs of life included: or reports would be slow to
// read, and nothing else would tell.
func TestWhatEncodeWritesIsReadByHand(t *testing.T) {
	t.Parallel()
	sign, err := Encode(Report{Cluster: "edge+c1", Seq: 3, At: time.Now(), Same: "aa"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{written(t), string(sign)} {
		r := reader{jsonread.New(text)}
		if r.report(); !r.Done() {
			t.Errorf("not read by hand: %s", text)
		}
	}
}

// Each word of a report has a part in its name, its sequence and time have none.
func TestTheNameOfAReportIsThatOfWhatItSays(t *testing.T) {
	t.Parallel()
	base, err := Decode([]byte(written(t)))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{Digest(base): true}
	for i, change := range []func(r *Report){
		func(r *Report) { r.Cluster += "x" }, func(r *Report) { r.Agent += "x" }, func(r *Report) { r.Truncated++ },
		func(r *Report) { r.Apps = r.Apps[:0] }, func(r *Report) { r.Unseen = nil },
		func(r *Report) { r.Unseen = append(r.Unseen, Unseen{}) }, func(r *Report) { r.Unseen = []Unseen{{Group: "Secret", Reason: "excluded"}} },
		func(r *Report) { r.Apps[0].Label += "x" }, func(r *Report) { r.Apps[0].Commit += "x" }, func(r *Report) { r.Apps[0].Error += "x" },
		func(r *Report) { r.Apps[0].Truncated++ }, func(r *Report) { r.Apps[0].Objects = nil },
		func(r *Report) { o := &r.Apps[0].Objects[0]; o.Kind, o.Namespace = o.Kind+"s", o.Namespace[1:] },
		func(r *Report) { r.Apps[0].Objects[0].Reason = "" }, func(r *Report) { r.Apps[0].Objects[0].Unread = false },
	} {
		r, err := Decode([]byte(written(t)))
		if err != nil {
			t.Fatal(err)
		}
		change(&r)
		if name := Digest(r); names[name] {
			t.Errorf("change %d: the name was given before", i)
		} else {
			names[name] = true
		}
	}
	later := base
	later.Seq, later.At, later.Same = 1, time.Now(), "x"
	if !names[Digest(later)] {
		t.Error("the name of the same report, sent later, is another one")
	}
}
