package app

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/shards"
	"github.com/emco-orchestrator/emco/src/emco/internal/socket"
)

const levelUsage = `emco level [flags] show   show the level of stored data of a running emco
emco level [flags] raise  raise it to what all processes know; older versions no longer start then
`

// mountLevel adds the requests of emco level to the socket of the process.
func mountLevel(mux *http.ServeMux, level *shards.Level) {
	mux.HandleFunc("GET /level", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintln(w, level.State())
	})
	mux.HandleFunc("POST /level/raise", func(w http.ResponseWriter, r *http.Request) {
		from, to, err := level.Raise(r.Context())
		if err != nil {
			http.Error(w, err.Error(), errs.Status(errs.KindOf(err)))
			return
		}
		_, _ = fmt.Fprintf(w, "the level of the stores rose from %d to %d; versions that know less no longer start\n", from, to)
	})
}

// levelCommand asks the process that owns the data folder about the level of stored data.
func levelCommand(args []string, std IO) int {
	verb := ""
	if n := len(args); n > 0 {
		verb, args = args[n-1], args[:n-1]
	}
	request := map[string][2]string{"show": {http.MethodGet, "/level"}, "raise": {http.MethodPost, "/level/raise"}}[verb]
	if request[0] == "" {
		_, _ = io.WriteString(std.Err, "emco level: use\n"+levelUsage)
		return exitUsage
	}
	c, code := load(args, std, warnTo(std.Err))
	if code != exitOK || c == nil {
		return code
	}
	text, err := socket.Read(context.Background(), localSocket(*c), request[0], request[1])
	if err != nil {
		_, _ = fmt.Fprintln(std.Err, "emco level:", err)
		return exitFailed
	}
	_, _ = std.Out.Write(text)
	return exitOK
}
