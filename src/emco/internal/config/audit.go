package config

import (
	"cmp"
	"errors"
	"time"

	"github.com/emco-orchestrator/emco/src/api/outbound"
)

// Audit configures the audit log.
type Audit struct {
	Mode      string   `json:"mode" help:"strict: a request that changes something is in etcd before it is carried out; relaxed: it is in a file of the data folder before it is answered, and in etcd soon afterwards; off: there is no audit log; empty: strict where callers authenticate, and with etcd.endpoints, otherwise relaxed"`
	Reads     bool     `json:"reads" help:"also record requests that only read"`
	Keep      Duration `json:"keep" help:"age of the oldest lines"`
	Bytes     int64    `json:"bytes" help:"bytes of compressed lines in etcd; the oldest are removed beyond"`
	File      string   `json:"file" help:"file that gets a copy of all lines; full ones stay in its folder, with a number in their names; empty: none"`
	FileBytes int64    `json:"fileBytes" help:"size at which audit.file is full"`
	Files     int      `json:"files" help:"full files of audit.file to keep"`

	Webhook AuditWebhook `json:"webhook"`
}

// AuditWebhook configures the server that gets a copy of all lines.
type AuditWebhook struct {
	URL       string `json:"url" help:"server that gets a copy of all lines by POST, as JSON lines; empty: none"`
	TokenFile string `json:"tokenFile" help:"file with the bearer token for audit.webhook.url; it is read for each request"`
	CA        string `json:"ca" help:"file with certificate authorities, for audit.webhook.url; empty: those of the system"`
}

// The modes of the audit log.
const (
	AuditStrict  = "strict"
	AuditRelaxed = "relaxed"
	AuditOff     = "off"
)

func defaultAudit() Audit {
	return Audit{Keep: Duration(90 * 24 * time.Hour), Bytes: 256 << 20, FileBytes: 100 << 20, Files: 10}
}

// AuditMode returns the mode of the audit log.
func (c Config) AuditMode() string {
	usual := AuditRelaxed
	if c.Authenticates() || len(c.Etcd.Endpoints) > 0 {
		usual = AuditStrict
	}
	return cmp.Or(c.Audit.Mode, usual)
}

// smallestAudit is the smallest audit.bytes.
const smallestAudit = 4 << 20

func (c Config) validateAudit(bad reporter) {
	oneOf(bad, "audit.mode", c.AuditMode(), AuditStrict, AuditRelaxed, AuditOff)
	if c.Audit.Mode == AuditRelaxed && len(c.Etcd.Endpoints) > 0 {
		bad("audit.mode", "relaxed is for one process with an embedded etcd; use strict with etcd.endpoints")
	}
	if c.Audit.Bytes < smallestAudit {
		bad("audit.bytes", "must not be below %d bytes", smallestAudit)
	}
	positive(bad, "audit.keep", int64(c.Audit.Keep))
	positive(bad, "audit.fileBytes", c.Audit.FileBytes)
	positive(bad, "audit.files", int64(c.Audit.Files))
	c.Audit.Webhook.validate(bad, outbound.Policy{DenyPrivate: c.Outbound.DenyPrivate})
}

func (w AuditWebhook) validate(bad reporter, p outbound.Policy) {
	if w.URL == "" {
		if w.TokenFile != "" || w.CA != "" {
			bad("audit.webhook.url", "is missing; without it tokenFile and ca have no use")
		}
		return
	}
	u, err := outbound.ReadURL(w.URL)
	if err == nil {
		err = p.CheckHost(u.Hostname())
	}
	if err == nil && u.Scheme != "https" && !outbound.Loopback(u.Hostname()) {
		err = errors.New("must begin with https://, except on this machine")
	}
	if err != nil {
		bad("audit.webhook.url", "%s", err)
	}
}
