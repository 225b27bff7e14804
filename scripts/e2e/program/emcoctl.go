package program

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// Result is the result of a run of emcoctl.
type Result struct {
	Code     int // exit code; -1 if it did not run or was killed
	Out, Err string
}

// Emcoctl runs the CLI against this emco, in a folder without a configuration.
func (e *Emco) Emcoctl(ctx context.Context, args ...string) Result {
	return e.EmcoctlAt(ctx, e.URL(), args...)
}

// EmcoctlAt runs the CLI in the same folder against another address, such as that of a proxy.
func (e *Emco) EmcoctlAt(ctx context.Context, server string, args ...string) Result {
	cmd := exec.CommandContext(ctx, filepath.Join(e.options.Bin, "emcoctl"), append(args, "--server", server)...)
	cmd.Dir = e.options.Dir
	cmd.Env = append(os.Environ(), "HOME="+e.options.Dir, "EMCO_URL=", "EMCO_TOKEN=")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	if cmd.ProcessState == nil {
		said.WriteString(err.Error())
		return Result{Code: -1, Err: said.String()}
	}
	return Result{Code: cmd.ProcessState.ExitCode(), Out: out.String(), Err: said.String()}
}
