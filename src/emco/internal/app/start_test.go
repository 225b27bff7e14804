package app_test

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A start waits for an etcd that does not answer, and names its address in the log before an attempt is over. SIGTERM ends it
// well meanwhile.
func TestAStartThatWaitsForEtcdSaysSoAndEndsWell(t *testing.T) {
	t.Parallel()
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
	_ = cmd.Process.Signal(syscall.SIGTERM)
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
