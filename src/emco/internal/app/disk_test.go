package app_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/disktest"
)

// wholeProgram as first argument makes the test program emco with the other arguments.
const wholeProgram = "emco"

// smallDisk is a disk that a test fills while emco runs on it.
type smallDisk struct {
	*testing.T
	*disktest.Disk
	dir string
}

// newSmallDisk mounts a disk. A machine that does not allow that skips the test.
func newSmallDisk(t *testing.T, mebibytes int) *smallDisk {
	t.Helper()
	d := &smallDisk{T: t, dir: t.TempDir()}
	if d.Disk = disktest.New(t, d.dir, mebibytes); d.Disk == nil {
		t.Skip("this machine does not allow to mount a tmpfs, or has no nsenter")
	}
	t.Cleanup(func() { d.run("kill $pid; wait $pid") })
	return d
}

// run carries out a command and returns the last line that it prints.
func (d *smallDisk) run(command string) string {
	d.Helper()
	last, err := d.Disk.Run(command)
	if err != nil {
		d.Fatal(err)
	}
	return last
}

// leave fills the disk until so many MiB are free; -1 empties it.
func (d *smallDisk) leave(mebibytes int) {
	d.Helper()
	if err := d.Leave(mebibytes); err != nil {
		d.Fatal(err)
	}
}

// start starts emco with its data on the disk and its log elsewhere, and returns its address. It is
// empty if the program ends. A test that fails prints the log.
func (d *smallDisk) start(log string) (address string) {
	d.Helper()
	d.Cleanup(func() {
		if text, err := os.ReadFile(log); d.Failed() {
			d.Logf("%v; the log of the program: %s", err, text[max(0, len(text)-16<<10):])
		}
	})
	d.run(fmt.Sprintf("%s %s -data %s/data -http.address 127.0.0.1:0 -grpc.address= -diskReserve %d >%s 2>&1 </dev/null & pid=$!",
		os.Args[0], wholeProgram, d.dir, 128<<20, log))
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		text, err := os.ReadFile(log)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			d.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			var served struct{ Msg, Address string }
			if json.Unmarshal([]byte(line), &served) == nil && served.Msg == "emco serves" {
				return "http://" + served.Address
			}
		}
		if d.run("kill -0 $pid 2>/dev/null && echo lives || echo ended") == "ended" {
			return ""
		}
	}
	d.Fatal("the program neither serves nor ends")
	return ""
}

// ask sends a request and returns status and text of the answer.
func (d *smallDisk) ask(method, url, body string) (int, string) {
	d.Helper()
	req, err := http.NewRequestWithContext(d.Context(), method, url, strings.NewReader(body))
	if err != nil {
		d.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		d.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		d.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// named returns the number that follows words in a text.
func (d *smallDisk) named(text, words string) (n int) {
	d.Helper()
	_, after, _ := strings.Cut(text, words)
	if _, err := fmt.Sscanf(after, "%d MiB are free", &n); err != nil {
		d.Fatalf("%s: %v", text, err)
	}
	return n
}

// A disk that fills up makes the program unready first, then refuses writes with the reason, while
// reads go on. It never panics, goes on when there is space again, and a start on a full disk ends
// with a message.
func TestF64AFullDiskRefusesWrites(t *testing.T) {
	t.Parallel()
	d := newSmallDisk(t, 640)
	log := filepath.Join(t.TempDir(), "log")
	at := d.start(log)
	projects := 0
	create := func(status int, contains string) {
		t.Helper()
		projects++
		body := fmt.Sprintf(`{"metadata":{"name":"p%d"},"spec":{}}`, projects)
		if got, text := d.ask("POST", at+"/v2/projects", body); got != status || !strings.Contains(text, contains) {
			t.Errorf("creating a project: %d %s, want %d with %q", got, text, status, contains)
		}
	}
	ready := func(status int, contains string) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			got, text := d.ask("GET", at+"/readyz", "")
			if got == status && strings.Contains(text, contains) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("/readyz: %d %s, want %d with %q", got, text, status, contains)
			}
		}
	}
	ready(200, "ok")
	create(201, "")

	d.leave(200)
	ready(503, "below 128 MiB (diskReserve) nothing is written any longer")
	create(201, "")

	for _, left := range []int{100, 0} {
		d.leave(left)
		const full = "the disk is nearly full: "
		ready(503, full)
		// The program measures every 50 ms at most, so its first number may be from the middle of the fill.
		eventually(t, fmt.Sprintf("/readyz says that at most %d MiB are free", left), func() string {
			if got, text := d.ask("GET", at+"/readyz", ""); got != 503 || d.named(text, full) > left {
				return fmt.Sprint(got, " ", text)
			}
			return ""
		})
		create(507, full)
		if got, text := d.ask("GET", at+"/v2/projects", ""); got != 200 || !strings.Contains(text, "p2") || strings.Contains(text, "p3") {
			t.Errorf("projects: %d %s", got, text)
		}
		if got, text := d.ask("POST", at+"/v2/projects?dryRun=true", `{"metadata":{"name":"tried"},"spec":{}}`); got != 201 {
			t.Errorf("a dry run: %d %s, want 201: it writes nothing", got, text)
		}
	}
	eventually(t, "without room for the audit log deletions are refused", func() string {
		got, text := d.ask("DELETE", at+"/v2/projects/absent", "")
		if got == 503 && strings.Contains(text, "write the audit log") {
			return ""
		}
		return fmt.Sprint(got, " ", text)
	})
	eventually(t, "what runs in the background notices the full disk, and does not end the program", func() string {
		_, text := d.ask("GET", at+"/metrics", "")
		for line := range strings.Lines(text) {
			if value, ok := strings.CutPrefix(line, "emco_disk_free_bytes "); ok && number(strings.TrimSpace(value)) < 1<<20 {
				return ""
			}
		}
		return text
	})

	d.leave(-1)
	ready(200, "ok")
	create(201, "")

	d.run("kill -9 $pid; wait $pid 2>/dev/null")
	d.leave(0)
	full := filepath.Join(t.TempDir(), "log")
	began := time.Now()
	if at := d.start(full); at != "" {
		t.Error("the program starts on a full disk")
	}
	text, err := os.ReadFile(full)
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 10*time.Second || !strings.Contains(string(text), "a start needs 16 MiB; free some space") || strings.Contains(string(text), "goroutine") {
		t.Errorf("after %s the program says %s", took, text)
	}

	d.leave(100)
	at = d.start(filepath.Join(t.TempDir(), "log"))
	ready(503, "the disk is nearly full")
	d.leave(-1)
	ready(200, "ok")
	create(201, "")
	if text, err := os.ReadFile(log); err != nil || strings.Contains(string(text), "panic") || strings.Contains(string(text), "goroutine ") {
		t.Errorf("%v; the log holds a panic:\n%s", err, text)
	}
}
