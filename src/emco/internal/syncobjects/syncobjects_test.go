package syncobjects_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/outbound"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncobjects"
)

type keyValueMaps = []map[string]string

func TestRead(t *testing.T) {
	t.Parallel()
	single := keyValueMaps{{"gitType": "GitHub"}, {"userName": "u"}, {"gitToken": "tok"}, {"repoName": "fleet"}, {"branch": "edge"}, {"url": "https://git.example.org/u/fleet.git"}}
	tests := []struct {
		name      string
		kind      string
		ref, res  syncobjects.Object
		want      string // kind host url user token name branch
		wantOther string // options
	}{
		{
			"single-key maps in the reference object, as upstream's code reads them", "fluxcd",
			syncobjects.Object{Name: "git", KV: single},
			syncobjects.Object{Name: "flux", KV: keyValueMaps{{"timeOut": "90"}, {"syncInterval": "2m"}, {"delay": "7"}}},
			"fluxcd github https://git.example.org/u/fleet.git u tok fleet edge", "retryInterval=1m0s syncInterval=2m0s timeOut=1m30s",
		},
		{
			"one map in the resource object with old spellings, as upstream's design has it", "azureArc",
			syncobjects.Object{Name: "azure", KV: keyValueMaps{{"clientID": "xyz", "tenantID": "t"}}},
			syncobjects.Object{Name: "git", KV: keyValueMaps{{"gitType": "github", "user": "u", "token": "tok", "repoUrl": "https://git.example.org/org/myRepo", "branch": "main"}}},
			"azureArcV2 github https://git.example.org/org/myRepo u tok myRepo main", "clientID=xyz retryInterval=1m0s syncInterval=1m0s tenantID=t timeOut=1m0s",
		},
		{
			"the same object in both slots", "fluxv2",
			syncobjects.Object{Name: "git", KV: single},
			syncobjects.Object{Name: "git", KV: single},
			"fluxcd github https://git.example.org/u/fleet.git u tok fleet edge", "retryInterval=1m0s syncInterval=1m0s timeOut=1m0s",
		},
		{
			"no branch means main, a pasted line end is dropped", "plain",
			syncobjects.Object{Name: "git", KV: keyValueMaps{{"url": "http://10.0.0.7:3000/u/fleet.git\n", "user": "u", "token": "tok\n"}}},
			syncobjects.Object{},
			"git  http://10.0.0.7:3000/u/fleet.git u tok fleet main", "retryInterval=1m0s syncInterval=1m0s timeOut=1m0s",
		},
		{
			"owner and name are enough on a hosted service", "flux",
			syncobjects.Object{Name: "git", KV: keyValueMaps{{"gitType": "gitlab", "userName": "group", "gitToken": "tok", "repoName": "fleet"}}},
			syncobjects.Object{},
			"fluxcd gitlab https://gitlab.com/group/fleet group tok fleet main", "retryInterval=1m0s syncInterval=1m0s timeOut=1m0s",
		},
		{
			"ssh takes the login name from the URL", "git",
			syncobjects.Object{Name: "git", KV: keyValueMaps{{"url": "ssh://deploy@git.example.org:2222/srv/fleet.git", "sshKey": "KEY\n", "knownHosts": "H\n"}}},
			syncobjects.Object{},
			"git  ssh://git.example.org:2222/srv/fleet.git deploy  fleet main", "retryInterval=1m0s syncInterval=1m0s timeOut=1m0s",
		},
		{
			"the name of the secret on the edge has an alias, keys have no case", "flux",
			syncobjects.Object{Name: "git", KV: keyValueMaps{{"URL": "https://h/r", "username": "u", "GITTOKEN": "t", "gitSecretRef": "s", "serviceAccountName": "sa"}}},
			syncobjects.Object{},
			"fluxcd  https://h/r u t r main", "retryInterval=1m0s secretRef=s serviceAccountName=sa syncInterval=1m0s timeOut=1m0s",
		},
	}
	for _, test := range tests {
		s, err := syncobjects.Read(test.kind, test.ref, test.res, syncobjects.Rules{PlainHTTP: true})
		if err != nil {
			t.Errorf("%s: Read: %v", test.name, err)
			continue
		}
		got := strings.Join([]string{s.Kind, s.Repo.Provider, s.Repo.URL, s.Repo.User, s.Repo.Token.Reveal(), s.Name, s.Branch}, " ")
		if got != test.want {
			t.Errorf("%s: Read = %q, want %q", test.name, got, test.want)
		}
		var other []string
		for _, key := range slices.Sorted(maps.Keys(s.Options)) {
			other = append(other, key+"="+s.Options[key])
		}
		if got := strings.Join(other, " "); got != test.wantOther {
			t.Errorf("%s: options are %q, want %q", test.name, got, test.wantOther)
		}
	}
}

