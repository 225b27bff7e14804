package gittest

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// SSHServer serves the bare repositories below a directory over SSH on 127.0.0.1.
// It runs git-upload-pack and git-receive-pack and nothing else, for clients with
// its client key.
type SSHServer struct {
	dir    string
	listen net.Listener
	conf   *ssh.ServerConfig
	host   ssh.PublicKey
	key    string
	wg     sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool // nil once closed; guarded by mu
}

// ServeSSH starts a server; Close ends it.
func ServeSSH(dir string) (*SSHServer, error) {
	host, _, err := newKey()
	if err != nil {
		return nil, err
	}
	client, text, err := newKey()
	if err != nil {
		return nil, err
	}
	s := &SSHServer{dir: dir, host: host.PublicKey(), key: text, conns: map[net.Conn]bool{}}
	s.conf = &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, k ssh.PublicKey) (*ssh.Permissions, error) {
		if string(k.Marshal()) != string(client.PublicKey().Marshal()) {
			return nil, errors.New("unknown key")
		}
		return nil, nil
	}}
	s.conf.AddHostKey(host)
	if s.listen, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	s.wg.Go(s.accept)
	return s, nil
}

// newKey makes a key pair; text is the private key in PEM.
func newKey() (ssh.Signer, string, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, "", err
	}
	block, err := ssh.MarshalPrivateKey(private, "test")
	if err != nil {
		return nil, "", err
	}
	signer, err := ssh.NewSignerFromKey(private)
	return signer, string(pem.EncodeToMemory(block)), err
}

// NewKey returns a private key in PEM that no server knows.
func NewKey() (string, error) {
	_, text, err := newKey()
	return text, err
}

// URL returns the URL of a repository.
func (s *SSHServer) URL(repo string) string {
	return "ssh://git@" + s.listen.Addr().String() + "/" + repo + ".git"
}

// Key returns the private key, in PEM, that the server accepts.
func (s *SSHServer) Key() string { return s.key }

// KnownHosts returns the line that makes a client trust the server.
func (s *SSHServer) KnownHosts() string {
	return knownhosts.Line([]string{knownhosts.Normalize(s.listen.Addr().String())}, s.host) + "\n"
}

// Close ends the server and waits for it.
func (s *SSHServer) Close() error {
	err := s.listen.Close()
	s.mu.Lock()
	for c := range s.conns {
		_ = c.Close()
	}
	s.conns = nil
	s.mu.Unlock()
	s.wg.Wait()
	return err
}

func (s *SSHServer) accept() {
	for {
		conn, err := s.listen.Accept()
		if err != nil {
			return
		}
		s.wg.Go(func() { s.serve(conn) })
	}
}

func (s *SSHServer) serve(conn net.Conn) {
	defer conn.Close()
	s.mu.Lock()
	open := s.conns != nil
	if open {
		s.conns[conn] = true
	}
	s.mu.Unlock()
	if !open {
		return
	}
	defer func() {
		s.mu.Lock()
		delete(s.conns, conn)
		s.mu.Unlock()
	}()
	_, chans, reqs, err := ssh.NewServerConn(conn, s.conf)
	if err != nil {
		return
	}
	s.wg.Go(func() { ssh.DiscardRequests(reqs) })
	for c := range chans {
		if c.ChannelType() != "session" {
			_ = c.Reject(ssh.UnknownChannelType, "only sessions")
			continue
		}
		ch, in, err := c.Accept()
		if err != nil {
			return
		}
		s.wg.Go(func() { s.session(ch, in) })
	}
}

// session runs the one command that a session asks for.
func (s *SSHServer) session(ch ssh.Channel, in <-chan *ssh.Request) {
	defer ch.Close()
	for r := range in {
		if r.Type != "exec" || len(r.Payload) < 4 {
			_ = r.Reply(false, nil)
			continue
		}
		_ = r.Reply(true, nil)
		code := s.run(ch, string(r.Payload[4:]))
		_, _ = ch.SendRequest("exit-status", false, binary.BigEndian.AppendUint32(nil, code))
		return
	}
}

func (s *SSHServer) run(ch ssh.Channel, line string) uint32 {
	service, path, _ := strings.Cut(line, " ")
	if service != "git-upload-pack" && service != "git-receive-pack" {
		_, _ = io.WriteString(ch.Stderr(), "command not allowed\n")
		return 1
	}
	name := strings.TrimSuffix(strings.Trim(path, "'/"), ".git")
	if !repoName.MatchString(name) {
		_, _ = io.WriteString(ch.Stderr(), "repository not found\n")
		return 1
	}
	cmd := exec.Command("git", strings.TrimPrefix(service, "git-"), filepath.Join(s.dir, name+".git"))
	cmd.Env, cmd.Stdout, cmd.Stderr = gitEnv(), ch, ch.Stderr()
	in, err := cmd.StdinPipe()
	if err != nil || cmd.Start() != nil {
		return 1
	}
	s.wg.Go(func() { // ends when the session closes the channel
		_, _ = io.Copy(in, ch)
		_ = in.Close()
	})
	err = cmd.Wait()
	_ = ch.CloseWrite()
	if err != nil {
		return 1
	}
	return 0
}
