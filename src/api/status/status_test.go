package status_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/status"
)

func object(name, state, content string) status.Object {
	return status.Object{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "shop", Name: name, Status: state, Content: content}
}

func sample() status.Report {
	failed := object("db", status.Failed, "90ab")
	failed.Reason = "crash loop"
	return status.Report{
		Schema: status.Schema, Cluster: "edge+c1", Seq: 1 << 60, At: time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC), Agent: "monitor/1",
		Apps: []status.App{{
			Label: "42-web", Commit: strings.Repeat("a", 40), Error: "Kustomization not ready",
			Objects: []status.Object{failed, object("web", status.Current, "cdef"), {Version: "v1", Kind: "Secret", Name: "s", Status: status.Current, Unread: true}},
		}},
		Unseen: []status.Unseen{{Kind: "Secret", Reason: "excluded"}},
	}
}

func TestReportsSurviveEncodeAndDecode(t *testing.T) {
	t.Parallel()
	want := sample()
	text, err := status.Encode(want, 0)
	if err != nil {
		t.Fatal(err)
	}
	got, err := status.Decode(text)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Decode = %+v, %v, want %+v", got, err, want)
	}
}

// What a later agent adds within the same schema does no harm.
func TestUnknownMembersAreSkipped(t *testing.T) {
	t.Parallel()
	got, err := status.Decode([]byte(`{"schema":"emco.status/v1","cluster":"p+c","seq":3,"mood":{"good":true},"apps":[{"label":"1-a","weather":[1]}]}`))
	if err != nil || got.Seq != 3 || len(got.Apps) != 1 {
		t.Errorf("Decode = %+v, %v, want the known members", got, err)
	}
}

func TestInvalidReportsAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text string
		kind       errs.Kind
		schema     bool
	}{
		{"a later schema", `{"schema":"emco.status/v2","cluster":"p+c","apps":{"new":"form"}}`, errs.Invalid, true},
		{"no schema", `{"cluster":"p+c"}`, errs.Invalid, true},
		{"nothing", ``, errs.Malformed, false},
		{"a list", `[1,2]`, errs.Malformed, false},
		{"two documents", `{"schema":"emco.status/v1","cluster":"p+c"}{}`, errs.Malformed, false},
		{"a member of another type", `{"schema":"emco.status/v1","cluster":"p+c","apps":"none"}`, errs.Malformed, false},
		{"a negative sequence", `{"schema":"emco.status/v1","cluster":"p+c","seq":-1}`, errs.Malformed, false},
		{"no cluster", `{"schema":"emco.status/v1","seq":1}`, errs.Malformed, false},
		{"a cluster with a line break", `{"schema":"emco.status/v1","cluster":"p+c\n","seq":1}`, errs.Malformed, false},
		{"bytes that are no text", "{\"schema\":\"emco.status/v1\",\"cluster\":\"p+\xff\"}", errs.Malformed, false},
		{"nesting without end", `{"schema":"emco.status/v1","x":` + strings.Repeat("[", 100_000), errs.Malformed, false},
		{"one byte too many", `{"schema":"emco.status/v1","cluster":"p+c"}` + strings.Repeat(" ", status.MaxSize), errs.TooLarge, false},
	} {
		_, err := status.Decode([]byte(c.text))
		if !errs.Is(err, c.kind) || errors.Is(err, status.ErrSchema) != c.schema {
			t.Errorf("%s: Decode: %v, want kind %v, about the schema: %v", c.name, err, c.kind, c.schema)
		}
	}
}

// An object that cannot exist does not take the report with it, and nothing is
// concluded from its absence.
func TestImpossibleObjectsAreLeftOut(t *testing.T) {
	t.Parallel()
	r := sample()
	bad := []status.Object{
		object("", status.Current, ""), object(strings.Repeat("x", 254), status.Current, ""), object("a b", status.Current, ""),
		object("nul\x00", status.Current, ""), object("ok", "Splendid", ""), object("ok", status.Current, strings.Repeat("c", 65)),
		object("�", status.Current, ""),
	}
	r.Apps[0].Objects = append(r.Apps[0].Objects, bad...)
	r.Apps = append(r.Apps, status.App{Label: "42-web"}, status.App{Label: ""}, status.App{Label: "1-x", Commit: "a\nb", Error: "line\nbreak\x1b[31m", Truncated: -5})
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	got, err := status.Decode(text)
	if err != nil || len(got.Apps) != 2 || got.Truncated != 2 || len(got.Apps[0].Objects) != 3 || got.Apps[0].Truncated != len(bad) {
		t.Fatalf("Decode = %+v, %v, want three objects, %d left out, and two apps left out", got, err, len(bad))
	}
	if x := got.Apps[1]; x.Commit != "" || x.Error != "line break [31m" || x.Truncated != 0 {
		t.Errorf("app = %+v, want no commit and an error in one line", x)
	}
}

