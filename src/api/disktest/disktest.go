// Package disktest gives tests a small disk that they fill.
package disktest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// Disk is a tmpfs that is mounted in the name spaces of a shell, which carries out commands. Other
// programs see it if they start by With. One goroutine uses it at a time.
type Disk struct {
	dir    string
	pid    int
	shell  io.WriteCloser
	answer *bufio.Scanner
}

// New mounts a disk at dir until the test ends. It returns nil on a machine that does not allow that.
func New(t testing.TB, dir string, mebibytes int) *Disk {
	t.Helper()
	sh := exec.Command("sh", "-c", `mount -t tmpfs -o size="$1"m none "$0" && echo mounted && exec sh`, dir, fmt.Sprint(mebibytes))
	sh.Stderr = os.Stderr
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
	t.Cleanup(func() {
		_ = in.Close()
		_ = sh.Wait()
	})
	d := &Disk{dir: dir, pid: sh.Process.Pid, shell: in, answer: bufio.NewScanner(out)}
	if !d.answer.Scan() || d.answer.Text() != "mounted" {
		return nil
	}
	return d
}

// With returns the words to put before a command so that its program sees the disk.
func (d *Disk) With() []string {
	return []string{"nsenter", "-t", fmt.Sprint(d.pid), "-U", "-m", "--preserve-credentials"}
}

// Run carries out a command of the shell and returns the last line that it prints.
func (d *Disk) Run(command string) (last string, err error) {
	const done = "=done="
	if _, err := fmt.Fprintln(d.shell, command+"\necho '"+done+"'"); err != nil {
		return "", err
	}
	for d.answer.Scan() {
		if d.answer.Text() == done {
			return last, nil
		}
		last = d.answer.Text()
	}
	return "", errors.Join(errors.New("the shell has ended"), d.answer.Err())
}

// fills tries to fill a disk while programs take and free space on it: an attempt that asks for too much allocates nothing.
const fills = `for try in 1 2 3 4 5 6 7 8 9; do free=$(df -k --output=avail %[1]s | tail -1); ` +
	`if [ $free -le %[2]d ] || fallocate -l $(( free - %[2]d ))k %[1]s/filler 2>/dev/null; then echo filled; break; fi; done`

// Leave fills the disk with a file until so many MiB are free. -1 removes the file.
func (d *Disk) Leave(mebibytes int) error {
	command := "rm -f " + d.dir + "/filler"
	if mebibytes < 0 {
		_, err := d.Run(command)
		return err
	}
	last, err := d.Run(command + "; " + fmt.Sprintf(fills, d.dir, mebibytes<<10))
	if err == nil && last != "filled" {
		err = fmt.Errorf("%s cannot be filled: programs take its space at the same time", d.dir)
	}
	return err
}
