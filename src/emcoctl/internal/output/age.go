package output

import (
	"fmt"
	"time"
)

// Age returns the time since a moment in one or two units, such as 5m, 3h20m or 12d; "" for the
// zero time.
func Age(at, now time.Time) string {
	if at.IsZero() {
		return ""
	}
	d := max(now.Sub(at), 0)
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 3*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}
