package app

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/emco-orchestrator/emco/src/api/outbound"
	"github.com/emco-orchestrator/emco/src/emco/internal/auditlog"
	"github.com/emco-orchestrator/emco/src/emco/internal/authn/oidc"
	"github.com/emco-orchestrator/emco/src/emco/internal/condition/opa"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
	"github.com/emco-orchestrator/emco/src/emco/internal/customize/httpvalue"
	"github.com/emco-orchestrator/emco/src/emco/internal/fairshare"
	"github.com/emco-orchestrator/emco/src/emco/internal/fileowner"
	"github.com/emco-orchestrator/emco/src/emco/internal/refschema"
	"github.com/emco-orchestrator/emco/src/emco/internal/render"
	drivers "github.com/emco-orchestrator/emco/src/emco/internal/store/all"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/mongo"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/azurearc/arm"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/execplugin"
	"github.com/emco-orchestrator/emco/src/emco/internal/tlsfiles"
	"github.com/emco-orchestrator/emco/src/git"
	"github.com/emco-orchestrator/emco/src/git/sshsig"
)

// resolvedSettings is what the settings refer to, read from files and checked: keys, certificates, executables, the version of
// Kubernetes. A start resolves the settings before it opens anything, and `emco config check` resolves the same, so it
// refuses what a start refuses.
type resolvedSettings struct {
	charts  render.Renderer
	sealing sealingKeys

	etcdTLS, controllerTLS, traceTLS *tls.Config // nil: without files

	tls     *tlsfiles.Files // nil: the API is plain HTTP
	expired error           // why clients refuse the certificate of tls, although a start does not; nil: they do not
	plugins *execplugin.Programs
	azure   *arm.Client
	outward outbound.Policy
	weights func(project string) int
	values  *httpvalue.Reader
	engine  *opa.Engine
	schemas []refschema.Type
	signer  git.Signer // nil: commits are not signed

	auditHook *auditlog.Webhook // nil: none
	issuers   *oidc.Verifier    // nil: none
	bootstrap string            // token; empty: one is made if it is needed
}

// Check reports all that a start with this configuration would refuse, without changing
// anything: it opens no store and does not listen. It warns of what a start does not refuse.
func Check(c config.Config, warn func(text string), opts ...Option) error {
	p, err := resolve(c)
	if err != nil {
		return err
	}
	if p.expired != nil {
		warn("http.cert: " + p.expired.Error())
	}
	a := &App{log: slog.New(slog.DiscardHandler)}
	for _, o := range opts {
		o(a)
	}
	_, err = a.runners(c, p)
	return errors.Join(err, a.close())
}

// resolve reads what the settings refer to. The error names each setting that a start would refuse.
func resolve(c config.Config) (resolvedSettings, error) {
	var (
		p    resolvedSettings
		errs []error
		err  error
	)
	read := func(setting string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", setting, err))
		}
	}
	read("data", checkFolder(c.Data))
	p.charts, err = charts(c.Render.KubeVersion)
	read("render.kubeVersion", err)
	p.sealing, err = readSealing(c)
	errs = append(errs, err) // names its setting
	if c.HTTP.Cert != "" {
		p.tls = &tlsfiles.Files{Cert: c.HTTP.Cert, Key: c.HTTP.CertKey, ClientCA: c.HTTP.ClientCA, Optional: c.Authenticates()}
		server, err := tlsfiles.Load(*p.tls, slog.New(slog.DiscardHandler))
		read("http.cert", err)
		if err == nil {
			p.expired = server.Fault()
		}
	}
	p.etcdTLS, err = tlsfiles.Client{CA: c.Etcd.CA, Cert: c.Etcd.Cert, Key: c.Etcd.CertKey}.Config()
	if err != nil {
		errs = append(errs, fmt.Errorf("etcd.%w", err)) // the error names the setting
	}
	if p.traceTLS, err = (tlsfiles.Client{CA: c.Trace.CA}).Config(); err != nil {
		errs = append(errs, fmt.Errorf("trace.%w", err)) // the error names the setting
	}
	if c.Store.Driver == drivers.Mongo {
		read("store.mongo.uri", mongo.CheckURI(c.Store.Mongo.URI.Reveal()))
	}
	p.plugins, err = findPlugins(c.Sync)
	read("sync.plugins", err)
	p.issuers, err = issuers(c.Auth)
	read("auth.issuers", err)
	p.bootstrap, err = bootstrapToken(c.Auth)
	read("auth.bootstrapFile", err)
	p.weights, err = fairshare.Weights(c.Projects.Weights)
	read("projects.weights", err)
	p.outward = outbound.Policy{DenyPrivate: c.Outbound.DenyPrivate}
	p.values, err = httpvalue.New(c.Outbound.Values, p.outward.Check)
	read("outbound.values", err)
	p.engine, err = engine(c.Outbound, p.outward)
	errs = append(errs, err) // names its setting
	if p.controllerTLS, err = (tlsfiles.Client{CA: c.Controllers.CA, Cert: c.Controllers.Cert, Key: c.Controllers.Key}).Config(); err != nil {
		errs = append(errs, fmt.Errorf("controllers.%w", err)) // the error names the setting
	}
	p.schemas, err = refschema.Read(c.Controllers.Schemas)
	read("controllers.schemas", err)
	p.auditHook, err = auditHook(c.Audit.Webhook, p.outward)
	read("audit.webhook", err)
	p.azure, err = azure(c.Azure, p.outward)
	read("azure", err)
	if c.Runs("rsync") {
		p.signer, err = signer(c.Git.SigningKey)
		read("git.signingKey", err)
	}
	return p, errors.Join(errs...)
}

