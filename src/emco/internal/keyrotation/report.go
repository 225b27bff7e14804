package keyrotation

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/socket"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/keyring"
)

// Key is what emco keys prints of a data key.
type Key struct {
	ID    string    `json:"id"`
	State string    `json:"state"`
	Since time.Time `json:"since"`
	KEK   string    `json:"kek"`
}

// Report answers all commands of emco keys.
type Report struct {
	Keys    []Key          `json:"keys"`
	Pending bool           `json:"pending"`         // values wait to be sealed with the current key
	Values  map[string]int `json:"values"`          // by key; of verify
	Plain   int            `json:"plain,omitempty"` // values that are not sealed; of verify
}

func reportOf(k keyring.Keys) Report {
	r := Report{Pending: k.Pending()}
	for _, key := range k.Keys {
		r.Keys = append(r.Keys, Key{key.ID, key.State, key.Since, key.Wrapped.KEK})
	}
	return r
}

// Ask sends one of the requests of Mount to the process that serves the socket at path.
func Ask(ctx context.Context, path, request string) (Report, error) {
	var report Report
	method, target, _ := strings.Cut(request, " ")
	text, err := socket.Read(ctx, path, method, target)
	if err != nil {
		return report, err
	}
	return report, json.Unmarshal(text, &report)
}

// Print writes the report as a table for people.
func (r Report) Print(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprint(t, "DATA KEY\tSTATE\tSINCE\tKEY-ENCRYPTION KEY")
	if r.Values != nil {
		_, _ = fmt.Fprint(t, "\tVALUES")
	}
	_, _ = fmt.Fprintln(t)
	for _, k := range r.Keys {
		_, _ = fmt.Fprintf(t, "%s\t%s\t%s\t%s", k.ID, k.State, k.Since.Format(time.RFC3339), k.KEK)
		if r.Values != nil {
			_, _ = fmt.Fprintf(t, "\t%d", r.Values[k.ID])
		}
		_, _ = fmt.Fprintln(t)
	}
	_ = t.Flush()
	if r.Plain > 0 {
		_, _ = fmt.Fprintf(w, "%d values are not sealed yet\n", r.Plain)
	}
	if r.Pending {
		_, _ = fmt.Fprintln(w, "values wait to be sealed with the current key")
	}
}
