package app_test

import (
	"bytes"
	"errors"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A start waits for an etcd that does not answer, and names its address in the log before an attempt is over. A signal ends it
// well meanwhile; SIGHUP comes from a terminal that closes.
func TestAStartThatWaitsForEtcdSaysSoAndEndsWell(t *testing.T) {
	t.Parallel()
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			handled := make(chan os.Signal, 1) // a program inherits that a signal is ignored, as under nohup, but no handler
			signal.Notify(handled, s)
			defer signal.Stop(handled)
			endsAStart(t, s)
		})
	}
}

func endsAStart(t *testing.T, s syscall.Signal) {
	t.Helper()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	address := "http://" + silent.Addr().String()
	cmd := exec.Command(os.Args[0], wholeProgram, "-data", t.TempDir(), "-etcd.endpoints", address, "-http.address", "127.0.0.1:0", "-grpc.address=")
	log := &logBuffer{}
	var out bytes.Buffer
	cmd.Stderr, cmd.Stdout = log, &out
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for end := begun.Add(patience); !strings.Contains(log.String(), "the start waits for etcd at "+address) && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
	_ = cmd.Process.Signal(s)
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v, want exit code 0", err)
	}
	text := log.String()
	for _, want := range []string{"the start waits for etcd at " + address + ", which has not answered yet", "emco was asked to stop before it serves"} {
		if !strings.Contains(text, want) {
			t.Errorf("the log lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "still waits") || strings.Contains(text, "\nemco: ") {
		t.Errorf("the notice came after an attempt, or the end is an error:\n%s", text)
	}
}

// A start names a data folder whose stores it makes: a typo in the setting or a disk that is not mounted looks like that. The
// next start of the same folder does not.
func TestANewDataFolderIsNamed(t *testing.T) {
	t.Parallel()
	s := newStageWith(t, onSQLite)
	const line = "new data folder: "
	if log := s.log.String(); !strings.Contains(log, line) || !strings.Contains(log, `"data":"`+s.config.Data+`","stores":"etcd, documents.db"`) {
		t.Errorf("the log does not name the new folder:\n%s", log)
	}
	s.stop()
	s.start()
	if n := strings.Count(s.log.String(), line); n != 1 {
		t.Errorf("%d starts say that the folder is new", n)
	}
}

// A command that may not use the data folder names the owner of what it may not use, and the user that it runs as. It does not
// speak of what is not so: that no emco runs, or that something was left.
func TestRefusalsOfTheSystemNameTheOwner(t *testing.T) {
	t.Parallel()
	closed := filepath.Join(t.TempDir(), "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(closed, 0); err != nil {
		t.Fatal(err)
	}
	backup := filepath.Join(t.TempDir(), "emco.backup")
	if err := os.WriteFile(backup, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	inside := filepath.Join(closed, "data")
	for args, want := range map[string]string{
		"-data " + closed:                              "sealing.key: ",
		"-data " + inside:                              "data: ",
		"doctor -data " + inside:                       "data folder: ",
		"keys -data " + closed + " list":               "this user may not ask the emco of that data folder: ",
		"level -data " + closed + " show":              "this user may not ask the emco of that data folder: ",
		"backup -data " + closed + " -to " + inside:    "this user may not ask the emco of that data folder: ",
		"restore -data " + inside + " -from " + backup: "emco restore: ",
		"restore -data " + closed + " -from " + backup: "emco restore: ",
	} {
		cmd := exec.Command(os.Args[0], append([]string{wholeProgram}, strings.Fields(args)...)...)
		cmd.SysProcAttr = &syscall.SysProcAttr{ // root, too, is a user whom the modes of files bind
			Cloneflags:  syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: os.Getgid(), Size: 1}},
		}
		out, err := cmd.CombinedOutput()
		if _, ended := errors.AsType[*exec.ExitError](err); !ended {
			t.Skipf("this machine does not allow name spaces of users: %v", err)
		}
		text := string(out)
		for _, part := range []string{want, "permission denied", closed + " (d---------) belongs to ", "and this process runs as "} {
			if !strings.Contains(text, part) {
				t.Errorf("emco %s: %q is not in: %s", args, part, text)
			}
		}
		for _, wrong := range []string{"no emco answers", "no process with embedded stores answers", "interrupted restore"} {
			if strings.Contains(text, wrong) {
				t.Errorf("emco %s: %s", args, text)
			}
		}
	}
}
