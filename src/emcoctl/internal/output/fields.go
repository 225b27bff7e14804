package output

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/emco-orchestrator/emco/src/emcoctl/internal/printable"
)

// Fields prints names and values, without empty ones.
func Fields(w io.Writer, pairs ...[2]string) {
	for _, p := range pairs {
		if p[1] != "" {
			fmt.Fprintf(w, "%-10s %s\n", p[0], printable.Line(p[1]))
		}
	}
}

// Since returns a moment with its age.
func Since(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return printable.Time(at) + " (" + Age(at, time.Now()) + " ago)"
}

// Number returns a number, "" for 0.
func Number(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}
