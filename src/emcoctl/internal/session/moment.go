package session

import "time"

// Moment reads the time that a flag names: a time, also as tables print it, a date, which is its beginning in UTC, or a duration before now; the zero time if it is empty.
func Moment(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, form := range []string{time.RFC3339, "2006-01-02 15:04:05Z07:00", time.DateOnly} {
		if at, err := time.Parse(form, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, Usagef("--%s: %q is neither a time such as 2026-11-21T12:00:00Z, nor a date such as 2026-11-21, nor a duration such as 10m", flag, text)
}
