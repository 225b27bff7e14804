package mirror

import (
	"slices"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
)

// Topics are what a Subscription follows: heads, and the pairs and reports of deployments.
type Topics struct {
	Heads       []appcontext.HeadID
	Deployments []v2.DeploymentID
}

// Equal reports whether both name the same, in the same order.
func (t Topics) Equal(other Topics) bool {
	return slices.Equal(t.Heads, other.Heads) && slices.Equal(t.Deployments, other.Deployments)
}

// Subscription signals changes of its topics. Changes that come faster than they are
// consumed are one.
type Subscription struct {
	m      *Mirror
	c      chan struct{}
	topics Topics // guarded by m.mu
	life   bool   // guarded by m.mu
}

// subscribers are the subscriptions by what they follow.
type subscribers struct {
	heads       map[appcontext.HeadID]map[*Subscription]bool
	deployments map[v2.DeploymentID]map[*Subscription]bool
}

func newSubscribers() subscribers {
	return subscribers{map[appcontext.HeadID]map[*Subscription]bool{}, map[v2.DeploymentID]map[*Subscription]bool{}}
}

func (s subscribers) add(sub *Subscription) {
	for _, id := range sub.topics.Heads {
		addSubscription(s.heads, id, sub)
	}
	for _, id := range sub.topics.Deployments {
		addSubscription(s.deployments, id, sub)
	}
}

func (s subscribers) remove(sub *Subscription) {
	for _, id := range sub.topics.Heads {
		removeSubscription(s.heads, id, sub)
	}
	for _, id := range sub.topics.Deployments {
		removeSubscription(s.deployments, id, sub)
	}
}

// notifyAll signals all subscriptions.
func (s subscribers) notifyAll() {
	for _, subs := range s.heads {
		notify(subs, true)
	}
	for _, subs := range s.deployments {
		notify(subs, true)
	}
}

func addSubscription[K comparable](by map[K]map[*Subscription]bool, id K, sub *Subscription) {
	if by[id] == nil {
		by[id] = map[*Subscription]bool{}
	}
	by[id][sub] = true
}

func removeSubscription[K comparable](by map[K]map[*Subscription]bool, id K, sub *Subscription) {
	if delete(by[id], sub); len(by[id]) == 0 {
		delete(by, id)
	}
}

// Subscribe signals changes of the topics. Close the subscription after use.
func (m *Mirror) Subscribe(topics Topics) *Subscription {
	s := &Subscription{m: m, c: make(chan struct{}, 1)}
	s.Follow(topics)
	return s
}

// SignalRepeats sets whether repeated reports and heartbeats are signalled too. By default they are
// not.
func (s *Subscription) SignalRepeats(signalled bool) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	s.life = signalled
}

// Changed yields once after any number of changes.
func (s *Subscription) Changed() <-chan struct{} { return s.c }

// Follow makes the subscription one of these topics and no others.
func (s *Subscription) Follow(topics Topics) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	s.m.subs.remove(s)
	s.topics = topics
	s.m.subs.add(s)
}

// Close ends the subscription.
func (s *Subscription) Close() { s.Follow(Topics{}) }

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
