// Package audit serves the audit log: in pages to those who may read the lines of their projects, and as a whole
// to those who may read all lines.
package audit

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"github.com/emco-orchestrator/emco/src/api/audit"
	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/auditlog"
	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
	"github.com/emco-orchestrator/emco/src/emco/internal/web"
)

// Log serves the audit log.
type Log struct {
	log     *auditlog.Log
	exports *web.Streams
}

const (
	maxExports = 4
	usualPage  = 100
	sendBytes  = 64 << 10 // of lines that are sent at once
)

// New returns the service.
func New(t *auditlog.Log) Log { return Log{t, web.NewStreams(maxExports)} }

// Mount adds the routes.
func (l Log) Mount(r *mux.Router) {
	web.Handle(r, http.MethodGet, "/v2/audit", authz.Permission{Verb: authz.List, Type: "audit", Confined: true}, l.list)
	web.Handle(r, http.MethodGet, "/v2/audit/export", authz.Permission{Verb: authz.Get, Type: "audit"}, l.export)
}

// list answers a page of the lines that the caller may read.
func (l Log) list(w http.ResponseWriter, r *http.Request) error {
	q, err := readQuery(r.URL.Query())
	if err != nil {
		return err
	}
	authority, admit := authz.From(r.Context()), q.Admit
	q.Admit = func(line audit.Line) bool { return admit(line) && authority.May(authz.List, "audit", line.Place) }
	page, err := l.log.List(r.Context(), q)
	if err != nil {
		return err
	}
	return web.JSON(w, http.StatusOK, page)
}

// readQuery reads which lines a request selects.
func readQuery(values url.Values) (q auditlog.Query, err error) {
	if err := web.CheckQuery(values, "since", "until", "subject", "project", "path", "phase", "request", "limit", "continue"); err != nil {
		return q, err
	}
	if q.Since, err = readTime(values, "since"); err != nil {
		return q, err
	}
	if q.Until, err = readTime(values, "until"); err != nil {
		return q, err
	}
	page, err := web.ReadPage(url.Values{"limit": values["limit"]})
	if err != nil {
		return q, err
	}
	if q.Limit = page.Limit; q.Limit == 0 {
		q.Limit = usualPage
	}
	q.Continue = values.Get("continue")
	subject, path, phase, request := values.Get("subject"), values.Get("path"), values.Get("phase"), values.Get("request")
	if phase != "" && !slices.Contains(audit.Phases(), phase) {
		return q, errs.New(errs.Invalid, "Invalid query phase: give one of "+strings.Join(audit.Phases(), ", "))
	}
	place := ""
	if p := values.Get("project"); p != "" {
		place = v2.ProjectStoreKey(p)
	}
	q.Admit = func(l audit.Line) bool {
		return (subject == "" || l.Subject == subject || strings.HasSuffix(l.Subject, ":"+subject)) &&
			(place == "" || l.Place == place) && strings.HasPrefix(l.Path, path) &&
			(phase == "" || l.Phase == phase) && (request == "" || l.Request == request)
	}
	return q, nil
}

func readTime(values url.Values, name string) (time.Time, error) {
	text := values.Get(name)
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, errs.New(errs.Invalid, "Invalid query "+name+": "+strconv.Quote(text)+" is not a time such as 2026-11-21T12:00:00Z")
	}
	return at, nil
}

// export answers with all lines and the notes of an export.
func (l Log) export(w http.ResponseWriter, r *http.Request) error {
	if err := web.CheckQuery(r.URL.Query()); err != nil {
		return err
	}
	return l.exports.Serve(w, r, func(ctx context.Context, send func([]byte) error) error {
		var some []byte
		err := l.log.Export(ctx, func(line []byte) error {
			if len(some) > 0 {
				some = append(some, '\n')
			}
			some = append(some, line...)
			if len(some) < sendBytes {
				return nil
			}
			err := send(some)
			some = some[:0]
			return err
		})
		if err == nil && len(some) > 0 {
			err = send(some)
		}
		return err
	})
}
