package s3

import "sync"

// maxSent bounds what is remembered: some 200 bytes for each object. When it is full all
// is forgotten, and sent once more.
const maxSent = 100_000

// etagCache remembers the ETags of servers that make them of something else than the content
// alone, such as those that encrypt each object with a key of its own: of what was sent
// since the program began it is known that it is there already. It is safe for use by
// several goroutines.
type etagCache struct {
	mu   sync.Mutex
	tags map[string]etagPair // by URL
}

// etagPair is what a server calls a content, and what we do.
type etagPair struct{ theirs, ours string }

// keep remembers what a server said of an object that was sent.
func (s *etagCache) keep(url string, p etagPair) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.theirs == p.ours {
		delete(s.tags, url)
		return
	}
	if s.tags == nil || len(s.tags) >= maxSent {
		s.tags = map[string]etagPair{}
	}
	s.tags[url] = p
}

// same reports whether an object is the content that was sent last.
func (s *etagCache) same(url string, p etagPair) bool {
	if p.theirs == p.ours {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return p.theirs != "" && s.tags[url] == p
}
