package dial

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/outbound"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/transport"
)

// sshEnvironment lists the variables that the ssh program inherits.
var sshEnvironment = []string{
	"PATH", "HOME", "TMPDIR", "SSH_AUTH_SOCK", "KRB5CCNAME", "KRB5_CONFIG",
	"http_proxy", "https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY",
}

// dialSSHProgram runs a service on the server through the ssh program, as the git program does:
//
//	ssh [-p port] -l user host "git-upload-pack 'path'"
//
// The repository brings the credentials. The operator's SSHConfig determines how
// servers are reached (jump hosts, hardware keys, proxies).
func (d *Dialer) dialSSHProgram(ctx context.Context, r git.Repo, a git.Address, service string) (Conversation, error) {
	d.sweepLeftovers(os.TempDir(), time.Now())
	dir, err := os.MkdirTemp("", conversationPrefix)
	if err != nil {
		return nil, err
	}
	options, keys, err := d.sshOptions(ctx, r, a, dir)
	release := func() {
		keys.close()
		_ = os.RemoveAll(dir)
	}
	if err != nil {
		release()
		return nil, err
	}
	args := []string{"-F", "none"}
	if d.SSHConfig != "" {
		args[1] = d.SSHConfig
	}
	for _, o := range options {
		args = append(args, "-o", o)
	}
	if a.Port != "" {
		args = append(args, "-p", a.Port)
	}
	args = append(args, "-l", sshUser(r, a), a.Host, serviceCommand(service, a.Path))
	ctx, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, d.SSH, args...)
	cmd.Env = []string{"LC_ALL=C"}
	for _, name := range sshEnvironment {
		if value, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	killWithChildren(cmd)
	s, err := startProgram(cmd, cancel)
	if err != nil {
		release()
		return nil, err
	}
	s.kindOf = kindOfSSH
	wait := s.wait
	s.wait = func() error {
		defer release()
		return wait()
	}
	return s, nil
}

// sshOptions returns the options of one run, whose files are in dir, and the agent that signs with
// the repository's key. A repository without a key, or without known hosts, relies on the
// operator's configuration, and is refused where there is none.
func (d *Dialer) sshOptions(ctx context.Context, r git.Repo, a git.Address, dir string) ([]string, *keyAgent, error) {
	options := []string{
		"BatchMode=yes", "StrictHostKeyChecking=yes", "UpdateHostKeys=no", "ConnectTimeout=10", "LogLevel=ERROR",
		"ForwardAgent=no", "ForwardX11=no", "ClearAllForwardings=yes", "PermitLocalCommand=no", "ControlMaster=no", "ControlPath=none",
	}
	switch {
	case strings.TrimSpace(r.KnownHosts) != "":
		path := filepath.Join(dir, "known_hosts")
		if err := os.WriteFile(path, []byte(strings.TrimRight(r.KnownHosts, "\n")+"\n"), 0o600); err != nil {
			return nil, nil, err
		}
		options = append(options, "UserKnownHostsFile="+path, "GlobalKnownHostsFile="+os.DevNull)
	case d.SSHConfig == "":
		return nil, nil, errNoKnownHosts
	}
	if d.SSHConfig == "" {
		pinned, err := d.pinAddress(ctx, a)
		if err != nil {
			return nil, nil, err
		}
		options = append(options, pinned...)
	}
	if r.SSHKey == "" && d.SSHConfig != "" {
		return options, nil, nil
	}
	socket := filepath.Join(dir, agentSocket)
	keys, err := startAgent(socket, r.SSHKey)
	return append(options, "IdentityAgent="+socket, "IdentityFile=none", "PreferredAuthentications=publickey"), keys, err
}

// pinAddress makes ssh dial an address that Admit allows, and look up the server's key by
// the name in the URL.
func (d *Dialer) pinAddress(ctx context.Context, a git.Address) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, outbound.DialTimeout)
	defer cancel()
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", a.Host)
	if err != nil {
		return nil, errs.E(errs.Unavailable, "", "", fmt.Errorf("host %s has no address", a.Host))
	}
	for _, addr := range addresses {
		if err := d.Admit(addr.Unmap()); err != nil {
			return nil, err
		}
	}
	return []string{"HostName=" + addresses[0].Unmap().String(), "HostKeyAlias=" + knownhosts.Normalize(hostPort(a)), "CheckHostIP=no"}, nil
}

// kindOfSSH classifies what ssh, or the service behind it, wrote before it failed.
func kindOfSSH(text string) errs.Kind {
	low := strings.ToLower(text)
	switch {
	case strings.Contains(low, "permission denied ("):
		return errs.Unauthorized
	case strings.Contains(low, "host key verification failed"):
		return errs.Forbidden
	}
	return transport.KindOfMessage(text)
}

// keyAgent is an ssh agent that signs with one key. The key never leaves this process. The agent
// serves from startAgent to close.
type keyAgent struct {
	listener net.Listener
	keyring  agent.Agent
	all      sync.WaitGroup // accept, and one goroutine for each connection

	mu    sync.Mutex
	conns map[net.Conn]bool // open connections; nil after close; guarded by mu
}

// startAgent serves a key at a socket, which must be in a folder that other users cannot enter.
func startAgent(socket string, key git.Secret) (*keyAgent, error) {
	private, err := ssh.ParseRawPrivateKey([]byte(key.Reveal()))
	if err != nil {
		return nil, errBadKey
	}
	keyring := agent.NewKeyring()
	if err := keyring.Add(agent.AddedKey{PrivateKey: private}); err != nil {
		return nil, errBadKey
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("start the ssh agent: %w", err)
	}
	k := &keyAgent{listener: listener, keyring: signOnly{keyring}, conns: map[net.Conn]bool{}}
	k.all.Go(k.accept)
	return k, nil
}

func (k *keyAgent) accept() {
	for {
		conn, err := k.listener.Accept()
		if err != nil {
			return
		}
		k.mu.Lock()
		open := k.conns != nil
		if open {
			k.conns[conn] = true
		}
		k.mu.Unlock()
		if !open {
			_ = conn.Close()
			return
		}
		k.all.Go(func() {
			_ = agent.ServeAgent(k.keyring, conn)
			_ = conn.Close()
		})
	}
}

// close ends the agent and waits for its goroutines. A nil agent is closed already.
func (k *keyAgent) close() {
	if k == nil {
		return
	}
	_ = k.listener.Close()
	k.mu.Lock()
	for conn := range k.conns {
		_ = conn.Close()
	}
	k.conns = nil
	k.mu.Unlock()
	k.all.Wait()
}

// signOnly is an agent whose keys cannot be changed.
type signOnly struct{ agent.Agent }

var errSignOnly = errors.New("this agent only signs")

// Add refuses.
func (signOnly) Add(agent.AddedKey) error { return errSignOnly }

// Remove refuses.
func (signOnly) Remove(ssh.PublicKey) error { return errSignOnly }

// RemoveAll refuses.
func (signOnly) RemoveAll() error { return errSignOnly }
