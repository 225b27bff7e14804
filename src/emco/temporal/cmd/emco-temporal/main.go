// Command emco-temporal is emco with a client of Temporal, for workflows of the runner temporal.
package main

import (
	"log/slog"
	"net/netip"
	"os"

	"github.com/emco-orchestrator/emco/src/emco/internal/app"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/emco/temporal/temporalrunner"
)

func main() {
	os.Exit(app.Main(os.Args[1:], app.IO{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, app.WithTemporal(open)))
}

func open(c config.Temporal, admit func(netip.Addr) error, log *slog.Logger) (app.TemporalRunner, error) {
	r, err := temporalrunner.New(c, admit, log)
	if err != nil {
		return nil, err
	}
	return r, nil
}
