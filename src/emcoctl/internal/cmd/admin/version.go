package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/version"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/output"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/printable"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/session"
)

// versionReport is the output of version.
type versionReport struct {
	Client version.Info   `json:"client"`
	Server *serverVersion `json:"server,omitempty"`
}

// serverVersion is the version of the server, and the level of what it stores, in its words.
type serverVersion struct {
	version.Info
	Level string `json:"level,omitempty"` // empty for servers that do not report it
}

// newVersionCommand returns the command that shows both versions.
func newVersionCommand(s *session.Session) *cobra.Command {
	var own bool
	c := &cobra.Command{
		Use: "version", Short: "Show the versions of emcoctl and of the server, and the level of what it stores",
		Args: cobra.NoArgs,
		RunE: s.Run(func(c *cobra.Command, _ []string) error {
			v := versionReport{Client: version.Read()}
			var unknown error
			if !own {
				v.Server, unknown = readServerVersion(c.Context(), s)
			}
			return showVersions(s, v, unknown)
		}),
	}
	c.Flags().BoolVar(&own, "client", false, "without the server's version")
	return c
}

// readServerVersion requests the orchestrator's version; "unknown" for a server without that
// route.
func readServerVersion(ctx context.Context, s *session.Session) (*serverVersion, error) {
	c, err := s.Dial("projects")
	if err != nil {
		return nil, err
	}
	p, err := client.Get[version.Info](ctx, c, "/version")
	if errs.Is(err, errs.NotFound) {
		return &serverVersion{Info: version.Info{Version: "unknown"}}, nil
	}
	if err != nil {
		return nil, err
	}
	return &serverVersion{Info: p, Level: readLevel(ctx, c)}, nil
}

// readLevel returns the level of stored data that the server reports; empty if it reports none.
func readLevel(ctx context.Context, c *client.Client) string { return readState(ctx, c, "level") }

// readState returns what the server reports of one of its services; empty if it does not have the service.
func readState(ctx context.Context, c *client.Client, service string) string {
	res, err := c.Do(ctx, client.Request{Method: http.MethodGet, Path: "/readyz?verbose"})
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(res.Body)) { // also of a server that is not ready
		if text, ok := strings.CutPrefix(line, service+": "); ok {
			return printable.Line(strings.TrimPrefix(strings.TrimSpace(text), "ready; "))
		}
	}
	return ""
}

// showVersions prints the known versions. An unreachable server is reported, but is no
// failure: the user also asked for emcoctl's version.
func showVersions(s *session.Session, v versionReport, unknown error) error {
	if f := s.RequestedFormat(); f.Structured() {
		text, err := json.Marshal(v)
		if err != nil {
			return err
		}
		return output.Encode(s.Sys.Out, f, text)
	}
	fmt.Fprintf(s.Sys.Out, "client  %s\n", v.Client)
	if v.Server != nil {
		fmt.Fprintf(s.Sys.Out, "server  %s\n", strings.TrimSpace(v.Server.Version+" "+v.Server.Commit))
		if v.Server.Level != "" {
			fmt.Fprintf(s.Sys.Out, "level   %s\n", v.Server.Level)
		}
	}
	if unknown != nil {
		fmt.Fprintf(s.Sys.Err, "server  not reached: %v\n", unknown)
	}
	return nil
}
