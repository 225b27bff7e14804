package program

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Metrics reads /metrics: the value of each name with its labels, and of each name,
// summed over its labels.
func (e *Emco) Metrics(ctx context.Context) (map[string]float64, error) {
	text, err := e.Get(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	out := map[string]float64{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		line := lines.Text()
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || strings.HasPrefix(line, "#") {
			continue
		}
		value, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("metrics line %q: %w", line, err)
		}
		name, _, labelled := strings.Cut(line[:at], "{")
		if out[name] += value; labelled {
			out[line[:at]] = value
		}
	}
	return out, lines.Err()
}

// Memory is the kernel's memory figures of a process, in bytes.
type Memory struct {
	Resident  int64 // now
	Peak      int64 // the maximum so far
	Anonymous int64 // the part of Resident that the process allocated: Go's heap and stacks
	Mapped    int64 // the part of Resident that shows files: the program itself, and etcd's database
}

// Memory reads /proc.
func (e *Emco) Memory() (Memory, error) { return MemoryOf(e.PID()) }

// MemoryOf reads the figures of a process from /proc.
func MemoryOf(pid int) (Memory, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Memory{}, err
	}
	var m Memory
	for line := range strings.Lines(string(text)) {
		field := strings.Fields(line)
		if len(field) != 3 {
			continue
		}
		kib, _ := strconv.ParseInt(field[1], 10, 64)
		switch field[0] {
		case "VmRSS:":
			m.Resident = kib << 10
		case "VmHWM:":
			m.Peak = kib << 10
		case "RssAnon:":
			m.Anonymous = kib << 10
		case "RssFile:":
			m.Mapped = kib << 10
		}
	}
	return m, nil
}

// Profile reads a profile of Go's run time, such as "heap?gc=1", which collects garbage before. It needs
// the setting debug.address.
func (e *Emco) Profile(ctx context.Context, name string) ([]byte, error) {
	address := logged(LogPath(e.options.Dir), e.logStart, "profiles are served")
	if address == "" {
		return nil, errors.New("emco does not log the address of its profiles; start it with -debug.address 127.0.0.1:0")
	}
	return get(ctx, "http://"+address+"/debug/pprof/"+name, "")
}

// Stored is the number of bytes that the process has written to storage so far.
func (e *Emco) Stored() (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", e.PID()))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if number, ok := strings.CutPrefix(line, "write_bytes: "); ok {
			return strconv.ParseInt(strings.TrimSpace(number), 10, 64)
		}
	}
	return 0, fmt.Errorf("/proc/%d/io has no write_bytes", e.PID())
}
