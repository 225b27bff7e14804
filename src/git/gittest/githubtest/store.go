package githubtest

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/emco-orchestrator/emco/src/git/gittest"
)

// object is what a repository holds under a name.
type object struct {
	id, kind string
	content  []byte
}

// store reads the objects of a repository by one "git cat-file", and writes loose ones.
type store struct {
	bare gittest.Bare

	mu  sync.Mutex
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// get returns the object that a revision names; false if there is none.
func (s *store) get(revision string) (object, bool, error) {
	if revision == "" || strings.ContainsAny(revision, " \n") {
		return object{}, false, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.start(); err != nil {
		return object{}, false, err
	}
	if _, err := fmt.Fprintln(s.in, revision); err != nil {
		return object{}, false, err
	}
	head, err := s.out.ReadString('\n')
	if err != nil {
		return object{}, false, err
	}
	if strings.HasSuffix(head, " missing\n") || strings.HasSuffix(head, " ambiguous\n") {
		return object{}, false, nil
	}
	var o object
	var size int
	if _, err := fmt.Sscanf(head, "%s %s %d", &o.id, &o.kind, &size); err != nil {
		return object{}, false, fmt.Errorf("git cat-file says %q", head)
	}
	o.content = make([]byte, size+1) // a line end follows
	_, err = io.ReadFull(s.out, o.content)
	o.content = o.content[:size]
	return o, err == nil, err
}

func (s *store) start() error {
	if s.cmd != nil {
		return nil
	}
	cmd := exec.Command("git", "cat-file", "--batch")
	cmd.Dir, cmd.Env = s.bare.Dir, append(os.Environ(), "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull)
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.cmd, s.in, s.out = cmd, in, bufio.NewReader(out)
	return nil
}

// close ends the git program.
func (s *store) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd != nil {
		_ = s.in.Close()
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

// put writes an object, unless it is there, and returns its name.
func (s *store) put(kind string, content []byte) (string, error) {
	raw := append(fmt.Appendf(nil, "%s %d\x00", kind, len(content)), content...)
	sum := sha1.Sum(raw)
	id := hex.EncodeToString(sum[:])
	path := filepath.Join(s.bare.Dir, "objects", id[:2], id[2:])
	if _, err := os.Stat(path); err == nil {
		return id, nil
	}
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	if _, err := z.Write(raw); err != nil {
		return "", err
	}
	if err := z.Close(); err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "tmp_obj_")
	if err != nil {
		return "", err
	}
	_, err = f.Write(packed.Bytes())
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	return id, err
}