func TestReadTellsWhereTheInterfaceIs(t *testing.T) {
	t.Parallel()
	o := syncobjects.Object{Name: "git", KV: keyValueMaps{{"gitType": "gitlab", "url": "https://git.example.org/g/r", "userName": "u", "gitToken": "t", "apiURL": "https://api.example.org/gitlab/api/v4"}}}
	s, err := syncobjects.Read("git", o, syncobjects.Object{}, syncobjects.Rules{})
	if err != nil || s.Repo.API != "https://api.example.org/gitlab/api/v4" {
		t.Errorf("Read = %q, %v, want the address that was given", s.Repo.API, err)
	}
}

func TestReadKeepsTheDelay(t *testing.T) {
	t.Parallel()
	s, err := syncobjects.Read("git", syncobjects.Object{KV: keyValueMaps{{"url": "https://h/r", "userName": "u", "gitToken": "t"}}}, syncobjects.Object{KV: keyValueMaps{{"delay": "7"}}}, syncobjects.Rules{})
	if err != nil || s.Delay != 7*time.Second {
		t.Errorf("Read: delay %s, %v; want 7s", s.Delay, err)
	}
}

func TestTheURLToReadFromHoldsNoCredential(t *testing.T) {
	t.Parallel()
	tests := map[string]keyValueMaps{
		"https://h/r":         {{"url": "https://h/r", "userName": "u", "gitToken": "tok"}},
		"ssh://git@h/r":       {{"url": "ssh://h/r", "sshKey": "k", "knownHosts": "h"}},
		"ssh://me@[::1]:22/r": {{"url": "ssh://me@[::1]:22/r", "sshKey": "k", "knownHosts": "h"}},
	}
	for want, pairs := range tests {
		s, err := syncobjects.Read("git", syncobjects.Object{KV: pairs}, syncobjects.Object{}, syncobjects.Rules{})
		if err != nil || s.ReadURL() != want {
			t.Errorf("ReadURL = %q, %v; want %q", s.ReadURL(), err, want)
		}
	}
}

