package e2e

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// TestF33DemoShowsTheWholeLoop runs the demonstration, which checks what it shows, and ends.
func TestF33DemoShowsTheWholeLoop(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "playground")
	out, err := demo(t, t.Context(), "--data", data).CombinedOutput()
	if err != nil {
		t.Fatalf("the demonstration: %v\n%s", err, out)
	}
	for _, want := range []string{"Ready 9", "+  replicas: 3", "app web fails: web/templates/service.yaml", "rollback to 1", "Done in ", "the folder " + data + " stays"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the demonstration does not show %q:\n%s", want, out)
		}
	}
	log, err := exec.Command("git", "-C", filepath.Join(data, "git", "fleet.git"), "log", "--format=%s", "main").CombinedOutput()
	if err != nil || bytes.Count(log, []byte("\n")) < 5 {
		t.Errorf("the folder that was named has no repository with the commits: %v\n%s", err, log)
	}
}

// TestF33DemoLeavesAPlayground runs the commands that the demonstration proposes, and ends it by Ctrl-C.
func TestF33DemoLeavesAPlayground(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := demo(t, ctx, "--keep")
	read, write := io.Pipe()
	defer read.Close()
	cmd.Stdout, cmd.Stderr = write, write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait(); write.Close() }()

	var seen, script strings.Builder
	lines := bufio.NewScanner(read)
	for invited := false; lines.Scan(); {
		line := lines.Text()
		seen.WriteString(line + "\n")
		if invited = invited || strings.Contains(line, "Now you"); invited && strings.HasPrefix(line, "    ") {
			line = strings.TrimSpace(line)
			if strings.HasPrefix(line, "emcoctl diff") {
				line += " || [ $? = 1 ]" // something would change
			}
			script.WriteString(line + "\n")
		}
		if strings.HasPrefix(line, "Ctrl-C") {
			break
		}
	}
	go func() { _, _ = io.Copy(io.Discard, read) }()
	folder := regexp.MustCompile(`cd (\S+)/examples`).FindStringSubmatch(script.String())
	if folder == nil || strings.Count(script.String(), "emcoctl") < 6 {
		t.Fatalf("the demonstration proposes %q:\n%s", script.String(), seen.String())
	}
	try := exec.CommandContext(ctx, "bash", "-euxc", script.String())
	try.Env = append(os.Environ(), "HOME="+t.TempDir())
	if out, err := try.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("+  replicas: 4")) {
		t.Errorf("the commands that the demonstration proposes: %v\n%s", err, out)
	}

	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the demonstration ended with %v", err)
	}
	url := regexp.MustCompile(`EMCO_URL=http://(\S+)`).FindStringSubmatch(script.String())
	if conn, err := net.Dial("tcp", url[1]); err == nil {
		conn.Close()
		t.Error("emco still serves", url[1])
	}
	if _, err := os.Stat(folder[1]); !os.IsNotExist(err) {
		t.Errorf("the folder %s is left: %v", folder[1], err)
	}
}

// demo is the demonstration as somebody starts it who has only the programs of an archive: in an empty folder, without
// sources, Go or make.
func demo(t *testing.T, ctx context.Context, args ...string) *exec.Cmd {
	t.Helper()
	tools := t.TempDir()
	for _, name := range []string{"git", "sh", "tar", "gzip", "dirname", "mkdir"} {
		if err := os.Symlink(installed(t, name), filepath.Join(tools, name)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(ctx, filepath.Join(binaries(), "emcoctl"), append([]string{"demo"}, args...)...)
	cmd.Dir, cmd.Env = t.TempDir(), []string{"PATH=" + tools, "HOME=" + t.TempDir()}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	return cmd
}
