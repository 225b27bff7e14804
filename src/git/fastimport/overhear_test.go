package fastimport

import (
	"strings"
	"testing"
)

// Of a trace the last answer counts, however headers are spelled and however long lines are.
func TestTheLastAnswerIsHeard(t *testing.T) {
	t.Parallel()
	const mark = "08:20:01.123456 http.c:623              <= Recv header: "
	for want, lines := range map[answer][]string{
		{}:                              {"08:20:01 http.c:1 == Info: Trying 127.0.0.1:80"},
		{status: 429, retryAfter: "7"}:  {mark + "HTTP/1.1 429 Too Many Requests", mark + "Retry-After: 7", mark},
		{status: 503, retryAfter: "20"}: {mark + "HTTP/1.1 200 Connection established", mark, mark + "HTTP/2 503", mark + "retry-after:20"},
		{status: 200}:                   {mark + "HTTP/1.1 401 Unauthorized", mark + "Retry-After: 7", mark + "X: " + strings.Repeat("x", 100_000), mark + "HTTP/1.1 200 OK"},
	} {
		if got := listen(strings.NewReader(strings.Join(lines, "\n") + "\n")); got != want {
			t.Errorf("heard %+v, want %+v", got, want)
		}
	}
}
