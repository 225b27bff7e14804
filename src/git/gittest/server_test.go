package gittest_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/git/gittest"
)

// A push goes on in the server when its client has left. Close waits for it, so no test ends while the server still
// writes to its folder.
func TestCloseWaitsForPushesOfClientsThatLeft(t *testing.T) {
	t.Parallel()
	srv, err := gittest.Serve(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	bare, err := srv.Seed(t.Context(), "fleet", "main")
	if err != nil {
		t.Fatal(err)
	}
	marks := t.TempDir()
	begun, ended := filepath.Join(marks, "begun"), filepath.Join(marks, "ended")
	if err := bare.Hook("pre-receive", "touch "+begun+"; sleep 1; touch "+ended); err != nil {
		t.Fatal(err)
	}
	clone := t.TempDir()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	if out, err := exec.CommandContext(ctx, "git", "clone", "-q", srv.URL("fleet"), clone).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	push := exec.CommandContext(ctx, "git", "push", "-q", "origin", "HEAD:refs/heads/other")
	push.Dir = clone
	if err := push.Start(); err != nil {
		t.Fatal(err)
	}
	left := make(chan error, 1)
	go func() { left <- push.Wait() }()
	for begins := time.Tick(time.Millisecond); ; {
		if _, err := os.Stat(begun); err == nil {
			break
		}
		select {
		case err := <-left:
			t.Fatalf("the push ended before its hook began: %v", err)
		case <-begins:
		}
	}
	leave()
	<-left
	if err := srv.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(ended); err != nil {
		t.Errorf("the server is closed, and the push still runs: %v", err)
	}
}
