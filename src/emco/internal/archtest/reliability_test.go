package archtest

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/failpoint/wrap"
)

const repository = "../../../.."

// quoted finds what is written as code.
var quoted = regexp.MustCompile("`([^`\n]+)`")

// testedFolders are those whose tests `make test` runs, and scripts/e2e: a test of package lanes there
// wants each in a lane, which `make e2e` or `make e2e-full` runs.
var testedFolders = []string{"src", "scripts/e2e", "scripts/release", "scripts/rules", "scripts/testbed"}

// The tables of docs/reliability.md are true: the tests that they name exist and are run, all
// failpoints are in them, and so is each fault that has a number of its own.
func TestReliabilityIsShownByTests(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(repository, "docs/reliability.md"))
	if err != nil {
		t.Fatal(err)
	}
	tests, named := testsIn(t, testedFolders...), map[string]bool{}
	for _, m := range quoted.FindAllStringSubmatch(string(text), -1) {
		named[m[1]] = true
		if strings.HasPrefix(m[1], "Test") && !tests[m[1]] {
			t.Errorf("%s is named, but there is no such test", m[1])
		}
	}
	for _, point := range wrap.Points() {
		if !named[point] {
			t.Errorf("failpoint %s is in no table", point)
		}
	}
	for _, n := range []int{31, 32, 33, 34, 35, 36, 47, 49, 53, 58, 59, 61, 62, 64, 65} {
		wantRow(t, string(text), fmt.Sprintf("H-%d", n), fmt.Sprintf("`TestH%d", n))
	}
	for test := range tests {
		if m := trialTest.FindStringSubmatch(test); m != nil && !named[test] {
			t.Errorf("%s is in no row; the row of F%s names the tests of that fault", test, m[1])
		}
	}
	security, err := os.ReadFile(filepath.Join(repository, "docs/security.md"))
	if err != nil {
		t.Fatal(err)
	}
	numbers := rowNumbers(string(text) + string(security))
	for n := 1; n <= 68; n++ {
		if number := fmt.Sprintf("H-%02d", n); !numbers[number] {
			t.Errorf("%s is in no row of docs/reliability.md or docs/security.md", number)
		}
	}
	for n := 1; n <= 14; n++ {
		if number := fmt.Sprintf("E%d", n); !numbers[number] {
			t.Errorf("%s is in no row of docs/security.md", number)
		}
	}
	for test := range tests {
		if m := hostileTest.FindStringSubmatch(test); m != nil && !strings.Contains(string(text)+string(security), "`"+test+"`") {
			t.Errorf("%s is in no row; the row of H-%s names the tests of that fault", test, m[1])
		}
	}
	for n := 1; n <= 15; n++ {
		wantRow(t, string(text), fmt.Sprint(n), fmt.Sprintf("`TestConformance%02d", n))
	}
}

// The tables of docs/security.md are true: each row names tests that exist and are run, or is marked as open.
// The page has the faults of trials that concern security, and the rows that other pages promise.
func TestSecurityIsShownByTests(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(repository, "docs/security.md"))
	if err != nil {
		t.Fatal(err)
	}
	tests, rows := testsIn(t, testedFolders...), map[string]bool{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if !strings.HasPrefix(line, "| ") || len(cells) < 4 || cells[0] == " number" {
			continue
		}
		named := 0
		for _, m := range quoted.FindAllStringSubmatch(cells[len(cells)-1], -1) {
			if named++; !tests[m[1]] {
				t.Errorf("%s is named, but there is no such test", m[1])
			}
		}
		if named == 0 && !strings.Contains(line, "**open**") {
			t.Errorf("no test, and not open: %s", line)
		}
		for _, number := range numbered.FindAllString(line, -1) {
			rows[number] = true
		}
	}
	for _, number := range strings.Fields("F15 F16 F17 F18 F19 F23 F24 F25 F26 F27 F60 F61 F62 F63 F69 F70 F71 F72 F73 F74 F75 F76 F77 S-10 S-18 S-22") {
		if !rows[number] {
			t.Errorf("%s is in no row", number)
		}
	}
	for n := 1; n <= 30; n++ {
		if number := fmt.Sprintf("H-%02d", n); !rows[number] {
			t.Errorf("%s is in no row", number)
		}
	}
}