// clientCertificates returns the files with the certificates of this program as a client, by the setting that names them.
func clientCertificates(c config.Config) map[string][]string {
	files := map[string][]string{
		"etcd.cert": {c.Etcd.Cert}, "controllers.cert": {c.Controllers.Cert}, "workflows.temporal.cert": {c.Workflows.Temporal.Cert},
	}
	engines := make([]string, 0, len(c.Outbound.EngineAccess))
	for _, e := range c.Outbound.EngineAccess {
		engines = append(engines, e.Cert)
	}
	files["outbound.engineAccess.cert"] = engines
	return files
}

// checkFolder wants a folder, or nothing yet.
func checkFolder(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is no folder", path)
	}
	return fileowner.Explain(err, path)
}

// findPlugins finds the executables that clusters may name as their sync type.
func findPlugins(c config.Sync) (*execplugin.Programs, error) {
	l := execplugin.DefaultLimits()
	l.Time, l.Memory = time.Duration(c.Timeout), uint64(c.Memory)
	return execplugin.Find(c.Plugins, l)
}

// engine returns what asks OPA servers.
func engine(c config.Outbound, p outbound.Policy) (*opa.Engine, error) {
	e, err := opa.New(c.Engines, p.Check)
	if err != nil {
		return nil, fmt.Errorf("outbound.engines: %w", err)
	}
	for _, s := range c.EngineAccess {
		a, err := engineAccess(s)
		if err == nil {
			err = e.SetAccess(s.URL, a)
		}
		if err != nil {
			return nil, fmt.Errorf("outbound.engineAccess: %q: %w", s.URL, err)
		}
	}
	return e, nil
}

func engineAccess(c config.EngineAccess) (a opa.Access, err error) {
	if a.TLS, err = (tlsfiles.Client{CA: c.CA, Cert: c.Cert, Key: c.Key}).Config(); err != nil {
		return a, err
	}
	if c.TokenFile == "" {
		return a, nil
	}
	a.Token = func() (string, error) { return readToken(c.TokenFile) }
	if _, err = a.Token(); err != nil {
		return a, fmt.Errorf("tokenFile: %w", err)
	}
	return a, nil
}

func azure(c config.Azure, p outbound.Policy) (*arm.Client, error) {
	o := arm.Options{
		Authority: c.Authority, Manager: c.Manager, Audience: c.Audience,
		Admit: p.Check, TokenFile: c.TokenFile, Timeout: time.Duration(c.Timeout), Writes: c.Writes,
	}
	if c.CA != "" {
		text, err := os.ReadFile(c.CA)
		if err != nil {
			return nil, fmt.Errorf("ca: %w", err)
		}
		o.CA = string(text)
	}
	return arm.New(o)
}

// signer reads the key that signs commits; nil without one.
func signer(path string) (git.Signer, error) {
	if path == "" {
		return nil, nil
	}
	key, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s, err := sshsig.New(key)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}
