package dial

import (
	"context"
	"errors"
	"os"
	"os/exec"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/git"
)

// dialFile runs the service of the git program on a bare repository of this machine. It is
// for tests and demos.
func (d *Dialer) dialFile(ctx context.Context, a git.Address, service string) (Conversation, error) {
	if _, err := os.Stat(a.Path); err != nil {
		return nil, errs.E(errs.NotFound, service, "", errors.New("no such repository"))
	}
	ctx, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, d.Git, "-c", "safe.directory=*", service[len("git-"):], "--", a.Path)
	if service == ReceivePack {
		cmd.Args = append(cmd.Args[:4], a.Path) // older versions of receive-pack do not accept "--"; the path is absolute
	}
	cmd.Env = append(os.Environ(), "LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_PROTOCOL=")
	return startProgram(cmd, cancel)
}

// startProgram starts a program whose standard streams are those of a service. kill ends it.
func startProgram(cmd *exec.Cmd, kill context.CancelFunc) (*streamConversation, error) {
	cmd.WaitDelay = exitGrace // a child of the program may hold the error stream open
	s := &streamConversation{stderr: &tailBuffer{}, kill: kill, wait: cmd.Wait}
	cmd.Stderr = s.stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		kill()
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		kill()
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		kill()
		return nil, err
	}
	s.in, s.out = in, buffered(out)
	return s, nil
}
