package pair

import (
	"fmt"
	"strings"
)

// maxWords bounds what is told of one object or pair, in bytes.
const maxText = 240

// clip bounds text that others wrote.
func Clip(text string) string {
	if len(text) > maxText {
		return strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	return text
}

// noReport is why nothing is known of what a cluster holds.
func NoReport(never bool) string {
	if never {
		return "the cluster has never reported; if it pulls from Git, install the monitor there"
	}
	return "the cluster has not reported on it yet"
}

// andMore counts what is not named.
func AndMore(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return " (and 1 more cluster)"
	}
	return fmt.Sprintf(" (and %d more clusters)", n)
}