// acceptanceCase is a line of scripts/e2e/services/run.sh: number, lane, folder of packages, prefixes of tests, text.
type acceptanceCase struct{ number, lane, folder, tests string }

// Each case of the acceptance list of several processes is in docs/reliability.md, with tests or as open, and
// run.sh runs those tests: it finds each in its folder, and each of its prefixes finds one.
func TestTheAcceptanceListIsRun(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(repository, "docs/reliability.md"))
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile(filepath.Join(repository, "scripts/e2e/services/run.sh"))
	if err != nil {
		t.Fatal(err)
	}
	runs := map[string]map[string]bool{} // by number
	for _, m := range regexp.MustCompile(`(?m)^(S-\d\d) +\| (\S+) +\| (\S+) +\| ([^|]+?) +\|`).FindAllStringSubmatch(string(script), -1) {
		c := acceptanceCase{m[1], m[2], m[3], m[4]}
		if runs[c.number] == nil {
			runs[c.number] = map[string]bool{}
		}
		tests := testsIn(t, strings.TrimSuffix(c.folder, "/..."))
		for prefix := range strings.FieldsSeq(c.tests) {
			found := false
			for test := range tests {
				if strings.HasPrefix(test, prefix) {
					runs[c.number][test], found = true, true
				}
			}
			if !found {
				t.Errorf("run.sh: %s: no test of %s begins with %s", c.number, c.folder, prefix)
			}
		}
	}
	for n := 1; n <= 28; n++ {
		number := fmt.Sprintf("S-%02d", n)
		row := regexp.MustCompile(`(?m)^\| ` + number + ` \|.*$`).FindString(string(page))
		cells := strings.Split(strings.Trim(row, "|"), " | ")
		named := 0
		for _, m := range quoted.FindAllStringSubmatch(cells[len(cells)-1], -1) {
			if named++; !runs[number][m[1]] {
				t.Errorf("docs/reliability.md: %s: run.sh does not run %s", number, m[1])
			}
		}
		switch open := strings.Contains(row, "**open**"); {
		case row == "":
			t.Errorf("%s is in no row of docs/reliability.md", number)
		case open != (named == 0), open == (runs[number] != nil):
			t.Errorf("%s: %d tests are named, open: %t, run.sh runs %d", number, named, open, len(runs[number]))
		}
	}
}

// numbered finds the numbers of threats.
var numbered = regexp.MustCompile(`\b([HS]-\d+|[EF]\d+)\b`)

// rowNumbers returns the numbers of faults in the first cells of tables.
func rowNumbers(text string) map[string]bool {
	out := map[string]bool{}
	for line := range strings.Lines(text) {
		if cell, _, isRow := strings.Cut(strings.TrimPrefix(line, "| "), " | "); isRow && strings.HasPrefix(line, "| ") {
			for _, number := range numbered.FindAllString(cell, -1) {
				out[number] = true
			}
		}
	}
	return out
}

// hostileTest finds the tests of hostile inputs and of callers, whose numbers are in docs/security.md.
var hostileTest = regexp.MustCompile(`^TestH(0[1-9]|1[0-6]|2[2-9]|30|6[678])[A-Z]`)

// trialTest finds the tests of faults that concern running programs: those of the API's truth, and of
// security and endurance. Other numbers concern pages and the command line.
var trialTest = regexp.MustCompile(`^TestF(04|1[03-69]|2[02-7]|6\d|7\d)[A-Z]`)

// wantRow wants a row of a table that begins with a number and names a test of it.
func wantRow(t *testing.T, text, number, test string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "| "+number+" |") && strings.Contains(line, test) {
			return
		}
	}
	t.Errorf("no row of %s names a test of it", number)
}

var testFunc = regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9_]+)\(`)

var constraint = regexp.MustCompile(`(?m)^//go:build (.+)$`)

// testsIn returns the names of all tests below folders of the repository.
func testsIn(t *testing.T, folders ...string) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(repository, folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			if m := constraint.FindSubmatch(text); m != nil && string(m[1]) != "!race" && string(m[1]) != "linux" {
				return err // not part of every run
			}
			for _, m := range testFunc.FindAllStringSubmatch(string(text), -1) {
				out[m[1]] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}
