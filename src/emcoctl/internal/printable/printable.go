// Package printable makes text from elsewhere safe to show on a terminal.
package printable

import (
	"strings"
	"unicode"
)

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
