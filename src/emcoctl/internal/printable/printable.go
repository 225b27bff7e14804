// Package printable makes text from elsewhere safe to show on a terminal. Time is the form of times in most lists.
package printable

import (
	"fmt"
	"strings"
	"time"
	"unicode"
)

// Time returns a time as people see it, in UTC.
func Time(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

// Count returns a number with what it counts: "1 check", "2 checks".
func Count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// Text replaces control characters, and those that turn the direction of text, with "?": they could
// falsify what a terminal shows. Line breaks and tabs stay.
func Text(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r) {
			return '?'
		}
		return r
	}, s)
}

// Line is Text on one line, with single spaces.
func Line(s string) string { return Text(strings.Join(strings.Fields(s), " ")) }