// An error lists all that is missing and names the object, so that one try is enough.
func TestWhatIsMissingIsTold(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		ref, res keyValueMaps
		want     string
	}{
		{"an empty object lacks everything", nil, nil, "cluster-sync-object ref: these keys are missing: url, userName, gitToken"},
		{"the Git object is named, as reference or as resource", keyValueMaps{{"clientID": "c"}}, keyValueMaps{{"repoUrl": "https://h/r"}, {"token": ""}}, "cluster-sync-object res: these keys are missing: userName, gitToken"},
		{"a way with foreign edits that is none", keyValueMaps{{"userName": "u", "gitToken": "tok", "url": "https://git.example.org/r", "onForeignEdit": "ignore"}}, nil, "onForeignEdit is not one of overwrite, hold"},
		{"a way with protected branches that is none", keyValueMaps{{"gitType": "github", "userName": "u", "gitToken": "tok", "repoName": "r", "onProtected": "force"}}, nil, "onProtected is not one of fail, pullRequest"},
		{"an interface of no provider", keyValueMaps{{"userName": "u", "gitToken": "tok", "url": "https://git.example.org/r", "apiUrl": "https://git.example.org/api/v4"}}, nil, "apiUrl goes with a gitType of github or gitlab"},
		{"an interface that is not by http", keyValueMaps{{"gitType": "gitlab", "userName": "u", "gitToken": "tok", "url": "https://git.example.org/g/r", "apiUrl": "ssh://git.example.org/api/v4"}}, nil, "apiUrl: is not an address by https or http; write it as https://host/api/v4"},
		{"pull requests where there are none", keyValueMaps{{"userName": "u", "gitToken": "tok", "url": "https://git.example.org/r", "onProtected": "pullRequest"}}, nil, "needs a gitType that has pull or merge requests: github or gitlab"},
		{"an unknown engine", keyValueMaps{{"userName": "u", "gitToken": "tok", "url": "https://git.example.org/r", "engine": "git"}}, nil, "engine is superseded by sshClient; leave it out"},
		{"an unknown ssh client", keyValueMaps{{"url": "ssh://h/r", "sshKey": "k", "knownHosts": "h", "sshClient": "putty"}}, nil, "sshClient is not one of builtin, program"},
		{"an ssh client without ssh", keyValueMaps{{"userName": "u", "gitToken": "tok", "url": "https://git.example.org/r", "sshClient": "program"}}, nil, "sshClient needs a url with ssh://"},
		{"a hosted service needs no url", keyValueMaps{{"gitType": "github", "userName": "u", "repoName": "r"}}, nil, "cluster-sync-object ref: these keys are missing: gitToken"},
		{"ssh needs a key and known hosts", keyValueMaps{{"url": "ssh://h/r"}}, nil, "cluster-sync-object ref: these keys are missing: sshKey, knownHosts"},
	}
	for _, test := range tests {
		_, err := syncobjects.Read("fluxcd", syncobjects.Object{Name: "ref", KV: test.ref}, syncobjects.Object{Name: "res", KV: test.res}, syncobjects.Rules{})
		if !errs.Is(err, errs.Invalid) || !strings.HasSuffix(err.Error(), test.want) {
			t.Errorf("%s: Read: %v, want Invalid %q", test.name, err, test.want)
		}
	}
}

func TestWhatIsWrongIsRefusedWithoutShowingIt(t *testing.T) {
	t.Parallel()
	base := map[string]string{"url": "https://h/r", "userName": "u", "gitToken": "hunter2"}
	with := func(key, value string) keyValueMaps {
		m := maps.Clone(base)
		m[key] = value
		return keyValueMaps{m}
	}
	tests := map[string]keyValueMaps{
		"another transport":            with("url", "ext::sh -c hunter2"),
		"an option for a command":      with("url", "-oProxyCommand=hunter2"),
		"a host that is an option":     with("url", "ssh://-oProxyCommand=hunter2/r"),
		"a file":                       with("url", "file:///etc/hunter2"),
		"a metadata service":           with("url", "http://169.254.169.254/hunter2"),
		"one in an unusual form":       with("url", "http://2852039166/hunter2"),
		"one as a mapped address":      with("url", "http://[::ffff:169.254.169.254]/hunter2"),
		"one with a dot at the end":    with("url", "http://169.254.169.254./hunter2"),
		"a credential in the URL":      with("url", "https://user:hunter2@h/r"),
		"a name in the URL":            with("url", "https://hunter2@h/r"),
		"a query":                      with("url", "https://h/r?x=hunter2"),
		"no path":                      with("url", "https://h/"),
		"a path that climbs":           with("url", "https://h/a/../hunter2"),
		"an address as scp has it":     with("url", "git@h:hunter2.git"),
		"a line end in the URL":        with("url", "https://h/r\nhunter2"),
		"a line end in the token":      with("gitToken", "hunter2\r\nX: y"),
		"a branch that is an option":   with("branch", "--hunter2"),
		"a branch with a blank":        with("branch", "a hunter2"),
		"a branch that climbs":         with("branch", "a/../hunter2"),
		"a lock as a branch":           with("branch", "hunter2.lock"),
		"a key twice":                  {base, {"token": "hunter3"}},
		"a time that is none":          with("syncInterval", "hunter2"),
		"a negative time":              with("timeOut", "-5s"),
		"a time below a second":        with("retryInterval", "5ms"),
		"a time that overflows":        with("delay", "99999999999999999999"),
		"login names that differ":      {{"url": "ssh://a@h/hunter2", "userName": "b", "sshKey": "k", "knownHosts": "h"}},
		"a login name that is a path":  {{"url": "ssh://h/r", "userName": "b@hunter2", "sshKey": "k", "knownHosts": "h"}},
		"a login name with a password": {{"url": "ssh://a:hunter2@h/r", "sshKey": "k", "knownHosts": "h"}},
	}
	for name, pairs := range tests {
		_, err := syncobjects.Read("git", syncobjects.Object{Name: "obj", KV: pairs}, syncobjects.Object{}, syncobjects.Rules{})
		if !errs.Is(err, errs.Invalid) || strings.Contains(err.Error(), "hunter") || !strings.Contains(err.Error(), "cluster-sync-object obj") {
			t.Errorf("%s: Read: %v, want Invalid that names the object and shows no value", name, err)
		}
	}
}

