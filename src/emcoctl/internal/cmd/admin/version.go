package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/version"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/output"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/session"
)

// versionReport is the output of version.
type versionReport struct {
	Client version.Info  `json:"client"`
	Server *version.Info `json:"server,omitempty"`
}

// newVersionCommand returns the command that shows both versions.
func newVersionCommand(s *session.Session) *cobra.Command {
	var own bool
	c := &cobra.Command{
		Use: "version", Short: "Show the versions of emcoctl and of the server",
		Args: cobra.NoArgs,
		RunE: s.Run(func(c *cobra.Command, _ []string) error {
			v := versionReport{Client: version.Read()}
			var unknown error
			if !own {
				v.Server, unknown = serverVersion(c.Context(), s)
			}
			return showVersions(s, v, unknown)
		}),
	}
	c.Flags().BoolVar(&own, "client", false, "without the server's version")
	return c
}

// serverVersion requests the orchestrator's version; "unknown" for a server without that
// route.
func serverVersion(ctx context.Context, s *session.Session) (*version.Info, error) {
	c, err := s.Dial("projects")
	if err != nil {
		return nil, err
	}
	p, err := client.Get[version.Info](ctx, c, "/version")
	if errs.Is(err, errs.NotFound) {
		return &version.Info{Version: "unknown"}, nil
	}
	if err != nil {
		return nil, err
	}
	return &p, nil
}

// showVersions prints the known versions. An unreachable server is reported, but is no
// failure: the user also asked for emcoctl's version.
func showVersions(s *session.Session, v versionReport, unknown error) error {
	if f := s.Format(); f.Structured() {
		text, err := json.Marshal(v)
		if err != nil {
			return err
		}
		return output.Encode(s.Sys.Out, f, text)
	}
	fmt.Fprintf(s.Sys.Out, "client  %s\n", v.Client)
	if v.Server != nil {
		fmt.Fprintf(s.Sys.Out, "server  %s\n", strings.TrimSpace(v.Server.Version+" "+v.Server.Commit))
	}
	if unknown != nil {
		fmt.Fprintf(s.Sys.Err, "server  not reached: %v\n", unknown)
	}
	return nil
}
