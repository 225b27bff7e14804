package githubtest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"

	"github.com/emco-orchestrator/emco/src/git/gittest"
)

// gitObject is what a repository holds under a name.
type gitObject struct {
	id, kind string
	content  []byte
}

// objectStore reads the objects of a repository by one "git cat-file", and writes loose ones.
type objectStore struct {
	gittest.ObjectWriter

	mu  sync.Mutex // guards all below; held from a question to its answer
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// get returns the object that a revision names; false if there is none.
func (s *objectStore) get(revision string) (gitObject, bool, error) {
	if revision == "" || strings.ContainsAny(revision, " \n") {
		return gitObject{}, false, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.start(); err != nil {
		return gitObject{}, false, err
	}
	if _, err := fmt.Fprintln(s.in, revision); err != nil {
		return gitObject{}, false, err
	}
	head, err := s.out.ReadString('\n')
	if err != nil {
		return gitObject{}, false, err
	}
	if strings.HasSuffix(head, " missing\n") || strings.HasSuffix(head, " ambiguous\n") {
		return gitObject{}, false, nil
	}
	var o gitObject
	var size int
	if _, err := fmt.Sscanf(head, "%s %s %d", &o.id, &o.kind, &size); err != nil {
		return gitObject{}, false, fmt.Errorf("git cat-file prints %q", head)
	}
	o.content = make([]byte, size+1) // a line end follows
	_, err = io.ReadFull(s.out, o.content)
	o.content = o.content[:size]
	return o, err == nil, err
}

func (s *objectStore) start() error {
	if s.cmd != nil {
		return nil
	}
	cmd := exec.Command("git", "cat-file", "--batch")
	cmd.Dir, cmd.Env = s.Bare.Dir, append(os.Environ(), "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull)
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
func (s *objectStore) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd != nil {
		_ = s.in.Close()
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

// commit returns the commit of a name; false if there is none.
func (s *objectStore) commit(id string) (commitOf, bool, error) {
	o, ok, err := s.get(id)
	if err != nil || !ok || o.kind != "commit" {
		return commitOf{}, false, err
	}
	return parseCommit(o), true, nil
}

// ancestors returns a commit and all those in its history.
func (s *objectStore) ancestors(id string) (map[string]bool, error) {
	met, ready := map[string]bool{}, []string{id}
	for len(ready) > 0 {
		id, ready = ready[0], ready[1:]
		if met[id] {
			continue
		}
		met[id] = true
		c, ok, err := s.commit(id)
		if err != nil || !ok {
			return nil, fmt.Errorf("commit %s: found %v, %w", id, ok, err)
		}
		for _, p := range c.Parents {
			ready = append(ready, p.SHA)
		}
	}
	return met, nil
}
