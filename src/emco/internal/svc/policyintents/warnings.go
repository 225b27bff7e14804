package policyintents

import (
	"sync"
	"time"
)

const (
	maxWarned = 4096             // intents that are remembered
	again     = 10 * time.Minute // until the same warning is repeated
)

// warnings decides which warnings are news, so that an agent that repeats its events does not fill event logs.
type warnings struct {
	mu   sync.Mutex
	last map[string]warning // by the UID of the intent; guarded by mu
}

type warning struct {
	text string
	at   time.Time
}

// due reports whether a warning is news. An empty text ends the last one.
func (w *warnings) due(intent, text string, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, known := w.last[intent]
	if text == "" || known && last.text == text && now.Sub(last.at) < again {
		if text == "" {
			delete(w.last, intent)
		}
		return false
	}
	if len(w.last) >= maxWarned || w.last == nil {
		w.last = map[string]warning{}
	}
	w.last[intent] = warning{text, now}
	return true
}
