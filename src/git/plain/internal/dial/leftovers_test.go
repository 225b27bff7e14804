package dial

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// The folder that a killed process leaves is removed with the next conversation, and those in use stay.
func TestLeftoversOfKilledProcessesGo(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "d") // short enough for the path of a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	now := time.Now()
	folder := func(name string, age time.Duration, socket, killed bool) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if socket {
			l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: filepath.Join(path, agentSocket)})
			if err != nil {
				t.Fatal(err)
			}
			l.SetUnlinkOnClose(!killed)
			if killed {
				_ = l.Close()
			} else {
				t.Cleanup(func() { _ = l.Close() })
			}
		}
		if err := os.Chtimes(path, now.Add(-age), now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	folder(conversationPrefix+"killed", time.Hour, true, true)
	folder(conversationPrefix+"lives", time.Hour, true, false)
	folder(conversationPrefix+"young", time.Second, true, true)
	folder(conversationPrefix+"without", time.Hour, false, false)
	folder(conversationPrefix+"old", 3*time.Hour, false, false)
	folder("of-others", 3*time.Hour, true, true)
	var d Dialer
	left := func(want ...string) {
		t.Helper()
		for _, name := range []string{"emco-ssh-killed", "emco-ssh-lives", "emco-ssh-young", "emco-ssh-without", "emco-ssh-old", "of-others"} {
			_, err := os.Stat(filepath.Join(dir, name))
			stays := false
			for _, w := range want {
				stays = stays || w == name
			}
			if (err == nil) != stays {
				t.Errorf("%s: stays %v, want %v", name, err == nil, stays)
			}
		}
	}
	d.sweepLeftovers(dir, now)
	left("emco-ssh-lives", "emco-ssh-young", "emco-ssh-without", "of-others")
	d.sweepLeftovers(dir, now.Add(30*time.Second))
	left("emco-ssh-lives", "emco-ssh-young", "emco-ssh-without", "of-others")
	d.sweepLeftovers(dir, now.Add(2*time.Minute))
	left("emco-ssh-lives", "emco-ssh-without", "of-others")
}
