package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// loadWith is load with a configuration file; none if it is empty.
func loadWith(t *testing.T, file string, args []string) (Config, error) {
	t.Helper()
	if file == "" {
		return load(t, nil, args...)
	}
	path := filepath.Join(t.TempDir(), "emco.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	return load(t, nil, append([]string{"-config", path}, args...)...)
}

func TestWhoMustAuthenticate(t *testing.T) {
	t.Parallel()
	const file = "auth: {issuers: [{name: corp, url: 'https://id.example.org', audience: emco-api, client: emcoctl}]}"
	for name, c := range map[string]struct {
		file string
		args []string
		want bool
	}{
		"on loopback":                {"", nil, false},
		"as said":                    {"", []string{"-auth.mode", "on"}, true},
		"with an issuer":             {file, nil, true},
		"off in spite of an issuer":  {file, []string{"-auth.mode", "off"}, false},
		"beyond loopback":            {"", []string{"-http.address", "0.0.0.0:1", "-http.tls", "terminated"}, true},
		"insecure":                   {"", []string{"-http.address", "0.0.0.0:1", "-http.insecure"}, false},
		"by certificates":            {"", []string{"-http.address", "0.0.0.0:1", "-http.cert", "c", "-http.certKey", "k", "-http.clientCA", "a", "-auth.mode", "off"}, false},
		"certificates and an issuer": {file, []string{"-http.cert", "c", "-http.certKey", "k", "-http.clientCA", "a"}, true},
		"certificates and roles":     {"", []string{"-http.address", "0.0.0.0:1", "-http.cert", "c", "-http.certKey", "k", "-http.clientCA", "a", "-auth.mode", "on"}, true},
	} {
		got, err := loadWith(t, c.file, c.args)
		if err != nil || got.Authenticates() != c.want {
			t.Errorf("%s: %v, %v", name, got.Authenticates(), err)
		}
	}
}

// Networks of IPv4 that are written as IPv6 contain the addresses of clients, which are IPv4.
func TestTrustedProxies(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"10.0.0.5": "10.0.0.5/32", "::ffff:10.0.0.5": "10.0.0.5/32", "10.0.0.0/24": "10.0.0.0/24", "::ffff:10.0.0.0/120": "10.0.0.0/24", "2001:db8::/32": "2001:db8::/32",
	} {
		got, err := HTTP{Proxies: []string{text}}.TrustedProxies()
		if err != nil || len(got) != 1 || got[0].String() != want {
			t.Errorf("%s: %v, %v, want %s", text, got, err, want)
		}
	}
}

func TestSettingsOfAuthenticationThatNoStartTakes(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]struct {
		file string
		args []string
	}{
		"auth.mode: ":                               {"", []string{"-auth.mode", "perhaps"}},
		"auth.fourEyes: it needs auth.mode on":      {"auth: {fourEyes: [shop]}", nil},
		`"a/b" is neither the name of a project`:    {"auth: {mode: 'on', fourEyes: ['*', shop, a/b]}", nil},
		"auth.requests: ":                           {"", []string{"-auth.requests", "-1"}},
		"http.tls: ":                                {"", []string{"-http.tls", "yes"}},
		"each issuer needs":                         {"auth: {issuers: [{name: corp}]}", nil},
		"two issuers are called":                    {"auth: {issuers: [{name: a, url: 'https://a', audience: x}, {name: a, url: 'https://b', audience: x}]}", nil},
		"urll":                                      {"auth: {issuers: [{name: corp, urll: x}]}", nil},
		"needs client and redirect":                 {webIssuer("{client: emco}"), nil},
		"web needs auth.mode on":                    {webIssuer("{client: emco, redirect: 'https://127.0.0.1/v2/auth/callback'}"), []string{"-auth.mode", "off"}},
		"is not https://HOST/v2":                    {webIssuer("{client: emco, redirect: 'https://127.0.0.1/callback'}"), nil},
		`"https://a@127.0.0.1/v2`:                   {webIssuer("{client: emco, redirect: 'https://a@127.0.0.1/v2/auth/callback'}"), nil},
		"web.redirect needs https":                  {webIssuer("{client: emco, redirect: 'http://emco.example.org/v2/auth/callback'}"), nil},
		"which is not in http.hosts":                {webIssuer("{client: emco, redirect: 'https://emco.example.org/v2/auth/callback'}"), nil},
		"web.signedOut":                             {webIssuer("{client: emco, redirect: 'https://127.0.0.1/v2/auth/callback', signedOut: 'https://elsewhere.org/'}"), nil},
		"http.trustedProxies: \"gate\" is neither":  {"http: {trustedProxies: [10.0.0.1, gate]}", nil},
		"http.trustedProxies: 0.0.0.0/0 is every":   {"http: {trustedProxies: [10.0.0.0/8, 0.0.0.0/0]}", nil},
		"::ffff:0:0/96 is every":                    {"http: {trustedProxies: ['::ffff:0:0/96']}", nil},
		"auth.sessions.life: ":                      {"auth: {sessions: {life: 9h}}", nil},
		"auth.sessions.idle: ":                      {"auth: {sessions: {idle: 1s}}", nil},
		"auth.sessions.person: ":                    {"auth: {sessions: {person: 101}}", nil},
		"auth.proxy.header and":                     {"", []string{"-auth.proxy.header", "X-Forwarded-User"}},
		"certificates of gateways need":             {"", []string{"-auth.proxy.header", "X-Forwarded-User", "-auth.proxy.names", "gate"}},
		"auth.mode: http.clientCA needs a decision": {"", []string{"-http.cert", "c", "-http.certKey", "k", "-http.clientCA", "a"}},
		"must not travel in the clear":              {"", []string{"-http.address", "0.0.0.0:1", "-auth.mode", "on"}},
		"grpc.address: 0.0.0.0:2 is reachab":        {"", []string{"-grpc.address", "0.0.0.0:2", "-auth.mode", "on"}},
	} {
		if _, err := loadWith(t, c.file, c.args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %q", c, err, want)
		}
	}
}

// webIssuer is a file with an issuer whose sign-in of browsers is web.
func webIssuer(web string) string {
	return "auth: {issuers: [{name: a, url: 'https://a', audience: x, web: " + web + "}]}"
}

func TestWhereBrowsersComeBackTo(t *testing.T) {
	t.Parallel()
	for redirect, hosts := range map[string]string{
		"https://emco.example.org/v2/auth/callback": "EMCO.example.org", "https://10.0.0.1:9015/v2/auth/callback": "", "http://localhost:9015/v2/auth/callback": "", "http://127.0.0.1:9015/v2/auth/callback": "", "http://emco.localhost/v2/auth/callback": "",
	} {
		var args []string
		if hosts != "" {
			args = []string{"-http.hosts", hosts}
		}
		c, err := loadWith(t, webIssuer("{client: emco, redirect: '"+redirect+"'}"), args)
		if err != nil || c.Auth.Issuers[0].Web.Redirect != redirect || c.Auth.Sessions.Person != 10 {
			t.Errorf("%s: %+v, %v", redirect, c.Auth, err)
		}
	}
}
