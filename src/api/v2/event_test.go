package v2_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// docs/events.md describes each reason of events once, and no others.
func TestTheDocumentationHasAllReasonsOfEvents(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	var described []string
	for line := range strings.Lines(string(text)) {
		if cells := strings.Split(line, "|"); len(cells) > 3 {
			for _, word := range regexp.MustCompile("`[^`]+`").FindAllString(cells[1], -1) {
				described = append(described, strings.Trim(word, "`"))
			}
		}
	}
	want := v2.EventReasons()
	slices.Sort(described)
	slices.Sort(want)
	if !slices.Equal(described, want) {
		t.Errorf("docs/events.md describes %q, want %q", described, want)
	}
}
