package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/emco-orchestrator/emco/src/api/audit"
	"github.com/emco-orchestrator/emco/src/api/client"
	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/complete"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/fetch"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/output"
	"github.com/emco-orchestrator/emco/src/emcoctl/internal/session"
)

// newAuditCommand returns the commands for the audit log.
func newAuditCommand(s *session.Session) *cobra.Command {
	c := &cobra.Command{
		Use: "audit", Short: "Read and verify the audit log",
		Long: `The audit log says who did what, from where, when and with which outcome. Its lines are chained
by hash, so a line that was changed or removed is found.`,
		Args: cobra.NoArgs,
		RunE: s.Run(func(c *cobra.Command, _ []string) error { return c.Help() }),
	}
	c.AddCommand(newAuditListCommand(s), newAuditVerifyCommand(s), newAuditExportCommand(s))
	return c
}

// auditList is one run of audit list.
type auditList struct {
	*session.Session
	since, until                        string
	user, project, path, request, phase string
	most                                int
	concluded                           map[string]bool // intents whose outcome was seen
	lines                               []audit.Line
	raw                                 []json.RawMessage
}

func newAuditListCommand(s *session.Session) *cobra.Command {
	l := &auditList{Session: s, concluded: map[string]bool{}}
	c := &cobra.Command{
		Use: "list", Short: "Show lines of the audit log, newest first",
		Long: `List shows the newest lines of the audit log that you may read, newest first: for each request one
line with its outcome; an intent alone is a request that was not finished. With -o json it
prints the lines as they are stored.`,
		Example: "  emcoctl audit list --since 24h --user alice\n  emcoctl audit list --project shop -o json",
		Args:    cobra.NoArgs,
		RunE:    s.Run(func(c *cobra.Command, _ []string) error { return l.run(c.Context()) }),
	}
	f := c.Flags()
	f.StringVar(&l.since, "since", "", "only lines after this time, such as 2026-11-21T12:00:00Z, or of this duration, such as 10m")
	f.StringVar(&l.until, "until", "", "only lines before this time, or older than this duration")
	f.StringVar(&l.user, "user", "", "only this subject, such as user:corp:alice or alice")
	f.StringVar(&l.project, "project", "", "only what concerns this project")
	f.StringVar(&l.path, "path", "", "only paths that begin so, such as /v2/tokens")
	f.StringVar(&l.request, "request", "", "only the request with this id")
	f.StringVar(&l.phase, "phase", "", "only this phase: "+strings.Join(audit.Phases(), ", "))
	complete.Flag(c, "phase", complete.Fixed(audit.Phases()))
	complete.Flag(c, "project", complete.New(s).Projects())
	f.IntVar(&l.most, "limit", 50, "lines to show at most; 0 for all")
	return c
}

// auditPage is how many lines are asked for at once.
const auditPage = 500

func (l *auditList) run(ctx context.Context) error {
	query, err := l.query(time.Now())
	if err != nil {
		return err
	}
	form, c, err := l.Open("audit")
	if err != nil {
		return err
	}
	for more := true; more; {
		var page audit.Page
		if _, err := fetch.Document(ctx, c, "audit?"+query.Encode(), &page); err != nil {
			return err
		}
		if more, err = l.take(page, form == output.Human); err != nil {
			return err
		}
		query.Set("continue", page.Continue)
	}
	if form == output.Human {
		return l.show()
	}
	text, err := json.Marshal(slices.Concat([]json.RawMessage{}, l.raw))
	if err != nil {
		return err
	}
	return output.Encode(l.Sys.Out, form, text)
}

func (l *auditList) query(now time.Time) (url.Values, error) {
	q := url.Values{"limit": {strconv.Itoa(auditPage)}}
	for _, t := range [][2]string{{"since", l.since}, {"until", l.until}} {
		at, err := session.Moment(t[0], t[1], now)
		if err != nil {
			return nil, err
		}
		if !at.IsZero() {
			q.Set(t[0], at.UTC().Format(time.RFC3339Nano))
		}
	}
	for name, value := range map[string]string{"subject": l.user, "project": l.project, "path": l.path, "request": l.request, "phase": l.phase} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return q, nil
}

// take adds the lines of a page; more reports whether another page is needed.
func (l *auditList) take(page audit.Page, once bool) (more bool, err error) {
	for _, text := range page.Items {
		var line audit.Line
		if err := json.Unmarshal(text, &line); err != nil {
			return false, err
		}
		if line.Of > 0 {
			l.concluded[line.Stream+" "+strconv.FormatInt(line.Of, 10)] = true
		}
		if once && l.phase == "" && line.Phase == audit.Intent && l.concluded[line.Stream+" "+strconv.FormatInt(line.Seq, 10)] {
			continue
		}
		l.lines, l.raw = append(l.lines, line), append(l.raw, text)
		if len(l.lines) == l.most {
			return false, nil
		}
	}
	return page.Continue != "", nil
}

func (l *auditList) show() error {
	if len(l.lines) == 0 {
		fmt.Fprintln(l.Sys.Out, "none")
		return nil
	}
	t := output.NewTable(l.Sys.Out)
	t.Row("TIME", "WHO", "FROM", "PHASE", "WHAT", "PATH", "CODE")
	for _, line := range l.lines {
		what, path, code := line.Verb, line.Path, ""
		if line.Type != "" {
			what += " " + line.Type
		}
		if line.Code > 0 {
			code = strconv.Itoa(line.Code)
		}
		if line.Count > 0 {
			path = strconv.FormatInt(line.Count, 10) + " " + line.Reason
		}
		t.Row(line.Time.UTC().Format("2006-01-02 15:04:05"), cmp.Or(line.Subject, "-"), cmp.Or(line.Address, "-"), line.Phase, cmp.Or(what, "-"), cmp.Or(path, line.Reason, "-"), cmp.Or(code, "-"))
	}
	t.Flush()
	return nil
}

