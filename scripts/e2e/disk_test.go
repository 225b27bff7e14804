package e2e

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// smallDisk is a file system of its own in the name spaces of a shell, which carries out commands.
type smallDisk struct {
	dir   string
	pid   int
	shell io.WriteCloser
	said  *bufio.Scanner
}

// newSmallDisk mounts a tmpfs. It returns nil on a machine that does not allow that.
func newSmallDisk(t testing.TB, dir string, mebibytes int) *smallDisk {
	t.Helper()
	sh := exec.Command("sh", "-c", `mount -t tmpfs -o size="$1"m none "$0" && echo mounted && exec sh`, dir, fmt.Sprint(mebibytes))
	sh.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	in, err := sh.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := sh.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("nsenter"); err != nil || sh.Start() != nil {
		return nil
	}
	d := &smallDisk{dir: dir, pid: sh.Process.Pid, shell: in, said: bufio.NewScanner(out)}
	t.Cleanup(func() {
		_ = in.Close()
		_ = sh.Wait()
	})
	if !d.said.Scan() || d.said.Text() != "mounted" {
		return nil
	}
	return d
}

// with is the command that becomes a program that sees the disk.
func (d *smallDisk) with() []string {
	return []string{"nsenter", "-t", fmt.Sprint(d.pid), "-U", "-m", "--preserve-credentials"}
}

// leave fills the disk until so many MiB are free; -1 empties it.
func (d *smallDisk) leave(mebibytes int) error {
	command := "rm -f " + d.dir + "/filler"
	if mebibytes >= 0 {
		command = fmt.Sprintf(`free=$(df -k --output=avail %[1]s | tail -1); [ $free -le %[2]d ] || fallocate -l $(( free - %[2]d ))k %[1]s/filler`, d.dir, mebibytes<<10)
	}
	if _, err := fmt.Fprintln(d.shell, command+"\necho done"); err != nil {
		return err
	}
	d.said.Scan()
	return d.said.Err()
}
