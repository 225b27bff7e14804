package s3

import "sync"

// maxSent bounds what is remembered: some 200 bytes for each object. When it is full all
// is forgotten, and sent once more.
const maxSent = 100_000

// sent remembers the ETags of servers that make them of something else than the content
// alone, such as those that encrypt each object with a key of its own: of what was sent
// since the program began it is known that it is there already. It is safe for use by
// several goroutines.
type sent struct {
	mu   sync.Mutex
	tags map[string]pair // by URL
}

// pair is what a server calls a content, and what we do.
type pair struct{ theirs, ours string }

// keep remembers what a server said of an object that was sent.
func (s *sent) keep(url string, p pair) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.theirs == p.ours {
		delete(s.tags, url)
		return
	}
	if s.tags == nil || len(s.tags) >= maxSent {
		s.tags = map[string]pair{}
	}
	s.tags[url] = p
}

// same reports whether an object is the content that was sent last.
func (s *sent) same(url string, p pair) bool {
	if p.theirs == p.ours {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return p.theirs != "" && s.tags[url] == p
}
