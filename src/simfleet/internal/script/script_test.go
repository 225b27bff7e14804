package script

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		line string
		want Order
		bad  string
	}{
		{line: "30s 10% offline", want: Order{At: 30 * time.Second, Select: Selector{Share: 0.1}, Do: Offline}},
		{line: "0s all lag 5m", want: Order{Select: Selector{Share: 1}, Do: Lag, By: 5 * time.Minute}},
		{line: "1m 0-99 fail Deployment/web", want: Order{At: time.Minute, Select: Selector{To: 99}, Do: Fail, Object: "Deployment/web"}},
		{line: "1m 7 drift ConfigMap/*", want: Order{At: time.Minute, Select: Selector{From: 7, To: 7}, Do: Drift, Object: "ConfigMap/*"}},
		{line: "offline", bad: "want WHEN WHO WHAT"},
		{line: "soon all offline", bad: "not a time after the start"},
		{line: "1s 0% offline", bad: "not a share"},
		{line: "1s 9-3 offline", bad: "neither all"},
		{line: "1s all explode", bad: "none of offline"},
		{line: "1s all offline now", bad: "takes nothing"},
		{line: "1s all fail web", bad: "KIND/NAME"},
		{line: "1s all lag", bad: "a duration"},
	} {
		got, err := Parse(c.line)
		if c.bad == "" && (err != nil || got != c.want) {
			t.Errorf("Parse(%q) = %+v, %v, want %+v", c.line, got, err, c.want)
		}
		if c.bad != "" && (err == nil || !strings.Contains(err.Error(), c.bad)) {
			t.Errorf("Parse(%q): %v, want an error that says %q", c.line, err, c.bad)
		}
	}
}

func TestASeedDrawsTheSameClusters(t *testing.T) {
	t.Parallel()
	draw := func() []int { return Selector{Share: 0.1}.Pick(1000, rand.New(rand.NewPCG(7, 7))) }
	first := draw()
	if len(first) != 100 || !slices.Equal(first, draw()) {
		t.Errorf("%d clusters were drawn, or others the second time; want the same 100", len(first))
	}
	if got := (Selector{From: 3, To: 9}).Pick(5, nil); !slices.Equal(got, []int{3, 4}) {
		t.Errorf("3-9 of five clusters is %v, want 3 and 4", got)
	}
	if got := (Selector{Share: 0.001}).Pick(5, rand.New(rand.NewPCG(1, 1))); len(got) != 1 {
		t.Errorf("a small share is %v, want one cluster", got)
	}
}

func TestFiles(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("seed: 7\norders:\n- 2m all online\n- 30s 10% offline\n")
	s, err := Read(path)
	if err != nil || s.Seed != 7 {
		t.Fatalf("Read: %+v, %v", s, err)
	}
	all, err := ParseAll(s.Orders)
	if err != nil || len(all) != 2 || all[0].Do != Offline {
		t.Errorf("ParseAll: %+v, %v, want them by time", all, err)
	}
	write("sed: 7\n")
	if _, err := Read(path); err == nil {
		t.Error("a file with an unknown key was read without an error")
	}
}

func TestPatterns(t *testing.T) {
	t.Parallel()
	if !Matches("deployment/web", "Deployment", "web") || !Matches("ConfigMap/*", "ConfigMap", "x") || Matches("ConfigMap/*", "Secret", "x") || Matches("Pod/a", "Pod", "b") {
		t.Error("a pattern matches the wrong object, or misses the right one")
	}
}
