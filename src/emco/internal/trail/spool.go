package trail

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/emco-orchestrator/emco/src/api/audit"
)

// spool is a file of lines that may not be in etcd yet. It survives the end of the process, but it does not
// wait for the disk. Its size does not change: appending to a file would make the syncs of other files of the disk
// wait for it.
type spool struct {
	file *os.File
	id   string
	next int64 // ordinal of the next line
	used int64 // bytes
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
	s := &spool{file: f, id: rand.Text(), next: 1}
	left, err := s.read()
	if err == nil && len(left) == 0 {
		err = s.empty()
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, fmt.Errorf("the spool of the audit log %s: %w", path, err)
	}
	return s, left, nil
}

// read reads header and lines, and makes the file if there is none.
func (s *spool) read() (left []pendingLine, err error) {
	text, err := io.ReadAll(io.LimitReader(s.file, spoolBytes))
	if err != nil {
		return nil, err
	}
	if len(text) < spoolBytes { // it is new, or the process that made it was killed meanwhile
		if _, err := s.file.WriteAt(make([]byte, spoolBytes), 0); err != nil {
			return nil, err
		}
		return nil, s.file.Sync()
	}
	var h spoolHeader
	if err := json.Unmarshal(bytes.TrimRight(text[:headerSize], " \x00\n"), &h); err != nil {
		return nil, nil // it was never used
	}
	s.id, s.next, s.used = h.ID, h.Next, headerSize
	in := bufio.NewReader(bytes.NewReader(text[headerSize:]))
	for {
		text, err := in.ReadBytes('\n')
		ordinal, line, _ := bytes.Cut(text, []byte(" "))
		var l audit.Line
		if err != nil || string(ordinal) != strconv.FormatInt(s.next, 10) || json.Unmarshal(line, &l) != nil {
			return left, nil
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
	if _, err := s.file.WriteAt(text, s.used); err != nil {
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
	if _, err = s.file.WriteAt(append(text, '\n'), 0); err == nil {
		s.used = headerSize
	}
	return err
}
