package status

import (
	"context"
	"fmt"
	"io"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/fetch"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/output"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/session"
)

// describeProject shows what a project uses of its quotas.
func describeProject(ctx context.Context, s *session.Session, name string) error {
	if err := v2.CheckName("project", name); err != nil {
		return session.Usage(err)
	}
	path := v2.ProjectStoreKey(name) + "/usage"
	form, c, err := s.Open(path)
	if err != nil {
		return err
	}
	return fetch.Show(ctx, c, path, s.Sys.Out, form, showUsage)
}

// showUsage prints a line for each quota.
func showUsage(w io.Writer, u v2.ProjectUsage) {
	output.Fields(w, [2]string{"name", u.Project})
	fmt.Fprintln(w)
	t := output.NewTable(w)
	t.Row("QUOTA", "USED", "LIMIT", "POLICY")
	for _, q := range u.Quotas {
		used, limit := "by deployment", "none" // each deployment is compared alone
		if q.Used != nil {
			used = fmt.Sprint(*q.Used)
		}
		if q.Limit != nil {
			limit = fmt.Sprint(*q.Limit)
		}
		t.Row(q.Name, used, limit, q.Policy)
	}
	t.Flush()
}
