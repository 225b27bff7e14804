package process

import (
	"bytes"
	"errors"
	"os"
	"strings"
)

// attempts is the number of starts when the port is taken.
const attempts = 4

// PortTaken reports whether a process ended because another server listens on its port. Servers report
// that only in their logs.
func PortTaken(err error) bool {
	f, ok := errors.AsType[*Failure](err)
	return ok && strings.Contains(f.Log, "address already in use")
}

// Retry calls start, and again while it fails with PortTaken; start must pick new ports each time.
func Retry(start func() error) error {
	var err error
	for range attempts {
		if err = start(); !PortTaken(err) {
			return err
		}
	}
	return err
}

// Tail returns the last n lines of a file, at most 8 KB. If the file cannot be read it returns the
// reason.
func Tail(path string, n int) string {
	const most = 8 << 10
	data, err := os.ReadFile(path)
	if err != nil {
		return "(" + err.Error() + ")"
	}
	data = bytes.TrimRight(data, "\n")
	if len(data) > most {
		data = data[len(data)-most:]
	}
	lines := bytes.Split(data, []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-n):], []byte("\n")))
}
