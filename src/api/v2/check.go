package v2

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

var (
	labelPattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	hostPattern  = regexp.MustCompile(`^[A-Za-z0-9\[:]([-A-Za-z0-9_.:\]]*)$`)
)

// Bounds of an error text: a list of ten thousand bad members helps no client. Later ones are only counted.
const (
	maxViolations  = 50
	keptViolations = 1000 // before they are sorted
)

// ValidName reports whether s is a name by upstream's rule: 1 to 128 letters, digits,
// '-', '_' and '.', with a letter or digit at both ends.
func ValidName(s string) bool {
	if s == "" || len(s) > MaxName || !isAlphanumeric(s[0]) || !isAlphanumeric(s[len(s)-1]) {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !isAlphanumeric(c) && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}

func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// CheckName returns an error of kind errs.Invalid that names field if s is not a
// name by upstream's rule.
func CheckName(field, s string) error {
	var c violationList
	c.name(field, s)
	return c.err()
}

// violationList collects violations, so that users see all of them at once.
type violationList struct {
	violations []string // the first keptViolations
	more       int      // later ones
}

// begin starts the check of a document with its metadata.
func begin(n *Named) *violationList {
	c := new(violationList)
	n.Metadata.check(c)
	return c
}

// fail records a violation. Callers quote what clients sent with quote.
func (c *violationList) fail(field, format string, args ...any) {
	if len(c.violations) == keptViolations {
		c.more++
		return
	}
	c.violations = append(c.violations, "- "+field+": "+fmt.Sprintf(format, args...))
}

// sort orders the violations, when their fields were checked in no order.
func (c *violationList) sort() { slices.Sort(c.violations) }

// err returns the violations in upstream's form: the line "Invalid Input:", then a line for
// each.
func (c *violationList) err() error {
	if len(c.violations) == 0 {
		return nil
	}
	lines := c.violations
	if len(lines) > maxViolations {
		more := fmt.Sprintf("- and %d more", len(lines)-maxViolations+c.more)
		lines = append(lines[:maxViolations:maxViolations], more)
	}
	return errs.New(errs.Invalid, "Invalid Input:\n"+strings.Join(lines, "\n"))
}

// name requires a name by upstream's rule.
func (c *violationList) name(field, s string) {
	switch {
	case s == "":
		c.fail(field, "missing")
	case len(s) > MaxName:
		c.fail(field, "%s is longer than %d characters", quote(s), MaxName)
	case !ValidName(s):
		c.fail(field, "%s is not a name; use letters, digits, '-', '_' and '.', with a letter or digit at both ends", quote(s))
	}
}

// optionalName requires a name, or nothing.
func (c *violationList) optionalName(field, s string) {
	if s != "" {
		c.name(field, s)
	}
}

// text limits the length in characters, as JSON schema counts it.
func (c *violationList) text(field, s string, limit int) {
	if n := utf8.RuneCountInString(s); n > limit {
		c.fail(field, "%d characters long, at most %d are allowed", n, limit)
	}
}

// between requires low <= n <= high.
func (c *violationList) between(field string, n, low, high int) {
	if n < low || n > high {
		c.fail(field, "%d is not between %d and %d", n, low, high)
	}
}

// quote returns what a client sent, shortened, and escaped so that it can neither forge
// lines nor hide behind direction marks.
func quote(s string) string {
	const most = 64
	if len(s) > most {
		return fmt.Sprintf("%+q...", s[:most])
	}
	return fmt.Sprintf("%+q", s)
}
