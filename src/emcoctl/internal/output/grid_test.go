package output_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/emco-orchestrator/emco/src/emcoctl/internal/output"
)

func table(columns int, rows ...[]string) string {
	var out strings.Builder
	t := output.NewTable(output.Screen{Writer: &out, Columns: columns})
	for _, row := range rows {
		for _, cell := range row {
			t.Cell(cell)
		}
		t.End()
	}
	t.Flush()
	return out.String()
}

func TestF58TablesFitTheScreen(t *testing.T) {
	t.Parallel()
	rows := [][]string{
		{"APP", "CLUSTER", "READY", "MESSAGE"},
		{"web", "edge+store-17", "unknown", "the cluster has not reported; clusters that pull from Git report when they run the monitor"},
		{"cache", "edge+store-18", "3/3", ""},
	}
	want := strings.Join([]string{
		"APP     CLUSTER         READY     MESSAGE",
		"web     edge+store-17   unknown   the cluster has not reported; clusters that",
		"                                  pull from Git report when they run the monitor",
		"cache   edge+store-18   3/3       -",
		"",
	}, "\n")
	if got := table(80, rows...); got != want {
		t.Errorf("at 80 columns:\n%s\nwant\n%s", got, want)
	}
	for _, columns := range []int{20, 30, 40, 60, 80, 120} {
		got := table(columns, rows...)
		for line := range strings.Lines(got) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > columns {
				t.Errorf("at %d columns, %q has %d", columns, line, n)
			}
		}
		joined := strings.Join(strings.Fields(got), " ")
		for _, word := range []string{"unknown", "reported;", "monitor", "clusters"} {
			if !strings.Contains(joined, word) {
				t.Errorf("at %d columns, %q is cut:\n%s", columns, word, got)
			}
		}
	}
	if got := table(0, rows...); strings.Count(got, "\n") != 3 {
		t.Errorf("without a limit there are other lines than rows:\n%s", got)
	}
	if got := table(20, rows...); !strings.HasPrefix(got, "APP      web\nCLUSTER  edge+\n         store-17\nREADY    unknown\n") {
		t.Errorf("at 20 columns:\n%s", got)
	}
}
