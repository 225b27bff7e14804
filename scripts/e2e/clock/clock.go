// Package clock writes overlays for `go build -overlay` with which time.Now adds the number of seconds in a file, for a
// program and all its libraries; Set writes that number. The monotonic clock goes on, as when an administrator sets the clock of a
// machine. Released programs do not contain it.
package clock

import (
	_ "embed"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Variable of the environment with the path of the file.
const Variable = "EMCO_CLOCK"

// jump becomes a file of package time.
//
//go:embed jump.go.txt
var jump []byte

// The line of time.Now that reads the clock, and what replaces it.
const (
	reads  = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	jumped = reads + "\tsec += jumpSeconds.Load()\n"
)

// Overlay writes an overlay for go build -overlay into a folder, and returns its path.
func Overlay(dir string) (string, error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", err
	}
	sources := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	text, err := os.ReadFile(filepath.Join(sources, "time.go"))
	if err != nil {
		return "", err
	}
	if strings.Count(string(text), reads) != 1 {
		return "", errors.New("time.Now of this Go release is not as expected; change reads in package clock")
	}
	changed := strings.Replace(string(text), reads, jumped, 1)
	now, added := filepath.Join(dir, "time.go"), filepath.Join(dir, "jump.go")
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {
		filepath.Join(sources, "time.go"): now, filepath.Join(sources, "jump.go"): added,
	}})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, errors.Join(os.WriteFile(now, []byte(changed), 0o600), os.WriteFile(added, jump, 0o600), os.WriteFile(path, overlay, 0o600))
}

// Set makes the clocks of programs that read a file jump, counted from the clock of the machine.
func Set(file string, by time.Duration) error {
	next := file + ".next"
	if err := os.WriteFile(next, strconv.AppendInt(nil, int64(by/time.Second), 10), 0o600); err != nil {
		return err
	}
	return os.Rename(next, file)
}
