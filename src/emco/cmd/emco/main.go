// Command emco runs the control plane: all services in one process by default, or the services that -target names. It
// also has commands for operators, such as backup and doctor.
package main

import (
	"os"

	"github.com/emco-orchestrator/emco/src/emco/internal/app"
)

func main() {
	os.Exit(app.Main(os.Args[1:], app.IO{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
}