// The old key engine still reads: fast-import was for servers that only the ssh program reaches.
func TestTheSSHClientIsChosen(t *testing.T) {
	t.Parallel()
	const ssh, web = "ssh://h/r", "https://h/r"
	for _, c := range []struct {
		url, key, value string
		program         bool
	}{
		{ssh, "branch", "main", false},
		{ssh, "sshClient", "builtin", false},
		{ssh, "sshClient", "program", true},
		{ssh, "SSHClient", "Program", true},
		{ssh, "engine", "direct", false},
		{ssh, "engine", "Fast-Import", true},
		{web, "engine", "fast-import", false},
		{web, "engine", "direct", false},
	} {
		keys := map[string]string{"url": c.url, c.key: c.value}
		switch {
		case c.url == web:
			keys["userName"], keys["gitToken"] = "u", "t"
		case !c.program: // the ssh program may find keys and known hosts in its own configuration
			keys["sshKey"], keys["knownHosts"] = "k", "h"
		}
		s, err := syncobjects.Read("git", syncobjects.Object{KV: keyValueMaps{keys}}, syncobjects.Object{}, syncobjects.Rules{})
		if err != nil || s.Repo.SSHProgram != c.program {
			t.Errorf("%s with %s=%s: ssh program %v, %v; want %v", c.url, c.key, c.value, s.Repo.SSHProgram, err, c.program)
		}
	}
}

// A client certificate is shown to the repository's server alone.
func TestTheClientCertificateStaysOnItsServer(t *testing.T) {
	t.Parallel()
	for status, kept := range map[string]bool{"https://h/reports": true, "https://elsewhere/reports": false} {
		s, err := syncobjects.Read("git", syncobjects.Object{KV: keyValueMaps{{
			"url": "https://h/r", "userName": "u", "gitToken": "t", "clientCert": "CERT\n", "clientKey": "KEY\n",
			"statusUrl": status, "statusUserName": "u", "statusToken": "s",
		}}}, syncobjects.Object{}, syncobjects.Rules{})
		if err != nil || s.Repo.ClientCert != "CERT\n" || s.Repo.ClientKey != "KEY\n" {
			t.Errorf("repository: certificate %q, %v", s.Repo.ClientCert, err)
		}
		if got := s.Status.Repo.ClientKey != "" || s.Status.Repo.ClientCert != ""; got != kept {
			t.Errorf("reports at %s get the certificate: %v, want %v", status, got, kept)
		}
	}
}

