package dial

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	conversationPrefix = "emco-ssh-"   // of the folders of conversations by the ssh program
	agentSocket        = "agent"       // in such a folder: where the process serves the key
	sweepEvery         = time.Minute   // and the age of the youngest folder that is removed
	unservedAge        = 2 * time.Hour // of folders without a socket, longer than any conversation takes
)

// sweepLeftovers removes the folders of conversations whose process was killed, at most once a minute. They hold known
// hosts and a socket, and never a key.
func (d *Dialer) sweepLeftovers(dir string, now time.Time) {
	d.mu.Lock()
	due := now.Sub(d.swept).Abs() >= sweepEvery
	if due {
		d.swept = now
	}
	d.mu.Unlock()
	if !due {
		return
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // the conversation that begins now reports it
	}
	for _, e := range entries {
		if path := filepath.Join(dir, e.Name()); e.IsDir() && strings.HasPrefix(e.Name(), conversationPrefix) && abandoned(path, now) {
			_ = os.RemoveAll(path) // the next sweep tries again
		}
	}
}

// abandoned reports whether the process of a conversation's folder has ended.
func abandoned(path string, now time.Time) bool {
	info, err := os.Stat(path)
	if err != nil || now.Sub(info.ModTime()) < sweepEvery {
		return false
	}
	c, err := net.Dial("unix", filepath.Join(path, agentSocket))
	switch {
	case err == nil:
		_ = c.Close()
		return false
	case errors.Is(err, syscall.ECONNREFUSED): // nobody listens any longer
		return true
	}
	return errors.Is(err, os.ErrNotExist) && now.Sub(info.ModTime()) >= unservedAge
}
