package lanes_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/scripts/e2e/lanes"
)

// A test without a lane would never run, and a prefix without a test runs nothing.
func TestEachTestIsInALane(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile("../run.sh")
	if err != nil {
		t.Fatal(err)
	}
	all, err := lanes.Parse(string(script))
	if err != nil {
		t.Fatal(err)
	}
	tests := testsBelow(t, "..")
	matched := map[string]bool{}
	for _, lane := range all {
		for _, prefix := range lane.Tests {
			found := false
			for _, test := range tests {
				if strings.HasPrefix(test, prefix) {
					matched[test], found = true, true
				}
			}
			if !found {
				t.Errorf("lane %s: no test begins with %s", lane.Name, prefix)
			}
		}
	}
	for _, test := range tests {
		if !matched[test] {
			t.Errorf("%s is in no lane of run.sh", test)
		}
	}
}

func testsBelow(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`).FindAllStringSubmatch(string(text), -1) {
			names = append(names, m[1])
		}
	}
	if len(names) < 20 {
		t.Fatalf("only %d tests were found", len(names))
	}
	return names
}

func TestParseRefusesRowsThatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	for _, script := range []string{
		"no table",
		"\nlanes=\"\na | default | git\n\"\n",
		"\nlanes=\"\na | sometimes | etcd | TestA | | x\n\"\n",
	} {
		if got, err := lanes.Parse(script); err == nil {
			t.Errorf("Parse(%q) = %v, want an error", script, got)
		}
	}
}
