package mirror

// Subscription signals changes of deployments. Changes that come faster than they are
// consumed are one.
type Subscription struct {
	m    *Mirror
	c    chan struct{}
	ids  []string
	life bool
}

// Subscribe signals changes of heads, pairs and reports with one of the ids. Close the
// subscription after use.
func (m *Mirror) Subscribe(ids ...string) *Subscription {
	s := &Subscription{m: m, c: make(chan struct{}, 1)}
	s.Follow(ids...)
	return s
}

// Life sets whether reports that repeat the one before are signalled too. At first they are
// not.
func (s *Subscription) Life(signalled bool) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	s.life = signalled
}

// Changed yields once after any number of changes.
func (s *Subscription) Changed() <-chan struct{} { return s.c }

// Follow makes the subscription one of these ids and no others.
func (s *Subscription) Follow(ids ...string) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	for _, id := range s.ids {
		if delete(s.m.subs[id], s); len(s.m.subs[id]) == 0 {
			delete(s.m.subs, id)
		}
	}
	for _, id := range ids {
		if s.m.subs[id] == nil {
			s.m.subs[id] = map[*Subscription]bool{}
		}
		s.m.subs[id][s] = true
	}
	s.ids = ids
}

// Close ends the subscription.
func (s *Subscription) Close() { s.Follow() }

// notify signals subscriptions without waiting for their consumers.
func notify(subs map[*Subscription]bool, news bool) {
	for s := range subs {
		if !news && !s.life {
			continue
		}
		select {
		case s.c <- struct{}{}:
		default:
		}
	}
}
