// Package lanes reads from run.sh which tests each lane has; a lane is the tests that need the same servers. Its test
// checks that each end-to-end test is in a lane.
package lanes

import (
	"fmt"
	"strings"
)

// Lane is a set of tests with the same needs.
type Lane struct {
	Name  string
	Full  bool     // not one of the default lanes
	Parts []string // of the test bed
	Tests []string // prefixes of test names
}

// Parse reads the table of lanes in the text of run.sh.
func Parse(script string) ([]Lane, error) {
	_, rest, found := strings.Cut(script, "\nlanes=\"\n")
	table, _, closed := strings.Cut(rest, "\n\"\n")
	if !found || !closed {
		return nil, fmt.Errorf("no table lanes=\"…\"")
	}
	var out []Lane
	for row := range strings.Lines(table) {
		columns := strings.Split(row, "|")
		if len(columns) != 6 {
			return nil, fmt.Errorf("a lane has 6 columns, this one %d: %s", len(columns), row)
		}
		class := strings.TrimSpace(columns[1])
		if class != "default" && class != "full" {
			return nil, fmt.Errorf("a lane is default or full, this one %q: %s", class, row)
		}
		out = append(out, Lane{
			Name: strings.TrimSpace(columns[0]), Full: class == "full",
			Parts: strings.Fields(columns[2]), Tests: strings.Fields(columns[3]),
		})
	}
	return out, nil
}