func TestRules(t *testing.T) {
	t.Parallel()
	tests := []struct {
		url   string
		rules syncobjects.Rules
		ok    bool
	}{
		{"file:///srv/git/r.git", syncobjects.Rules{AllowFile: true}, true},
		{"file://host/srv/r.git", syncobjects.Rules{AllowFile: true}, false},
		{"http://127.0.0.1:3000/u/r", syncobjects.Rules{}, true},
		{"http://localhost/u/r", syncobjects.Rules{}, true},
		{"http://127.0.0.1:3000/u/r", syncobjects.Rules{Outbound: outbound.Policy{DenyPrivate: true}}, false},
		{"http://[::1]/u/r", syncobjects.Rules{Outbound: outbound.Policy{DenyPrivate: true}}, false},
		{"http://192.168.1.1/u/r", syncobjects.Rules{Outbound: outbound.Policy{DenyPrivate: true}}, false},
		{"http://git.localhost/u/r", syncobjects.Rules{Outbound: outbound.Policy{DenyPrivate: true}}, false},
		{"http://169.254.1.1/u/r", syncobjects.Rules{Outbound: outbound.Policy{DenyPrivate: true}}, false},
		{"http://git.example.org/u/r", syncobjects.Rules{}, false},
		{"http://git.example.org/u/r", syncobjects.Rules{PlainHTTP: true}, true},
		{"https://[fd00:ec2::254]/u/r", syncobjects.Rules{}, false},
		{"https://100.100.100.200/u/r", syncobjects.Rules{}, false},
		{"https://git.example.org/u/r", syncobjects.Rules{Outbound: outbound.Policy{DenyPrivate: true}}, true},
	}
	for _, test := range tests {
		_, err := syncobjects.Read("git", syncobjects.Object{KV: keyValueMaps{{"url": test.url, "userName": "u", "gitToken": "t"}}}, syncobjects.Object{}, test.rules)
		if (err == nil) != test.ok {
			t.Errorf("Read of %s: %v, want ok %t", test.url, err, test.ok)
		}
	}
}

// A new object is refused if the clusters of no sync type could use its URL.
func TestTheURLOfANewObject(t *testing.T) {
	t.Parallel()
	strict, open := syncobjects.Rules{}, syncobjects.Rules{AllowFile: true, PlainHTTP: true}
	for _, c := range []struct {
		rules syncobjects.Rules
		kv    map[string]string
		want  string // of the error; empty: none
	}{
		{strict, map[string]string{"timeOut": "60"}, ""},
		{strict, map[string]string{"repoUrl": "https://git.example/fleet"}, ""},
		{strict, map[string]string{"url": "ssh://git@git.example/fleet"}, ""},
		{strict, map[string]string{"url": "oci://registry.example/fleet"}, ""},
		{strict, map[string]string{"url": "http://registry.example/fleet"}, ""}, // of a registry
		{strict, map[string]string{"url": "http://127.0.0.1:3000/fleet", "branch": "main"}, ""},
		{strict, map[string]string{"url": "http://git.example/fleet", "branch": "main"}, "url: would send credentials in the clear"},
		{open, map[string]string{"url": "http://git.example/fleet", "branch": "main"}, ""},
		{strict, map[string]string{"url": "file:///srv/fleet"}, "url: file:// is not allowed here; use https, http or ssh"},
		{open, map[string]string{"url": "file:///srv/fleet"}, ""},
		{open, map[string]string{"URL": "git://git.example/fleet"}, `url: scheme "git" is not allowed`},
	} {
		err := syncobjects.CheckURL(syncobjects.Object{Name: "repo", KV: []map[string]string{c.kv}}, c.rules)
		if c.want == "" && err != nil || c.want != "" && (!errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), "cluster-sync-object repo: "+c.want)) {
			t.Errorf("%v: %v, want %q", c.kv, err, c.want)
		}
	}
}

func TestCanonical(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"fluxcd": "fluxcd", "fluxv2": "fluxcd", "Flux": "fluxcd", "FLUXCD": "fluxcd",
		"azureArc": "azureArcV2", "azurearcv2": "azureArcV2", "googleAnthos": "anthos", "configsync": "anthos",
		"argo": "argocd", "plain": "git", "git": "git", "exec": "exec",
	}
	for kind, want := range tests {
		if got, err := syncobjects.Canonical(kind); err != nil || got != want {
			t.Errorf("Canonical(%q) = %q, %v; want %q", kind, got, err, want)
		}
	}
	for _, kind := range []string{"", "k8s", "fluxcd2"} {
		if _, err := syncobjects.Canonical(kind); !errs.Is(err, errs.Invalid) {
			t.Errorf("Canonical(%q): %v, want Invalid", kind, err)
		}
	}
}

