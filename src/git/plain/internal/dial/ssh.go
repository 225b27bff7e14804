package dial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/outbound"
	"github.com/emco-orchestrator/emco/src/git"
)

var (
	errBadKey       = errs.E(errs.Invalid, "ssh", "", errors.New("the key is not an unencrypted private key in PEM"))
	errNoKnownHosts = errs.E(errs.Invalid, "ssh", "", errors.New("known_hosts is empty; without it the server cannot be authenticated"))
)

// dialSSH runs a service on the server. The server must prove a key that is in KnownHosts, and is
// asked only for the kinds of keys that are listed there for it: a server with several keys could
// otherwise offer an unknown one.
func (d *Dialer) dialSSH(ctx context.Context, r git.Repo, a git.Address, service string) (Conversation, error) {
	addr := hostPort(a)
	conf, tried, err := sshConfig(r, a, addr)
	if err != nil {
		return nil, err
	}
	conn, err := outbound.Dialer(d.Admit).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	link, chans, reqs, err := ssh.NewClientConn(conn, addr, conf)
	if err != nil {
		stop()
		_ = conn.Close()
		return nil, sshFailure(err, *tried)
	}
	client := ssh.NewClient(link, chans, reqs)
	s, err := runSSH(client, serviceCommand(service, a.Path))
	if err != nil {
		stop()
		_ = client.Close()
		return nil, err
	}
	wait := s.wait
	s.wait = func() error {
		defer stop()
		return wait()
	}
	return s, nil
}

// hostPort returns the address to dial.
func hostPort(a git.Address) string { return net.JoinHostPort(a.Host, cmp.Or(a.Port, "22")) }

// sshUser returns the login name.
func sshUser(r git.Repo, a git.Address) string { return cmp.Or(a.User, r.User, "git") }

// serviceCommand returns the line that starts a service in the server's shell.
func serviceCommand(service, path string) string {
	if strings.HasPrefix(path, "/~") {
		path = path[1:] // ssh://host/~user/… is below a home directory
	}
	return service + " " + quote(path)
}

// runSSH starts a command in an SSH session of its own.
func runSSH(client *ssh.Client, command string) (*streamConversation, error) {
	run, err := client.NewSession()
	if err != nil {
		return nil, err
	}
	s := &streamConversation{stderr: &tailBuffer{}, wait: run.Wait, kill: func() { _ = client.Close() }}
	run.Stderr = s.stderr
	in, err := run.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := run.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.in, s.out = in, buffered(out)
	return s, run.Start(command)
}

// quote makes one word of a path for the server's shell.
func quote(path string) string {
	return "'" + strings.NewReplacer("'", `'\''`, "!", `'\!'`).Replace(path) + "'"
}

// sshConfig returns the settings, and a flag that is set once the server asks for our key, which it
// does only after it proved its own.
func sshConfig(r git.Repo, a git.Address, addr string) (*ssh.ClientConfig, *bool, error) {
	signer, err := ssh.ParsePrivateKey([]byte(r.SSHKey.Reveal()))
	if err != nil {
		return nil, nil, errBadKey
	}
	check, err := hostKeys(r.KnownHosts)
	if err != nil {
		return nil, nil, err
	}
	algorithms := algorithmsFor(check, addr)
	if len(algorithms) == 0 {
		return nil, nil, errs.E(errs.Forbidden, "ssh", "", fmt.Errorf("no key of %s in known_hosts", addr))
	}
	tried := new(bool)
	return &ssh.ClientConfig{
		User:              sshUser(r, a),
		HostKeyCallback:   check,
		HostKeyAlgorithms: algorithms,
		Timeout:           outbound.DialTimeout,
		Auth: []ssh.AuthMethod{ssh.PublicKeysCallback(func() ([]ssh.Signer, error) {
			*tried = true
			return []ssh.Signer{signer}, nil
		})},
	}, tried, nil
}

// hostKeys parses known_hosts lines. The parser reads files only.
func hostKeys(lines string) (ssh.HostKeyCallback, error) {
	if strings.TrimSpace(lines) == "" {
		return nil, errNoKnownHosts
	}
	f, err := os.CreateTemp("", "known_hosts")
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(lines)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	check, err := knownhosts.New(f.Name())
	if err != nil {
		return nil, errs.E(errs.Invalid, "ssh", "", errors.New("known_hosts is malformed"))
	}
	return check, nil
}

// algorithmsFor returns the kinds of keys that are known for a host, by checking a key that none
// has.
func algorithmsFor(check ssh.HostKeyCallback, addr string) []string {
	var unknown *knownhosts.KeyError
	if !errors.As(check(addr, &net.TCPAddr{IP: net.IPv4zero}, unknownKey{}), &unknown) {
		return nil
	}
	var algorithms []string
	for _, key := range unknown.Want {
		if kind := key.Key.Type(); kind == ssh.KeyAlgoRSA {
			algorithms = append(algorithms, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
		} else {
			algorithms = append(algorithms, kind)
		}
	}
	slices.Sort(algorithms)
	return slices.Compact(algorithms)
}

// unknownKey equals no key.
type unknownKey struct{}

func (unknownKey) Type() string                        { return "none" }
func (unknownKey) Marshal() []byte                     { return []byte("none") }
func (unknownKey) Verify([]byte, *ssh.Signature) error { return errors.New("not a real key") }

// sshFailure classifies errors before a connection is established.
func sshFailure(err error, tried bool) error {
	var changed *knownhosts.KeyError
	var revoked *knownhosts.RevokedError
	var network net.Error
	switch {
	case errors.As(err, &changed), errors.As(err, &revoked):
		return errs.E(errs.Forbidden, "ssh", "", errors.New("the server's key is not the one in known_hosts"))
	case errors.As(err, &network):
		return err
	case tried:
		return errs.E(errs.Unauthorized, "ssh", "", errors.New("the server does not accept the key"))
	}
	return err
}
