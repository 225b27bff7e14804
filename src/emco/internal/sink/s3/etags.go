package s3

import "sync"

// maxSent bounds an etagCache, at some 200 bytes per object. When it is full it is
// cleared, and objects are sent once more.
const maxSent = 100_000

// etagCache holds the ETags of sent objects, for servers whose ETags are not the MD5 of the
// content, such as those that encrypt each object with its own key. With it, objects that
// were sent since the start of the program are not sent again. It is safe for concurrent
// use.
type etagCache struct {
	mu   sync.Mutex
	tags map[string]etagPair // by URL; guarded by mu
}

// etagPair is the server's ETag of a content, and ours.
type etagPair struct{ theirs, ours string }

// keep stores the ETags of a sent object.
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

// same reports whether an object has the content that was sent last.
func (s *etagCache) same(url string, p etagPair) bool {
	if p.theirs == p.ours {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return p.theirs != "" && s.tags[url] == p
}
