package archtest

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestF32ComparisonIsShownByTests holds docs/comparison.md to its word: forty features and 28 asks, each with "yes" or
// "partly" and tests that exist, or "planned" and none.
func TestF32ComparisonIsShownByTests(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(repository, "docs/comparison.md"))
	if err != nil {
		t.Fatal(err)
	}
	tests, tables := testsIn(t, "src", "scripts"), map[int]int{} // rows of a table, by its number of columns
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		number, err := strconv.Atoi(strings.TrimSpace(cells[0]))
		if err != nil || !strings.HasPrefix(line, "| ") {
			continue
		}
		tables[len(cells)]++
		if number != tables[len(cells)] {
			t.Errorf("row %d stands where row %d belongs", number, tables[len(cells)])
		}
		here, shown := strings.TrimSpace(cells[len(cells)-2]), quoted.FindAllStringSubmatch(cells[len(cells)-1], -1)
		word := strings.FieldsFunc(here, func(r rune) bool { return r < 'a' || r > 'z' })[0]
		switch {
		case word != "yes" && word != "partly" && word != "planned":
			t.Errorf("row %d begins with neither yes nor partly nor planned: %s", number, here)
		case (word == "planned") != (len(shown) == 0):
			t.Errorf("row %d is %s and names %d tests", number, word, len(shown))
		case word == "partly" && !strings.Contains(here, ":"):
			t.Errorf("row %d is partly, without what is missing", number)
		}
		for _, m := range shown {
			if !tests[m[1]] {
				t.Errorf("row %d names %s, but there is no such test", number, m[1])
			}
		}
	}
	if tables[10] != 40 || tables[5] != 28 {
		t.Errorf("the page has %d features and %d asks, want 40 and 28", tables[10], tables[5])
	}
}

// TestF31ReadmeNamesTests holds the README to its word: each claim about differences names tests that exist.
func TestF31ReadmeNamesTests(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(repository, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	tests, rows := testsIn(t, "src", "scripts"), 0
	_, table, _ := strings.Cut(string(text), "\n## What is different\n")
	table, _, _ = strings.Cut(table, "\n## ")
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 3 || strings.HasPrefix(line, "|-") || strings.HasPrefix(line, "| elsewhere") {
			continue
		}
		if rows++; !strings.Contains(cells[2], "`Test") {
			t.Errorf("the README claims without a test: %s", line)
		}
	}
	for _, m := range quoted.FindAllStringSubmatch(string(text), -1) {
		if strings.HasPrefix(m[1], "Test") && !tests[m[1]] {
			t.Errorf("the README names %s, but there is no such test", m[1])
		}
	}
	if rows < 5 {
		t.Errorf("the README has %d rows of differences", rows)
	}
}