// Settings are logged and compared in tests; the credential must not come along.
func TestSettingsPrintNoCredential(t *testing.T) {
	t.Parallel()
	s, err := syncobjects.Read("git", syncobjects.Object{KV: keyValueMaps{{"url": "https://h/r", "userName": "u", "gitToken": "hunter2"}}}, syncobjects.Object{}, syncobjects.Rules{})
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(format, s); strings.Contains(text, "hunter2") {
			t.Errorf("Sprintf(%q) shows the credential: %s", format, text)
		}
	}
}

// Whatever is in an object, reading it does not panic, and what is accepted is clean.
func FuzzRead(f *testing.F) {
	for _, url := range []string{"https://h/r", "ssh://a@h/r", "http://[::1]:80/x.git", "file:///x", "https://h/%2e%2e/r"} {
		f.Add(url, "main", "60")
	}
	f.Fuzz(func(t *testing.T, url, branch, wait string) {
		s, err := syncobjects.Read("git", syncobjects.Object{KV: keyValueMaps{{"url": url, "branch": branch, "timeOut": wait, "userName": "u", "gitToken": "hunter2", "sshKey": "k", "knownHosts": "h"}}}, syncobjects.Object{}, syncobjects.Rules{})
		if err != nil {
			if !errs.Is(err, errs.Invalid) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("Read: %v, want Invalid without a value", err)
			}
			return
		}
		scheme, _, _ := strings.Cut(s.Repo.URL, "://")
		if !slices.Contains([]string{"http", "https", "ssh"}, scheme) || slices.Contains(strings.Split(s.ReadURL(), "/"), "..") || strings.HasPrefix(s.Branch, "-") {
			t.Errorf("Read accepts %q, branch %q", s.ReadURL(), s.Branch)
		}
	})
}

func TestFlags(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"true": "true", "False": "false", "yes": "error", "": "error", "1": "error"} {
		var f syncobjects.Flag
		got := "error"
		if err := f.UnmarshalText([]byte(text)); err == nil {
			got = fmt.Sprint(f)
		}
		if got != want {
			t.Errorf("flag %q is %s, want %s", text, got, want)
		}
	}
}

// The recipients of encrypted Secrets may be in either object. An invalid key, a private one, and a
// Flux that would not decrypt are refused without a value in the text.
func TestRecipientsOfSecretsAreRead(t *testing.T) {
	t.Parallel()
	const first, second = "age1kp5yu53j08wg44wk0u05t0tvqj43898vtg3cgz7cnda6jwjvmfrqtex8w6", "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"
	repository := map[string]string{"url": "https://git.example/fleet", "userName": "u", "gitToken": "t"}
	read := func(kind string, keys map[string]string) (syncobjects.Settings, error) {
		return syncobjects.Read(kind, syncobjects.Object{Name: "repo", KV: []map[string]string{repository}}, syncobjects.Object{Name: "flux", KV: []map[string]string{keys}}, syncobjects.Rules{})
	}
	s, err := read("fluxcd", map[string]string{"AGErecipients": second + ", " + first, "decryptionProvider": "sops"})
	if err != nil || !slices.Equal(s.Recipients, []string{first, second}) || s.Options["ageRecipients"] != "" {
		t.Errorf("got %v with options %v, %v", s.Recipients, s.Options, err)
	}
	if s, err := read("git", map[string]string{"ageRecipients": first}); err != nil || len(s.Recipients) != 1 {
		t.Errorf("got %v, %v", s.Recipients, err)
	}
	for want, keys := range map[string]map[string]string{
		"needs decryptionProvider: sops": {"ageRecipients": first},
		"no public key of age":           {"ageRecipients": "age1planted", "decryptionProvider": "sops"},
		"has a private key":              {"ageRecipients": "AGE-SECRET-KEY-1PLANTED", "decryptionProvider": "sops"},
	} {
		if _, err := read("fluxcd", keys); !errs.Is(err, errs.Invalid) || !strings.Contains(err.Error(), want) || strings.Contains(strings.ToLower(err.Error()), "planted") {
			t.Errorf("%v: %v, want %q", keys, err, want)
		}
	}
}
