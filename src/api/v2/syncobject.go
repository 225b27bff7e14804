package v2

import (
	"maps"
	"net/url"
	"strings"

	"github.com/emco-orchestrator/emco/src/api/outbound"
)

// Mask replaces a secret in answers. A client that sends it back keeps the stored value.
const Mask = "***"

// publicKeys are the keys of sync objects whose values may be shown, in lower case.
// Every other key is treated as a secret: better to hide one value too many.
var publicKeys = map[string]bool{
	"gittype": true, "username": true, "user": true, "reponame": true, "branch": true, "url": true,
	"repourl": true, "owner": true, "path": true, "apiurl": true, "baseurl": true,
	"timeout": true, "syncinterval": true, "retryinterval": true, "delay": true, "interval": true,
	"clientid": true, "tenantid": true, "subscriptionid": true, "arccluster": true, "arcresourcegroup": true,
	"location": true, "project": true, "namespace": true, "serviceaccount": true, "statusmode": true,
	"secretref": true, "gitsecretref": true, "ca": true, "knownhosts": true, "cacert": true, "authorname": true, "authoremail": true,
	"appid": true, "appinstallationid": true, "readusername": true, "readknownhosts": true, "scope": true, "fluxextension": true,
	"endpoint": true, "bucket": true, "region": true, "prefix": true,
	"refmode": true, "shardsize": true, "viewprefix": true, "onprotected": true, "onforeignedit": true, "sshclient": true, "engine": true, "agerecipients": true,
	"shards": true, "branchpercluster": true, "managementurl": true, "loginurl": true,
}

// IsSecretKey reports whether the value of a sync object's key must never be shown.
func IsSecretKey(key string) bool {
	return !publicKeys[strings.ToLower(key)]
}

// Masked returns a copy that shows Mask for every secret value that is not empty.
func (o SyncObject) Masked() SyncObject {
	kv := make([]map[string]Scalar, len(o.Spec.KV))
	for i, pairs := range o.Spec.KV {
		kv[i] = maps.Clone(pairs)
		for key, value := range pairs {
			if IsSecretKey(key) && value != "" {
				kv[i][key] = Mask
			}
		}
	}
	o.Spec.KV = kv
	return o
}

// Unmask replaces each Mask with the value that old has for the same key: at the same
// index of the list if the key is there, else at its first index. A Mask without such a
// value is a violation, and so is one beside a changed server: a stored secret is for the
// servers that it was given with.
func (o *SyncObject) Unmask(old SyncObject) error {
	var c violationList
	kept := ""
	for i, pairs := range o.Spec.KV {
		for _, key := range sortedKeys(pairs) {
			if pairs[key] != Mask { // a key that is public now may have been masked by an older version
				continue
			}
			value, ok := hidden(old.Spec, i, key)
			if !ok {
				c.fail(join("spec.kv", key), "%q stands for a stored value, but there is none", Mask)
				continue
			}
			pairs[key] = value
			if IsSecretKey(key) && !addressKeys[strings.ToLower(key)] {
				kept = key
			}
		}
	}
	if other := otherServer(old.Spec, o.Spec); kept != "" && other != "" {
		c.fail(join("spec.kv", kept), "%q stands for the stored value, but %s names another server, which must not get it; give the value itself", Mask, other)
	}
	return c.err()
}

// addressKeys are the keys, in lower case, whose values name servers.
var addressKeys = map[string]bool{
	"url": true, "repourl": true, "apiurl": true, "baseurl": true, "endpoint": true,
	"managementurl": true, "loginurl": true, "statusurl": true,
}

// otherServer returns a key by which next names a server that old does not name; empty if
// there is none. The repository must stay on its server: another one that old names, such as
// that of reports, has a credential of its own.
func otherServer(old, next KVSpec) string {
	before, after := servers(old), servers(next)
	if before["url"] != after["url"] {
		return "url"
	}
	known := map[string]bool{"": true}
	for _, server := range before {
		known[server] = true
	}
	for _, key := range sortedKeys(after) {
		if !known[after[key]] {
			return key
		}
	}
	return ""
}

// servers returns the servers that a sync object names, by key. A repository without a URL is
// on the public service of its gitType.
func servers(s KVSpec) map[string]string {
	out, service := map[string]string{}, ""
	for _, pairs := range s.KV {
		for key, value := range pairs {
			key = strings.ToLower(key)
			if key == "gittype" {
				service = strings.ToLower(string(value))
			}
			if !addressKeys[key] || value == "" {
				continue
			}
			if key == "repourl" {
				key = "url"
			}
			out[key] = string(value)
			if u, err := url.Parse(strings.TrimSpace(string(value))); err == nil && u.Host != "" {
				out[key] = outbound.Server(u)
			}
		}
	}
	if out["url"] == "" {
		out["url"] = service
	}
	return out
}

func hidden(s KVSpec, i int, key string) (Scalar, bool) {
	if i < len(s.KV) {
		if value, ok := s.KV[i][key]; ok {
			return value, true
		}
	}
	value, ok := s.Lookup(key)
	return Scalar(value), ok
}

// Validate checks metadata and pairs; URLs must be such that a Git client may dial
// them, and carry no credentials.
func (o *SyncObject) Validate() error {
	c := begin(&o.Named)
	o.Spec.check(c)
	o.Spec.each(func(at, key, value string) {
		if why := badURL(strings.ToLower(key), value); why != "" {
			c.fail(at, "%s", why)
		}
	})
	return c.err()
}

// badURL returns what is wrong with a URL, or "". It does not repeat the value, which may
// hold a password. It refuses only what is wrong everywhere; which repositories a service
// may dial is configuration of the service.
func badURL(key, value string) string {
	repository := key == "url" || key == "repourl"
	if !repository && !strings.Contains(value, "://") || IsSecretKey(key) || value == "" {
		return ""
	}
	u, err := url.Parse(value)
	if err != nil || u.Opaque != "" || u.Scheme == "" {
		return "not a URL; use https://host/path, http://host/path or ssh://user@host/path"
	}
	if _, password := u.User.Password(); password || u.User != nil && u.Scheme != "ssh" {
		return "holds credentials; give them as userName and gitToken"
	}
	switch {
	case u.Scheme == "file" && u.Host == "":
		return ""
	case u.Scheme != "https" && u.Scheme != "http" && u.Scheme != "ssh" && u.Scheme != "oci":
		return "scheme " + quote(u.Scheme) + " is not allowed; use https, http or ssh"
	}
	return badHost(u.Hostname())
}

// badHost refuses hosts that a Git client must not dial: options in disguise, and the
// link-local addresses of cloud metadata services.
func badHost(host string) string {
	if host == "" || strings.HasPrefix(host, "-") {
		return "names no host"
	}
	if err := (outbound.Policy{}).CheckHost(host); err != nil {
		return err.Error()
	}
	return ""
}
