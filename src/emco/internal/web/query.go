package web

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// HeaderContinue carries the token of the next page, where the answer has no member for it.
const HeaderContinue = "X-Continue"

// CheckQuery refuses query parameters that a route does not have: what is misspelt would
// otherwise be ignored. The error names the nearest parameter that it has.
func CheckQuery(values url.Values, known ...string) error {
	for _, name := range sortedKeys(values) {
		if slices.Contains(known, name) {
			continue
		}
		text := "Invalid query: there is no parameter " + strconv.Quote(name)
		if near := nearest(name, known); near != "" {
			text += "; did you mean " + near + "?"
		} else if len(known) > 0 {
			text += "; there are " + strings.Join(slices.Sorted(slices.Values(known)), ", ")
		}
		return errs.New(errs.Invalid, text)
	}
	return nil
}

func sortedKeys(values url.Values) []string {
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// nearest returns the known name that needs the fewest edits, at most half of its letters;
// empty if none is near.
func nearest(name string, known []string) string {
	best, least := "", 0
	if len(name) > 64 {
		return ""
	}
	for _, k := range slices.Sorted(slices.Values(known)) {
		d := distance(strings.ToLower(name), strings.ToLower(k))
		if d <= len(k)/2 && (best == "" || d < least) {
			best, least = k, d
		}
	}
	return best
}

// distance is the Levenshtein distance of two short names.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next := min(row[j+1]+1, row[j]+1, diagonal+cost)
			diagonal, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}
