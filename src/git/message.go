package git

import (
	"fmt"
	"strings"
	"time"
	"unicode"
)

// DefaultAuthor is the author of commits whose message names none.
const DefaultAuthor = "EMCO <emco@localhost>"

// Text returns the message as Git stores it: the title, a blank line and the
// trailers. Line breaks and control characters within a title or a value become
// blanks, so that a value cannot forge a trailer; keys lose all but letters,
// digits and hyphens.
func (m Message) Text() string {
	var b strings.Builder
	title := oneLine(m.Title)
	if title == "" {
		title = "update"
	}
	b.WriteString(title + "\n")
	for i, t := range m.Trailers {
		if i == 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "%s: %s\n", trailerKey(t.Key), oneLine(t.Value))
	}
	return b.String()
}

// Signature returns "Name <mail> seconds +0000" as it stands in a commit object.
func (m Message) Signature() string {
	author := m.Author
	if author == "" {
		author = DefaultAuthor
	}
	name, mail, _ := strings.Cut(author, "<")
	mail, _, _ = strings.Cut(mail, ">")
	when := m.When
	if when.IsZero() {
		when = time.Now()
	}
	return fmt.Sprintf("%s <%s> %d +0000", person(name), person(mail), when.Unix())
}

// person drops characters that would end a name or mail early in a commit object.
func person(s string) string {
	s = strings.NewReplacer("<", "", ">", "").Replace(oneLine(s))
	return strings.Trim(s, " .,:;\"'")
}

func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
	return strings.TrimSpace(s)
}

func trailerKey(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == '-' || r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
			return r
		}
		return -1
	}, s)
	if s == "" {
		return "Emco-Note"
	}
	return s
}
