package program

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Metrics reads /metrics: the value of each name, summed over its labels.
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
		name, _, _ := strings.Cut(line[:at], "{")
		out[name] += value
	}
	return out, lines.Err()
}

// Memory is what the kernel says of a process, in bytes.
type Memory struct {
	Resident int64 // now
	Peak     int64 // the most it ever was
}

// Memory reads /proc.
func (e *Emco) Memory() (Memory, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", e.PID()))
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
		}
	}
	return m, nil
}
