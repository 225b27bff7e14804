package rsync

import "github.com/emco-orchestrator/emco/src/emco/internal/appcontext"

// doubts are new pairs of which the write was not answered: they may be in etcd, and are
// not remembered. The next wish for their deployment takes them for written, so that none
// is left that nobody knows of.
type doubts map[appcontext.PairKey]appcontext.Pair

// doubt notes those that were to be written and are not remembered.
func (l *ledger) doubt(put []appcontext.Pair) {
	for _, p := range put {
		if _, known := l.pair(p.Key); !known && l.doubts != nil {
			l.doubts[p.Key] = p
		}
	}
}

// of returns those of a deployment.
func (d doubts) of(uid string) (out []appcontext.Pair) {
	for _, p := range d {
		if p.Key.UID == uid {
			out = append(out, p)
		}
	}
	return out
}
