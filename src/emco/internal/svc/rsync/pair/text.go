package pair

import (
	"fmt"
	"strings"
)

// maxText bounds the text about one object or pair, in bytes.
const maxText = 240

// Clip bounds text that others wrote.
func Clip(text string) string {
	if len(text) > maxText {
		return strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	return text
}

// NoReport returns the reason why the content of a cluster is not known.
func NoReport(never bool) string {
	if never {
		return "the cluster has never reported; if it pulls from Git, install the monitor there"
	}
	return "the cluster has not reported on it yet"
}

// AwaitsPromotion begins the Blocked of a pair that waits for a person.
const AwaitsPromotion = "waits until somebody promotes "

// AndMore counts what a text does not name.
func AndMore(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return " (and 1 more cluster)"
	}
	return fmt.Sprintf(" (and %d more clusters)", n)
}
