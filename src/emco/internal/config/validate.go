package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// validate reports everything that is wrong, one line each, with the name of the setting, and its place if places has one.
func (c Config) validate(places map[string]string) (errs []error) {
	bad := func(name, format string, args ...any) {
		if place := places[name]; place != "" {
			name = place + ": " + name
		}
		errs = append(errs, fmt.Errorf("%s: "+format, append([]any{name}, args...)...))
	}
	for _, t := range c.Target {
		if t != "all" && !slices.Contains(Targets(), t) {
			bad("target", "no service is called %q; there are all, %s", t, strings.Join(Targets(), ", "))
		}
	}
	if len(c.Target) == 0 {
		bad("target", "name at least one service, or all")
	}
	if c.Data == "" {
		bad("data", "a folder is needed")
	}
	if c.Disk != 0 && c.Disk < smallestReserve {
		bad("diskReserve", "must be 0 or at least %d bytes: etcd allocates the files of its log 64 MiB at a time", smallestReserve)
	}
	if c.Lease < Duration(shortestLease) {
		bad("lease", "must not be below %s", shortestLease)
	}
	oneOf(bad, "log.level", c.Log.Level, "debug", "info", "warn", "error")
	oneOf(bad, "log.format", c.Log.Format, "json", "text")
	oneOf(bad, "store.driver", cmp.Or(c.Store.Driver, "sqlite"), "sqlite", "etcd", "mongo")
	if c.Store.Driver == "mongo" && c.Store.Mongo.URI == "" {
		bad("store.mongo.uri", "the address of the server is needed")
	}
	if c.Encryption.KEK != "" && c.Store.Key != "" {
		bad("encryption.kek", "store.key is set too: use one of them")
	}
	if c.Store.Mongo.Database == "" {
		bad("store.mongo.database", "a name is needed")
	}
	if c.Etcd.Quota < smallestQuota {
		bad("etcd.quota", "must not be below %d bytes: etcd needs some for itself", smallestQuota)
	}
	if c.HTTP.Address == "" {
		bad("http.address", "an address is needed")
	}
	for _, a := range c.addresses() {
		a.check(bad, c.HTTP.Insecure)
	}
	checkDistinct(bad, c.addresses())
	if (c.HTTP.Cert == "") != (c.HTTP.CertKey == "") {
		bad("http.cert", "http.cert and http.certKey are needed together")
	}
	if c.HTTP.ClientCA != "" && c.HTTP.Cert == "" {
		bad("http.clientCA", "client certificates need TLS: set http.cert and http.certKey")
	}
	c.validateAuth(bad)
	c.validateAudit(bad)
	if c.Controllers.PlainText && c.Controllers.CA+c.Controllers.Cert != "" {
		bad("controllers.plainText", "has no use with controllers.ca or controllers.cert, with which every controller is called by TLS")
	}
	c.Trace.validate(bad)
	notNegative(bad, "http.drain", c.HTTP.Drain)
	notNegative(bad, "http.linger", c.HTTP.Linger)
	notNegative(bad, "git.window", c.Git.Window)
	notNegative(bad, "git.look", c.Git.Look)
	positive(bad, "http.packageLimit", c.HTTP.PackageLimit)
	positive(bad, "status.stale", int64(c.Status.Stale))
	positive(bad, "status.streams", int64(c.Status.Streams))
	positive(bad, "status.interval", int64(c.Status.Interval))
	positive(bad, "status.queue", int64(c.Status.Queue))
	positive(bad, "render.timeout", int64(c.Render.Timeout))
	positive(bad, "render.memory", c.Render.Memory)
	positive(bad, "git.timeout", int64(c.Git.Timeout))
	positive(bad, "sync.timeout", int64(c.Sync.Timeout))
	positive(bad, "sync.memory", c.Sync.Memory)
	positive(bad, "workflows.memory", c.Workflows.Memory)
	positive(bad, "git.hostedWindow", int64(c.Git.Hosted))
	c.Git.GitHub.validate(bad, "git.github")
	c.Git.GitLab.validate(bad, "git.gitlab")
	positive(bad, "kube.qps", int64(c.Kube.QPS))
	positive(bad, "kube.burst", int64(c.Kube.Burst))
	positive(bad, "kube.timeout", int64(c.Kube.Timeout))
	positive(bad, "kube.workers", int64(c.Kube.Workers))
	positive(bad, "azure.timeout", int64(c.Azure.Timeout))
	positive(bad, "azure.writesPerHour", int64(c.Azure.Writes))
	positive(bad, "oci.timeout", int64(c.OCI.Timeout))
	positive(bad, "s3.timeout", int64(c.S3.Timeout))
	positive(bad, "retry.first", int64(c.Retry.First))
	positive(bad, "projects.requests", int64(c.Projects.Requests))
	if c.Git.Rest < c.Retry.First {
		bad("git.rest", "must not be below retry.first")
	}
	if c.Retry.Longest < c.Retry.First {
		bad("retry.longest", "must not be below retry.first")
	}
	if !slices.Contains(c.Target, "all") && !c.complete() && len(c.Etcd.Endpoints) == 0 {
		bad("etcd.endpoints", "several processes need an etcd that they share; an embedded one serves its own process only")
	}
	return errs
}

// complete reports whether one process runs every service, so that embedded stores suffice.
func (c Config) complete() bool {
	for _, t := range Targets() {
		if !c.Runs(t) {
			return false
		}
	}
	return true
}

func (r Rates) validate(bad reporter, name string) {
	if min(r.CallsMinute, r.CallsHour, r.PointsMinute, r.ContentMinute, r.ContentHour, r.PushesMinute, r.ReadsSecond) < 0 {
		bad(name, "no rate may be below zero; 0 is no bound")
	}
}

type reporter func(name, format string, args ...any)

func oneOf(bad reporter, name, got string, want ...string) {
	if !slices.Contains(want, got) {
		bad(name, "%q is not one of %s", got, strings.Join(want, ", "))
	}
}

func positive(bad reporter, name string, got int64) {
	if got <= 0 {
		bad(name, "must be above zero")
	}
}

func notNegative(bad reporter, name string, got Duration) {
	if got < 0 {
		bad(name, "must not be below zero")
	}
}