func newAuditVerifyCommand(s *session.Session) *cobra.Command {
	var earlier string
	c := &cobra.Command{
		Use: "verify [FILE]...", Short: "Check that no line of the audit log was changed or removed",
		Long: `Verify checks the chain of hashes of all lines: of the server, or of files, which need no server: those of
emcoctl audit export, and copies that the server writes (audit.file). It exits with 1 and names
the first line that is wrong or missing. An export that was cut is found; a copy does not prove
where it begins and ends.

What can write etcd can write the whole log again. Keep the output of "verify -o json" elsewhere:
--heads FILE checks that the lines which were there then are there unchanged.`,
		Example: "  emcoctl audit verify\n  emcoctl audit verify -o json >heads.json\n  emcoctl audit verify --heads heads.json\n  emcoctl audit verify audit.jsonl.1 audit.jsonl",
		RunE: s.Run(func(c *cobra.Command, files []string) error {
			form, err := s.FormatOfOwnCommands()
			if err != nil {
				return err
			}
			v := audit.NewVerifier()
			if len(files) == 0 {
				err = exported(c.Context(), s, v.Add)
			} else {
				err = verifyFiles(s.Sys.In, v, files)
			}
			var report audit.Report
			if err == nil {
				report, err = v.Finish()
			}
			if err == nil && earlier != "" {
				err = keptSince(v, earlier)
			}
			if err != nil {
				return verdict(err)
			}
			return showReport(s.Sys.Out, form, report)
		}),
	}
	c.Flags().StringVar(&earlier, "heads", "", "file with the output of an earlier verify -o json")
	return c
}

// exported reads the export of the server. It fails unless the export has its last line.
func exported(ctx context.Context, s *session.Session, each func(line []byte) error) error {
	const path = "audit/export"
	c, err := s.Dial(path)
	if err != nil {
		return err
	}
	ended := false
	res, err := c.Lines(ctx, client.Request{Method: http.MethodGet, Path: path, Accept: client.LinesType + ", application/json"}, func(line []byte) error {
		ended = audit.IsEnd(line)
		return each(line)
	})
	if err == nil {
		err = res.Err(http.MethodGet, path)
	}
	if err == nil && !res.Streamed() {
		err = fetch.ErrPlain
	}
	if err == nil && !ended {
		err = errCut
	}
	return err
}

// verdict separates what is wrong with the log from what kept the check from its end.
func verdict(err error) error {
	_, path := errors.AsType[*fs.PathError](err)
	_, server := errors.AsType[*errs.Error](err)
	if path || server || errors.Is(err, fetch.ErrPlain) || errors.Is(err, errCut) || errors.Is(err, errHeads) {
		return fmt.Errorf("the audit log was not verified: %w", err)
	}
	return fmt.Errorf("the audit log is not whole: %w", err)
}

// errHeads is the cause of a file of heads that is none.
var errHeads = errors.New("is not the output of emcoctl audit verify -o json")

// errCut reports that an answer of the server ended too early. Its status was sent before.
var errCut = errors.New("the export is cut: its last line is missing, because the server failed while it sent the log; look into the log of the server and try again")

// verifyFiles checks files in order; - is the standard input.
func verifyFiles(in io.Reader, v *audit.Verifier, files []string) error {
	for _, name := range files {
		if name == "-" {
			if err := v.Read(in); err != nil {
				return err
			}
			continue
		}
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		err = v.Read(f)
		_ = f.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// keptSince checks the heads of an earlier report.
func keptSince(v *audit.Verifier, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var r audit.Report
	if err := json.Unmarshal(text, &r); err != nil || len(r.Streams) == 0 {
		return fmt.Errorf("%s %w", file, errHeads)
	}
	var heads []audit.Head
	for _, s := range r.Streams {
		heads = append(heads, s.Head)
	}
	return v.Keeps(heads)
}

func showReport(w io.Writer, form output.Format, r audit.Report) error {
	if form != output.Human {
		text, err := json.Marshal(r)
		if err != nil {
			return err
		}
		return output.Encode(w, form, text)
	}
	t := output.NewTable(w)
	t.Row("STREAM", "LINES", "HASH OF THE LAST LINE")
	for _, s := range r.Streams {
		lines := "none are kept"
		if s.First > 0 {
			lines = fmt.Sprintf("%d to %d", s.First, s.Seq)
		}
		t.Row(s.Stream, lines, s.Hash)
	}
	t.Flush()
	end := "the audit log is whole"
	if !r.Whole {
		end = "the chain is whole; lines before and after those of the file may be missing"
	}
	fmt.Fprintf(w, "%d lines: %s\n", r.Lines, end)
	return nil
}

func newAuditExportCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "export", Short: "Print the whole audit log, for other programs and to verify it later",
		Long:    "Export prints all lines as they are stored, one JSON document each, with notes that prove that none is missing.",
		Example: "  emcoctl audit export >audit.jsonl",
		Args:    cobra.NoArgs,
		RunE: s.Run(func(c *cobra.Command, _ []string) error {
			return exported(c.Context(), s, func(line []byte) error {
				_, err := s.Sys.Out.Write(append(line[:len(line):len(line)], '\n'))
				return err
			})
		}),
	}
}
