package auditlog

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"syscall"

	"github.com/emco-orchestrator/emco/src/api/audit"
)

// spool is a file of lines that may not be in etcd yet. It survives the end of the process, but it does not
// wait for the disk. Its size does not change: appending to a file would make the syncs of other files of the disk
// wait for it. It is in memory, because a call of the system for each line would cost more than all else that the relaxed log does
// before an answer.
type spool struct {
	memory []byte // the file
	id     string
	next   int64 // ordinal of the next line
	used   int64 // bytes
}

// spoolHeader is the first line of the file. The others begin with their ordinals: what is behind the last of them
// is from before the file was emptied.
type spoolHeader struct {
	ID   string `json:"spool"`
	Next int64  `json:"next"` // ordinal of the first line
}

const (
	spoolBytes = 2 << 20
	headerSize = 128
)

var errSpoolFull = errors.New("the spool of the audit log is full")

// openSpool opens the file, and returns the lines that are in it.
func openSpool(path string) (*spool, []pendingLine, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("the spool of the audit log: %w", err)
	}
	s := &spool{id: rand.Text(), next: 1}
	if s.memory, err = inMemory(f); err != nil {
		return nil, nil, fmt.Errorf("the spool of the audit log %s: %w", path, errors.Join(err, f.Close()))
	}
	var left []pendingLine
	if err = faults(func() { left = s.read() }); err == nil && len(left) == 0 {
		err = s.empty()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, nil, fmt.Errorf("the spool of the audit log %s: %w", path, errors.Join(err, s.close()))
	}
	return s, left, nil
}

// inMemory makes the file if it is new, and maps it.
func inMemory(f *os.File) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() < spoolBytes { // it is new, or the process that made it was killed meanwhile
		_, err := f.WriteAt(make([]byte, spoolBytes), 0)
		if err = errors.Join(err, f.Sync()); err != nil {
			return nil, err
		}
	}
	return syscall.Mmap(int(f.Fd()), 0, spoolBytes, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
}

// close gives the memory back; nothing may be added afterwards.
func (s *spool) close() error { return syscall.Munmap(s.memory) }

// read reads header and lines.
func (s *spool) read() (left []pendingLine) {
	var h spoolHeader
	if err := json.Unmarshal(bytes.TrimRight(s.memory[:headerSize], " \x00\n"), &h); err != nil {
		return nil // it was never used
	}
	s.id, s.next, s.used = h.ID, h.Next, headerSize
	in := bufio.NewReader(bytes.NewReader(s.memory[headerSize:]))
	for {
		text, err := in.ReadBytes('\n')
		ordinal, line, _ := bytes.Cut(text, []byte(" "))
		var l audit.Line
		if err != nil || string(ordinal) != strconv.FormatInt(s.next, 10) || json.Unmarshal(line, &l) != nil {
			return left
		}
		left = append(left, pendingLine{line: l, ordinal: s.next})
		s.next, s.used = s.next+1, s.used+int64(len(text))
	}
}

// add appends a line.
func (s *spool) add(p *pendingLine) error {
	line, err := p.line.Encode()
	if err != nil {
		return err
	}
	text := strconv.AppendInt(make([]byte, 0, len(line)+24), s.next, 10)
	text = append(append(append(text, ' '), line...), '\n')
	if s.used+int64(len(text)) > spoolBytes {
		return errSpoolFull
	}
	if err := s.write(text, s.used); err != nil {
		return err
	}
	p.ordinal = s.next
	s.next, s.used = s.next+1, s.used+int64(len(text))
	return nil
}

// empty removes all lines.
func (s *spool) empty() error {
	text, err := json.Marshal(spoolHeader{s.id, s.next})
	if err != nil {
		return err
	}
	text = append(text, bytes.Repeat([]byte(" "), headerSize-1-len(text))...)
	if err := s.write(append(text, '\n'), 0); err != nil {
		return err
	}
	s.used = headerSize
	return nil
}

// write writes a text, and its first byte last: a process that is killed meanwhile leaves no line that is new in part.
func (s *spool) write(text []byte, at int64) error {
	return faults(func() {
		s.memory[at] = 0
		copy(s.memory[at+1:], text[1:])
		s.memory[at] = text[0]
	})
}

// faults returns the error of a disk that fails, or has no room, while its file is read or written in memory.
func faults(do func()) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("the file cannot be read or written: %v", fault)
		}
	}()
	do()
	return nil
}
