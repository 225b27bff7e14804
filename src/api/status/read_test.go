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

// full returns a report with a value in every member, so that new members are tested by
// being there.
func full() Report {
	var r Report
	members(reflect.ValueOf(&r).Elem(), "", func(path string, v reflect.Value) {
		switch at := v.Addr().Interface().(type) {
		case *time.Time:
			*at = time.Date(2026, 5, 4, 3, 2, 1, 5, time.FixedZone("", 3600))
		case *uint64:
			*at = 1 << 63
		case *int:
			*at = 2
		case *bool:
			*at = true
		case *string:
			*at = "a<b" + strings.ToLower(path)
		default:
			panic("a member of a type that is new to this test: " + path)
		}
	})
	r.Apps[0].Objects[0].Status = Failed
	return r
}

// members calls visit for each member of v that is no struct and no list; lists get one
// element if they are empty.
func members(v reflect.Value, path string, visit func(path string, v reflect.Value)) {
	switch {
	case v.Kind() == reflect.Slice:
		if v.Len() == 0 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		}
		members(v.Index(0), path, visit)
	case v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[time.Time]():
		for _, f := range reflect.VisibleFields(v.Type()) {
			members(v.FieldByIndex(f.Index), path+"."+f.Name, visit)
		}
	default:
		visit(path, v)
	}
}

func written(t testing.TB) string {
	t.Helper()
	r := full()
	r.Apps[0].Error = "é\n"
	r.Apps[0].Objects = append(r.Apps[0].Objects, Object{})
	r.Apps = append(r.Apps, App{})
	text, err := Encode(r, 0)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Our reader returns the same result as encoding/json for any document.
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

// What Encode writes is read by hand, with every member and for reports with Same: by
// encoding/json it takes several times as long, and nothing else would show that.
func TestWhatEncodeWritesIsReadByHand(t *testing.T) {
	t.Parallel()
	same, err := Encode(Report{Cluster: "edge+c1", Seq: 3, At: time.Now(), Same: "aa"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{written(t), string(same)} {
		r := reader{jsonread.New(text)}
		if r.report(); !r.Done() {
			t.Errorf("not read by hand: %s", text)
		}
	}
}

// Every member changes the digest, but for those that differ in each report.
func TestTheDigestCoversEveryMember(t *testing.T) {
	t.Parallel()
	base := Digest(full())
	members(reflect.ValueOf(new(Report)).Elem(), "", func(path string, _ reflect.Value) {
		r := full()
		members(reflect.ValueOf(&r).Elem(), "", func(p string, v reflect.Value) {
			if p == path {
				v.SetZero()
			}
		})
		same := Digest(r) == base
		if want := path == ".Seq" || path == ".At" || path == ".Same"; same != want {
			t.Errorf("without %s the digest is the same: %t, want %t", path, same, want)
		}
	})
	for name, change := range map[string]func(r *Report){
		"an app less":          func(r *Report) { r.Apps = nil },
		"an object less":       func(r *Report) { r.Apps[0].Objects = nil },
		"no unseen kinds":      func(r *Report) { r.Unseen = nil },
		"a kind more":          func(r *Report) { r.Unseen = append(r.Unseen, Unseen{}) },
		"text in other fields": func(r *Report) { o := &r.Apps[0].Objects[0]; o.Kind, o.Namespace = o.Kind+"s", o.Namespace[1:] },
	} {
		r := full()
		if change(&r); Digest(r) == base {
			t.Errorf("%s: the digest is the same", name)
		}
	}
	if Digest(Report{Apps: []App{}}) != Digest(Report{}) {
		t.Error("the digests of no apps and of an empty list of apps differ")
	}
}

// Whatever an agent sends, no text of it is long or has control characters, and no count
// is negative: every member is checked, or what it belongs to is left out.
func TestDecodeLimitsEveryMember(t *testing.T) {
	t.Parallel()
	members(reflect.ValueOf(new(Report)).Elem(), "", func(path string, _ reflect.Value) {
		r := full()
		r.Schema = Schema
		r.Same = ""
		members(reflect.ValueOf(&r).Elem(), "", func(p string, v reflect.Value) {
			switch {
			case p == path && v.Kind() == reflect.String && p != ".Schema":
				v.SetString(strings.Repeat("bad\x1b\n", 1000))
			case p == path && v.Kind() == reflect.Int:
				v.SetInt(-1)
			}
		})
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(text)
		if err != nil {
			return
		}
		members(reflect.ValueOf(&got).Elem(), "", func(p string, v reflect.Value) {
			if v.Kind() == reflect.String && (v.Len() > MaxError || strings.ContainsAny(v.String(), "\x1b\n")) {
				t.Errorf("with a hostile %s, %s is %.20q of %d bytes", path, p, v.String(), v.Len())
			}
			if v.Kind() == reflect.Int && v.Int() < 0 {
				t.Errorf("with a negative %s, %s is %d", path, p, v.Int())
			}
		})
	})
}
