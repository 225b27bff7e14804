package app

import (
	"errors"
	"net/http"
	"os"
	"path"
	"strings"
	"time"

	"github.com/gorilla/mux"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/emco-orchestrator/emco/src/api/outbound"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext"
	"github.com/emco-orchestrator/emco/src/emco/internal/appcontext/etcdkv"
	"github.com/emco-orchestrator/emco/src/emco/internal/auditfilter"
	"github.com/emco-orchestrator/emco/src/emco/internal/auditlog"
	"github.com/emco-orchestrator/emco/src/emco/internal/authz"
	"github.com/emco-orchestrator/emco/src/emco/internal/backup"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/emco/internal/run"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/audit"
	"github.com/emco-orchestrator/emco/src/emco/internal/tlsfiles"
)

// openAuditLog returns the audit log; nil with audit.mode off.
func (a *App) openAuditLog(c config.Config, etcd *clientv3.Client, m *metrics) (*auditlog.Log, error) {
	if c.AuditMode() == config.AuditOff {
		return nil, nil
	}
	o := auditlog.Options{
		KV:     etcdkv.New(etcd, c.Etcd.Prefix, etcdkv.Options{Log: a.log, OnRequest: m.auditEtcd(), OnFenced: m.etcdFenced}),
		Holder: a.member.Holder, TTL: time.Duration(c.Lease), Strict: c.AuditMode() == config.AuditStrict,
		Keep: time.Duration(c.Audit.Keep), Bytes: c.Audit.Bytes, Now: time.Now, Log: a.log,
	}
	if len(c.Etcd.Endpoints) == 0 {
		o.Spool = c.Path("audit.spool")
	}
	missed := m.audit(&o)
	t, err := auditlog.New(o)
	if err != nil {
		return nil, err
	}
	a.auditFilter = &auditfilter.Filter{AuditLog: t, Reads: c.Audit.Reads, Veils: holdsValues, Now: time.Now, Count: missed}
	return t, nil
}

// audit records the requests of a router, and serves the audit log. It must come after what refuses requests.
func (a *App) audit(st openStores, r *mux.Router) {
	if st.auditLog == nil {
		return
	}
	if a.guard != nil {
		a.guard.Witness = a.auditFilter
	}
	r.Use(a.auditFilter.Route)
	audit.New(st.auditLog).Mount(r)
}

// carriedOut records that the program did what a user had asked for.
func (a *App) carriedOut(op appcontext.Operation, subject string, failed bool) {
	if a.auditFilter != nil {
		a.auditFilter.CarriedOut(op.Actor, op.Kind, subject, op.Rev, failed)
	}
}

// auditing returns the services that write the audit log. They end after those whose requests they record.
func (a *App) auditing(c config.Config, p resolvedSettings, st openStores, m *metrics) []run.Service {
	if st.auditLog == nil {
		return nil
	}
	out := []run.Service{st.auditLog, a.auditFilter}
	if c.Audit.File != "" {
		out = append(out, &auditlog.Copy{AuditLog: st.auditLog, File: c.Audit.File, Bytes: c.Audit.FileBytes, Files: c.Audit.Files, Log: a.log})
	}
	if p.auditHook != nil {
		p.auditHook.AuditLog, p.auditHook.Log = st.auditLog, a.log
		p.auditHook.OnSent, p.auditHook.OnFailed = m.auditWebhook()
		out = append(out, p.auditHook)
	}
	return out
}

// hookTime bounds a request of the audit log's webhook.
const hookTime = time.Minute

// auditHook returns what posts the audit log; nil without an address.
func auditHook(c config.AuditWebhook, p outbound.Policy) (*auditlog.Webhook, error) {
	if c.URL == "" {
		return nil, nil
	}
	u, err := outbound.ReadURL(c.URL)
	if err != nil {
		return nil, err
	}
	t := &http.Transport{Proxy: http.ProxyFromEnvironment, DialContext: outbound.Dialer(p.Check).DialContext, TLSHandshakeTimeout: outbound.DialTimeout, ForceAttemptHTTP2: true, IdleConnTimeout: time.Minute}
	if t.TLSClientConfig, err = (tlsfiles.Client{CA: c.CA}).Config(); err != nil {
		return nil, err
	}
	w := &auditlog.Webhook{URL: u, Pause: time.Second, Client: &http.Client{
		Transport: t, Timeout: hookTime,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if c.TokenFile == "" {
		return w, nil
	}
	w.Token = func() (string, error) { return readToken(c.TokenFile) }
	_, err = w.Token()
	return w, err
}

// readToken reads a token from a file.
func readToken(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(text))
	if token == "" {
		return "", errors.New("there is no token in " + file)
	}
	return token, nil
}

// recordLocal records what an operator of this machine does over the socket in the data folder.
func (a *App) recordLocal(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case a.auditFilter == nil:
		case r.URL.Path == backup.Target:
			a.auditFilter.Local(authz.Reveal, "backups")
		case r.Method == http.MethodPost:
			a.auditFilter.Local(authz.Act(path.Base(r.URL.Path)), path.Base(path.Dir(r.URL.Path))) // such as keys, level
		}
		next.ServeHTTP(w, r)
	})
}