func TestFailuresSurviveTruncation(t *testing.T) {
	t.Parallel()
	r := sample()
	r.Apps = nil
	for a := range 40 {
		app := status.App{Label: fmt.Sprintf("%d-app", a), Commit: strings.Repeat("b", 40)}
		for i := range 1000 {
			o := object(fmt.Sprintf("web-%04d", i), status.Current, "0123456789abcdef")
			switch {
			case i%100 == 99:
				o.Status, o.Reason = status.Failed, strings.Repeat("é", 500)
			case i%10 == 5:
				o.Content = "" // for example a Pod
			}
			app.Objects = append(app.Objects, o)
		}
		r.Apps = append(r.Apps, app)
	}
	const limit = 1 << 20
	text, err := status.Encode(r, limit)
	if err != nil || len(text) > limit || len(text) < limit*9/10 {
		t.Fatalf("Encode gives %d bytes, %v, want almost %d", len(text), err, limit)
	}
	got, err := status.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	failed, loose := 0, 0
	for _, a := range got.Apps {
		for _, o := range a.Objects {
			if o.Status == status.Failed {
				failed++
			} else if o.Content == "" {
				loose++
			}
		}
		if len(a.Objects)+a.Truncated != 1000 {
			t.Errorf("app %s has %d objects and %d left out, want 1000 in all", a.Label, len(a.Objects), a.Truncated)
		}
	}
	if failed != 400 || loose != 0 {
		t.Errorf("%d failed objects and %d of no bundle are left, want 400 and 0", failed, loose)
	}
	if n := len(r.Apps[0].Objects[99].Reason); n != 1000 || r.Apps[0].Truncated != 0 {
		t.Error("the report given was changed")
	}
}

func TestAppsAreLeftOutWhenTheirHeadersAreTooLarge(t *testing.T) {
	t.Parallel()
	r := sample()
	for i := range 5000 {
		r.Apps = append(r.Apps, status.App{Label: fmt.Sprintf("%d-app", i), Error: strings.Repeat("x", 2000)})
	}
	text, err := status.Encode(r, 0)
	if err != nil || len(text) > status.MaxSize {
		t.Fatalf("Encode gives %d bytes, %v", len(text), err)
	}
	got, err := status.Decode(text)
	if err != nil || got.Truncated == 0 || len(got.Apps)+got.Truncated != 5001 {
		t.Errorf("%d apps, %d left out, %v; want 5001 in all", len(got.Apps), got.Truncated, err)
	}
	if len(got.Apps[0].Objects) != 3 {
		t.Errorf("the first app has %d objects, want 3", len(got.Apps[0].Objects))
	}
}

func TestBranchesAreValidInGit(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("p", 128) + "+" + strings.Repeat("c", 128)
	seen := map[string]string{}
	for cluster, want := range map[string]string{
		"edge+c1":     "status/edge+c1",
		"a..b+c":      "status/a%2E%2Eb+c",
		"edge+c.lock": "status/edge+c%2Elock",
		long:          "",
		long + "x":    "",
	} {
		got := status.Branch(status.DefaultPrefix, cluster)
		if want != "" && got != want || len(got) > 220 || strings.Contains(got, "..") {
			t.Errorf("Branch(%s) = %s, want %s", cluster, got, want)
		}
		if other, twice := seen[got]; twice {
			t.Errorf("%s and %s share the branch %s", cluster, other, got)
		}
		seen[got] = cluster
	}
}

// Any text that can be read gives a report that keeps the limits and can be written again.
func FuzzDecode(f *testing.F) {
	text, err := status.Encode(sample(), 0)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"schema":"emco.status/v1","cluster":"p+c","apps":[{"label":"1-a","objects":[{"name":"\u0000"}]}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := status.Decode(text)
		if err != nil {
			return
		}
		again, err := status.Encode(r, 0)
		if err != nil || len(again) > status.MaxSize || !utf8.Valid(again) {
			t.Fatalf("Encode gives %d bytes, %v", len(again), err)
		}
		r2, err := status.Decode(again)
		if err != nil {
			t.Fatalf("Decode of what was encoded: %v", err)
		}
		once, _ := status.Encode(r2, 0)
		if !bytes.Equal(once, again) {
			t.Errorf("encoding is not stable:\n%s\n%s", again, once)
		}
	})
}
