package githubtest

import (
	"net/http"
	"slices"
	"strconv"
	"time"
)

// tokenSpending is what a token has used.
type tokenSpending struct {
	calls   int // of this period
	reset   time.Time
	points  []spentCall
	content []spentCall
	most    int // calls that make something, within any minute
}

type spentCall struct {
	at time.Time
	n  int
}

// since is the sum of what was spent lately.
func since(all []spentCall, from time.Time) (n int) {
	for _, s := range all {
		if s.at.After(from) {
			n += s.n
		}
	}
	return n
}

func forget(all []spentCall, before time.Time) []spentCall {
	return slices.DeleteFunc(all, func(s spentCall) bool { return !s.at.After(before) })
}

// spend counts a call against a token's limits and sets the headers that report them.
func (s *Server) spend(token string, c *apiCall) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, l := s.now(), s.lim
	p := s.spent[token]
	if p == nil {
		p = &tokenSpending{}
		s.spent[token] = p
	}
	if !now.Before(p.reset) {
		p.calls, p.reset = 0, now.Add(time.Hour)
	}
	points, content := 1, 0
	if c.r.Method != http.MethodGet {
		points, content = 5, 1
	}
	over := l.Calls > 0 && p.calls >= l.Calls
	if !over {
		p.calls++
	}
	if l.Calls > 0 {
		h := c.w.Header()
		h.Set("X-RateLimit-Limit", strconv.Itoa(l.Calls))
		h.Set("X-RateLimit-Remaining", strconv.Itoa(l.Calls-p.calls))
		h.Set("X-RateLimit-Reset", strconv.FormatInt(p.reset.Unix(), 10))
	}
	if over {
		return refuse(http.StatusForbidden, "API rate limit exceeded for user "+c.user.Name)
	}
	return p.secondary(l, now, points, content)
}

// secondary takes a call from the limits of a minute.
func (p *tokenSpending) secondary(l Limits, now time.Time, points, content int) error {
	minute, hour := now.Add(-time.Minute), now.Add(-time.Hour)
	p.points, p.content = forget(p.points, minute), forget(p.content, hour)
	if l.Points > 0 && since(p.points, minute)+points > l.Points ||
		l.Content > 0 && since(p.content, minute)+content > l.Content ||
		l.ContentHour > 0 && since(p.content, hour)+content > l.ContentHour {
		r := &apiRefusal{status: http.StatusForbidden, text: "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."}
		if l.RetryAfter > 0 {
			r.header = map[string]string{"Retry-After": strconv.Itoa(int(l.RetryAfter / time.Second))}
		}
		return r
	}
	p.points, p.content = append(p.points, spentCall{now, points}), append(p.content, spentCall{now, content})
	p.most = max(p.most, since(p.content, minute))
	return nil
}

// MostContent returns how many calls that make something a token made at most within a minute.
func (s *Server) MostContent(token string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.spent[token]; p != nil {
		return p.most
	}
	return 0
}
