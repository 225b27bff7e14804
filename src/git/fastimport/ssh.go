package fastimport

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
)

// bySSH has ssh take the repository's key, from an agent that is this process, and believe
// its known hosts alone. What else is said of the way to the server is up to whoever runs
// this program.
func (j *job) bySSH(w *way, a git.Address) error {
	w.set("remote.origin.url", j.addressOf(a))
	if strings.TrimSpace(j.repo.KnownHosts) == "" {
		return errs.E(errs.Invalid, "", "", errors.New("known_hosts is empty; it is needed to tell the server from an impostor"))
	}
	hosts, err := w.file("known_hosts", strings.TrimRight(j.repo.KnownHosts, "\n")+"\n")
	if err != nil {
		return err
	}
	socket := filepath.Join(w.dir, "agent")
	if err := w.serveKey(socket, j.repo.SSHKey); err != nil {
		return err
	}
	options := []string{
		"BatchMode=yes", "StrictHostKeyChecking=yes", "UpdateHostKeys=no", "UserKnownHostsFile=" + hosts, "GlobalKnownHostsFile=/dev/null",
		"IdentityAgent=" + socket, "IdentityFile=none", "PreferredAuthentications=publickey", "ConnectTimeout=10",
		"ForwardAgent=no", "ForwardX11=no", "ClearAllForwardings=yes", "PermitLocalCommand=no", "ControlMaster=no", "ControlPath=none",
	}
	config := j.h.opt.SSHConfig
	if config == "" {
		config = "none"
		pinned, err := j.pin(a)
		if err != nil {
			return err
		}
		options = append(options, pinned...)
	}
	command := "ssh -F " + word(config)
	for _, o := range options {
		command += " -o " + word(o)
	}
	w.env = append(w.env, "GIT_SSH_VARIANT=ssh", "GIT_SSH_COMMAND="+command)
	return nil
}

// word quotes a word for the shell.
func word(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// addressOf returns the URL with the login name in it.
func (j *job) addressOf(a git.Address) string {
	if a.User != "" {
		return j.repo.URL
	}
	user := j.repo.User
	if user == "" {
		user = "git"
	}
	if rest, ok := strings.CutPrefix(j.repo.URL, "ssh://"); ok {
		return "ssh://" + user + "@" + rest
	}
	return user + "@" + j.repo.URL
}

// pin has ssh dial an address that was looked at, and look for the host's own name among
// the known ones.
func (j *job) pin(a git.Address) ([]string, error) {
	addr, err := j.resolve(a.Host)
	if err != nil || !addr.IsValid() {
		return nil, err
	}
	port := a.Port
	if port == "" {
		port = "22"
	}
	name := knownhosts.Normalize(net.JoinHostPort(a.Host, port))
	return []string{"HostName=" + addr.String(), "HostKeyAlias=" + name, "CheckHostIP=no"}, nil
}

// serveKey answers as an agent that has one key, until the way is closed.
func (w *way) serveKey(socket string, key git.Secret) error {
	private, err := ssh.ParseRawPrivateKey([]byte(key.Reveal()))
	if err != nil {
		return errs.E(errs.Invalid, "", "", errors.New("the key is not an unencrypted private key in PEM"))
	}
	ring := agent.NewKeyring()
	if err := ring.Add(agent.AddedKey{PrivateKey: private}); err != nil {
		return errs.E(errs.Invalid, "", "", errors.New("the key is of a kind that is not known"))
	}
	listener, err := net.Listen("unix", socket) // in a folder of our own that nobody else may enter
	if err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	k := &keeper{ring: ring, conns: map[net.Conn]bool{}}
	k.all.Go(func() { k.accept(listener) })
	w.closers = append([]func(){func() {
		_ = listener.Close()
		k.hangUp()
		k.all.Wait()
	}}, w.closers...)
	return nil
}

// keeper is the agent.
type keeper struct {
	ring agent.Agent
	all  sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool // nil: no more
}

func (k *keeper) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		if !k.take(conn) {
			_ = conn.Close()
			return
		}
		k.all.Go(func() {
			_ = agent.ServeAgent(signOnly{k.ring}, conn)
			_ = conn.Close()
		})
	}
}

func (k *keeper) take(conn net.Conn) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.conns == nil {
		return false
	}
	k.conns[conn] = true
	return true
}

func (k *keeper) hangUp() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for conn := range k.conns {
		_ = conn.Close()
	}
	k.conns = nil
}

// signOnly is an agent whose keys nobody changes.
type signOnly struct{ agent.Agent }

var errSignOnly = errors.New("this agent signs, and does nothing else")

// Add refuses.
func (signOnly) Add(agent.AddedKey) error { return errSignOnly }

// Remove refuses.
func (signOnly) Remove(ssh.PublicKey) error { return errSignOnly }

// RemoveAll refuses.
func (signOnly) RemoveAll() error { return errSignOnly }
