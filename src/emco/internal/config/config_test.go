package config

import (
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

func load(t *testing.T, env map[string]string, args ...string) (Config, error) {
	t.Helper()
	fs := flag.NewFlagSet("emco", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	return Load(fs, args, variables(env), func(text string) { t.Log(text) })
}

// variables returns variables in the form of os.Environ.
func variables(env map[string]string) (out []string) {
	for name, value := range env {
		out = append(out, name+"="+value)
	}
	return out
}

func TestFlagsWinOverEnvironmentOverFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "emco.yaml")
	text := "http: {address: '127.0.0.1:1', packageLimit: 5}\nlog: {level: debug}\nkube: {timeout: 3s}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"EMCO_CONFIG": file, "EMCO_HTTP_ADDRESS": "127.0.0.1:2", "EMCO_LOG_LEVEL": "warn", "EMCO_HTTP_PACKAGE_LIMIT": "6"}
	c, err := load(t, env, "-log.level", "error")
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.HTTP.Address, want.HTTP.PackageLimit = "127.0.0.1:2", 6
	want.Log.Level, want.Kube.Timeout = "error", Duration(3e9)
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got %+v\nwant %+v", c, want)
	}
}

func TestWhatIsWrongIsNamed(t *testing.T) {
	t.Parallel()
	unknown := filepath.Join(t.TempDir(), "emco.yaml")
	if err := os.WriteFile(unknown, []byte("http: {adress: x}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		env  map[string]string
		args []string
		want string
	}{
		{"an unknown member of the file", nil, []string{"-config", unknown}, "adress"},
		{"a file that is not there", nil, []string{"-config", unknown + "x"}, "no such file"},
		{"an unknown service", nil, []string{"-target", "clm,nope"}, `no service is called "nope"`},
		{"a number that is none", map[string]string{"EMCO_KUBE_QPS": "many"}, nil, "EMCO_KUBE_QPS"},
		{"a stray argument", nil, []string{"run"}, `unexpected argument "run"`},
		{"one service on an embedded etcd", nil, []string{"-target", "rsync"}, "etcd.endpoints"},
		{"a lease that no etcd grants", nil, []string{"-lease", "1s"}, "lease: must not be below 2s"},
		{"an unknown store", nil, []string{"-store.driver", "postgres"}, `store.driver: "postgres" is not one of sqlite, etcd, mongo`},
		{"MongoDB without an address", nil, []string{"-store.driver", "mongo"}, "store.mongo.uri"},
		{"two settings at once", nil, []string{"-kube.qps", "0", "-log.level", "loud"}, "log.level: \"loud\" is not one of debug, info, warn, error\nkube.qps: must be above zero"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if _, err := load(t, tt.env, tt.args...); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
}

// An unknown member is reported with its line and the setting that was probably meant.
func TestF56UnknownMembersAreNamedWithLineAndNearestSetting(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "emco.yaml")
	text := "data: x\nhttp:\n  adress: 127.0.0.1:1\n  Drain: 3s\naddress: x\nkube: {qpss: 1,\n  zebra: 2}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := load(t, nil, "-config", file)
	want := file + ":3: there is no setting http.adress; did you mean http.address?\n" +
		file + ":5: there is no setting address; did you mean http.address?\n" +
		file + ":6: there is no setting kube.qpss; did you mean kube.qps?\n" +
		file + ":7: there is no setting kube.zebra"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestF56ValuesThatNoStartTakesAreRefused(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"http.address": "nowhere", "grpc.address": "127.0.0.1:99999", "debug.address": "localhost:no-such-port",
		"etcd.quota": "1", "git.window": "-1s", "git.look": "-1s", "http.drain": "-1s",
	} {
		if _, err := load(t, nil, "-"+name, value); err == nil || !strings.Contains(err.Error(), name+": ") {
			t.Errorf("%s=%s: got %v, want an error that names it", name, value, err)
		}
	}
}

// A misspelt flag is named with the one that was probably meant.
func TestUnknownFlagsAreNamed(t *testing.T) {
	t.Parallel()
	for flag, want := range map[string]string{
		"-http.adress":  "there is no flag -http.adress; did you mean -http.address?",
		"--LogLevel":    "there is no flag -LogLevel; did you mean -log.level?",
		"-kek":          "there is no flag -kek; did you mean -encryption.kek?",
		"-confg":        "there is no flag -confg; did you mean -config?",
		"-auth.issuers": "there is no flag -auth.issuers: only the configuration file has auth.issuers",
		"-zebra":        "there is no flag -zebra",
	} {
		if _, err := load(t, nil, flag, "x"); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", flag, err, want)
		}
	}
	if _, err := load(t, nil, "frob"); err == nil || err.Error() != `unexpected argument "frob"` {
		t.Errorf("an argument: %v", err)
	}
}

// Variables are named as people write abbreviations. The former names still work, with a
// warning, and the present ones win.
// An address that other machines reach is refused unless the operator accepts that.
func TestF57AddressesBeyondLoopback(t *testing.T) {
	t.Parallel()
	for _, setting := range []string{"http.address", "grpc.address", "debug.address"} {
		for address, exposed := range map[string]bool{
			"0.0.0.0:9019": true, ":9019": true, "[::]:9019": true, "192.0.2.1:9019": true, "emco.example.org:9019": true, "127.0.0.1.example.org:1": true,
			"127.0.0.1:0": false, "127.8.0.1:1": false, "[::1]:1": false, "localhost:1": false,
		} {
			_, err := load(t, nil, "-"+setting, address)
			if exposed != (err != nil) || err != nil && (!strings.Contains(err.Error(), setting+": ") || !strings.Contains(err.Error(), "http.insecure")) {
				t.Errorf("%s=%s: got %v", setting, address, err)
			}
			c, err := load(t, nil, "-http.insecure", "-"+setting, address)
			if err != nil || exposed != slices.Contains(c.Exposed(), setting) {
				t.Errorf("%s=%s with http.insecure: exposed %v, %v", setting, address, c.Exposed(), err)
			}
		}
	}
}

// An address without a port is one fault; that of the profiler has an advice of its own.
func TestWhatIsSaidOfAnAddress(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"-http.address 127.0.0.1":     `http.address: "127.0.0.1" is no address of the form host:port: address 127.0.0.1: missing port in address`,
		"-grpc.address 192.0.2.1":     `grpc.address: "192.0.2.1" is no address of the form host:port: address 192.0.2.1: missing port in address`,
		"-debug.address 0.0.0.0:6060": "debug.address: 0.0.0.0:6060 is reachable from other machines, and profiles show secrets to everyone who reaches them: listen on 127.0.0.1, and go there from elsewhere through a tunnel (ssh -L, kubectl port-forward); http.insecure would allow it, and also http.address and grpc.address without protection",
	} {
		if _, err := load(t, nil, strings.Fields(args)...); err == nil || err.Error() != want {
			t.Errorf("%s:\ngot  %v\nwant %s", args, err, want)
		}
	}
}

// Two settings cannot have the same port of the machine.
func TestAddressesDiffer(t *testing.T) {
	t.Parallel()
	for pair, same := range map[[2]string]bool{
		{"127.0.0.1:9", "127.0.0.1:9"}: true, {"127.0.0.1:9", "localhost:9"}: true, {"127.0.0.1:9", "0.0.0.0:9"}: true, {":9", "127.0.0.1:9"}: true,
		{"127.0.0.1:80", "127.0.0.1:http"}: true, {"[::1]:9", "[::]:9"}: true, {"0.0.0.0:9", "[::]:9"}: true,
		{"127.0.0.1:9", "127.0.0.1:10"}: false, {"127.0.0.1:0", "127.0.0.1:0"}: false, {"127.0.0.1:9", "127.0.0.2:9"}: false, {"127.0.0.1:9", "[::1]:9"}: false,
	} {
		_, err := load(t, nil, "-http.insecure", "-http.address", pair[0], "-grpc.address", pair[1])
		if want := "grpc.address: " + pair[1] + " and " + pair[0] + ", of http.address, are the same port of this machine"; same != (err != nil) || same && err.Error() != want {
			t.Errorf("%v: got %v", pair, err)
		}
	}
	if _, err := load(t, nil, "-ops.address", "127.0.0.1:9016", "-debug.address", "127.0.0.1:9015"); err == nil || !strings.Contains(err.Error(), "ops.address: ") || !strings.Contains(err.Error(), "debug.address: ") {
		t.Errorf("the defaults of others: %v", err)
	}
}

// Client certificates open an address to other machines. With TLS alone callers authenticate. The address for
// probes is open.
func TestAddressesBeyondLoopbackWithClientCertificates(t *testing.T) {
	t.Parallel()
	beyond := []string{"-http.address", "0.0.0.0:9015", "-grpc.address", "0.0.0.0:9016", "-ops.address", "0.0.0.0:9017"}
	server := []string{"-http.cert", "tls.crt", "-http.certKey", "tls.key"}
	c, err := load(t, nil, slices.Concat(beyond, server, []string{"-http.clientCA", "ca.crt", "-auth.mode", "off"})...)
	if err != nil || len(c.Exposed()) > 0 {
		t.Errorf("with client certificates: exposed %v, %v", c.Exposed(), err)
	}
	c, err = load(t, nil, slices.Concat(beyond, server)...)
	if err != nil || len(c.Exposed()) > 0 || !c.Authenticates() {
		t.Errorf("with TLS alone: exposed %v, authenticates %v, %v", c.Exposed(), c.Authenticates(), err)
	}
	for want, args := range map[string][]string{
		"where tokens must not travel in the clear":   beyond,
		"http.cert and http.certKey are needed":       {"-http.cert", "tls.crt"},
		"http.clientCA: client certificates need TLS": {"-http.clientCA", "ca.crt"},
	} {
		if _, err := load(t, nil, args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %q", args, err, want)
		}
	}
	if _, err := load(t, nil, "-ops.address", "0.0.0.0:9017"); err != nil {
		t.Error(err)
	}
}

// The audit log goes to other machines over TLS only, and never to a metadata service.
func TestTheServerOfTheAuditLog(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"https://collector.example.org/emco?index=a", "http://127.0.0.1:8088/", "http://localhost:8088/"} {
		if _, err := load(t, nil, "-audit.webhook.url", good, "-audit.webhook.tokenFile", "token"); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for want, args := range map[string][]string{
		"must begin with https://, except": {"-audit.webhook.url", "http://collector.example.org/"},
		"must not have credentials":        {"-audit.webhook.url", "https://emco:secret@collector.example.org/"},
		"link-local addresses":             {"-audit.webhook.url", "https://169.254.169.254/"},
		"private addresses are refused":    {"-audit.webhook.url", "https://10.0.0.1/", "-outbound.denyPrivate"},
		"without it tokenFile and ca":      {"-audit.webhook.tokenFile", "token"},
	} {
		if _, err := load(t, nil, args...); err == nil || !strings.Contains(err.Error(), "audit.webhook.url: ") || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v: got %v, want %q", args, err, want)
		}
	}
}

func TestLingerTime(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		http HTTP
		want time.Duration
	}{
		{HTTP{Address: "127.0.0.1:1"}, 0},
		{HTTP{Address: "0.0.0.0:1"}, 5 * time.Second},
		{HTTP{Address: "127.0.0.1:1", Linger: Duration(time.Second)}, time.Second},
		{HTTP{Address: "0.0.0.0:1", Linger: Duration(time.Second)}, time.Second},
	} {
		if got := c.http.LingerTime(); got != c.want {
			t.Errorf("%+v lingers %s, want %s", c.http, got, c.want)
		}
	}
}

func TestF59VariablesOfAbbreviations(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		env  map[string]string
		want bool
		warn string
	}{
		"the name":          {map[string]string{"EMCO_OCI_PLAIN_HTTP": "true"}, true, ""},
		"the former name":   {map[string]string{"EMCO_OCI_PLAIN_H_T_T_P": "true"}, true, "EMCO_OCI_PLAIN_H_T_T_P is now called EMCO_OCI_PLAIN_HTTP; rename it"},
		"both":              {map[string]string{"EMCO_OCI_PLAIN_H_T_T_P": "true", "EMCO_OCI_PLAIN_HTTP": "false"}, false, "EMCO_OCI_PLAIN_H_T_T_P is ignored: EMCO_OCI_PLAIN_HTTP is set"},
		"a wrong old value": {map[string]string{"EMCO_OCI_PLAIN_H_T_T_P": "maybe"}, false, "EMCO_OCI_PLAIN_H_T_T_P is now called EMCO_OCI_PLAIN_HTTP; rename it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var warned []string
			c, err := Load(flag.NewFlagSet("emco", flag.ContinueOnError), nil, variables(tt.env), func(text string) { warned = append(warned, text) })
			if strings.HasPrefix(name, "a wrong") != (err != nil) || err != nil && !strings.Contains(err.Error(), "EMCO_OCI_PLAIN_H_T_T_P") {
				t.Errorf("got error %v", err)
			}
			if c.OCI.PlainHTTP != tt.want || strings.Join(warned, "|") != tt.warn {
				t.Errorf("got %v and the warnings %q, want %v and %q", c.OCI.PlainHTTP, warned, tt.want, tt.warn)
			}
		})
	}
}

// A misspelt variable has no effect: the program says so.
func TestUnknownVariablesAreNamed(t *testing.T) {
	t.Parallel()
	for variable, want := range map[string]string{
		"EMCO_HTTP_ADRESS=x":                 "EMCO_HTTP_ADRESS is no setting and has no effect; did you mean EMCO_HTTP_ADDRESS?; emco -help lists the settings",
		"EMCO_STORE_LOOK_HERE_FOR_MORE=x":    "EMCO_STORE_LOOK_HERE_FOR_MORE is no setting and has no effect; emco -help lists the settings",
		"EMCO_AUTH_TRUSTED=x":                "EMCO_AUTH_TRUSTED is no setting and has no effect; emco -help lists the settings",
		"EMCO_AUTHMODE=on":                   "EMCO_AUTHMODE is no setting and has no effect; did you mean EMCO_AUTH_MODE?; emco -help lists the settings",
		"EMCO_LOGLEVEL=warn":                 "EMCO_LOGLEVEL is no setting and has no effect; did you mean EMCO_LOG_LEVEL?; emco -help lists the settings",
		"EMCO_DATA_DIR=x":                    "EMCO_DATA_DIR is no setting and has no effect; did you mean EMCO_DATA?; emco -help lists the settings",
		"EMCO_KEK=x":                         "EMCO_KEK is no setting and has no effect; did you mean EMCO_ENCRYPTION_KEK?; emco -help lists the settings",
		"EMCO_BOOTSTRAP_FILE=x":              "EMCO_BOOTSTRAP_FILE is no setting and has no effect; did you mean EMCO_AUTH_BOOTSTRAP_FILE?; emco -help lists the settings",
		"EMCO_SEALING_KEY=x":                 "EMCO_SEALING_KEY is no setting and has no effect; emco -help lists the settings",
		"EMCO_AUTH_ISSUERS=x":                "EMCO_AUTH_ISSUERS has no effect: only the configuration file has auth.issuers",
		"EMCO_AUTH_ISSUERS_0_URL=x":          "EMCO_AUTH_ISSUERS_0_URL has no effect: only the configuration file has auth.issuers",
		"EMCO_LOG_LEVEL=warn":                "",
		"EMCO_CONFIG=":                       "",
		"EMCO_FAILPOINTS=x":                  "",
		"EMCO_SERVICE_HOST=10.0.0.1":         "", // of Kubernetes, for a Service called emco
		"EMCO_PORT=tcp://10.0.0.1:9015":      "",
		"EMCO_URL=http://127.0.0.1:9015":     "", // of emcoctl
		"EMCO_HTTP_SERVICE_HOST=10.0.0.1":    "", // of Kubernetes, for a Service called emco-http
		"EMCO_HTTP_SERVICE_PORT_REST=9015":   "",
		"EMCO_HTTP_PORT=tcp://10.0.0.1:9015": "",
		"EMCO_HTTP_PORT_9015_TCP_PROTO=tcp":  "",
		"HTTP_ADDRESS=x":                     "",
	} {
		var warned []string
		_, err := Load(flag.NewFlagSet("emco", flag.ContinueOnError), nil, []string{variable}, func(text string) { warned = append(warned, text) })
		if got := strings.Join(warned, "|"); err != nil || got != want {
			t.Errorf("%s: got error %v and the warnings %q, want %q", variable, err, got, want)
		}
	}
	key := []string{"EMCO_STORE_SECRET=x"}
	_, err := Load(flag.NewFlagSet("emco", flag.ContinueOnError), []string{"-encryption.kek=env://EMCO_STORE_SECRET"}, key, func(text string) { t.Error(text) })
	if err != nil {
		t.Error(err)
	}
}

// The variables of emcoctl are often set for emco too, in one shell.
func TestTheVariablesOfEmcoctlAreKnown(t *testing.T) {
	t.Parallel()
	sources, err := filepath.Glob("../../../emcoctl/internal/*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, file := range sources {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile(`Getenv\("(EMCO_\w+)"\)`).FindAllStringSubmatch(string(text), -1) {
			found++
			if !slices.Contains(othersVariables, match[1]) {
				t.Errorf("%s reads %s, of which emco warns", file, match[1])
			}
		}
	}
	if found < 5 {
		t.Errorf("emcoctl reads %d variables, want at least 5", found)
	}
}

// No variable takes an abbreviation apart.
func TestF59NoVariableHasSingleLetters(t *testing.T) {
	t.Parallel()
	c := Default()
	for _, l := range namedSettings(&c) {
		for part := range strings.SplitSeq(l.env(), "_") {
			if len(part) < 2 {
				t.Errorf("%s is %s in the environment", l.name, l.env())
			}
		}
	}
}

func TestF59TheServiceIsConfined(t *testing.T) {
	t.Parallel()
	unit, err := os.ReadFile("../../../../deployments/systemd/emco.service")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"ProtectKernelTunables=yes", "ProtectKernelModules=yes", "ProtectKernelLogs=yes", "ProtectControlGroups=yes", "ProtectClock=yes",
		"ProtectHostname=yes", "ProtectProc=invisible", "RestrictNamespaces=yes", "RestrictRealtime=yes", "RemoveIPC=yes",
		"RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX", "SystemCallFilter=@system-service", "SystemCallFilter=~@privileged", "UMask=0077",
	} {
		if !strings.Contains(string(unit), "\n"+want+"\n") {
			t.Errorf("emco.service lacks %s", want)
		}
	}
}

func TestSecretsDoNotPrint(t *testing.T) {
	t.Parallel()
	c, err := load(t, map[string]string{"EMCO_STORE_KEY": "planted"})
	if err != nil {
		t.Fatal(err)
	}
	if c.Store.Key.Reveal() != "planted" {
		t.Fatalf("got key %q", c.Store.Key.Reveal())
	}
	text, err := Print(c)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "planted") || !strings.Contains(string(text), "***") {
		t.Errorf("printed %s", text)
	}
}

func TestHelpNamesEachSettingThreeWays(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	fs := flag.NewFlagSet("emco", flag.ContinueOnError)
	fs.SetOutput(&out)
	_, err := Load(fs, []string{"-help"}, nil, func(string) {})
	if !errors.Is(err, flag.ErrHelp) {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"-http.packageLimit", "EMCO_HTTP_PACKAGE_LIMIT", "EMCO_OCI_PLAIN_HTTP", "(default 127.0.0.1:9015)"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("help lacks %q", want)
		}
	}
}

func TestABooleanFlagAloneMeansTrue(t *testing.T) {
	t.Parallel()
	tests := []struct {
		args []string
		want bool
	}{
		{[]string{"-git.allowFile", "-log.level", "error"}, true},
		{[]string{"-log.level", "error", "-git.allowFile"}, true},
		{[]string{"-git.allowFile=true", "-log.level=error"}, true},
		{[]string{"-git.allowFile=false", "-log.level", "error"}, false},
	}
	for _, tt := range tests {
		c, err := load(t, map[string]string{"EMCO_GIT_ALLOW_FILE": strconv.FormatBool(!tt.want)}, tt.args...)
		if err != nil || c.Git.AllowFile != tt.want || c.Log.Level != "error" {
			t.Errorf("%q: git.allowFile is %v, log.level %s, error %v", tt.args, c.Git.AllowFile, c.Log.Level, err)
		}
	}
	if _, err := load(t, nil, "-git.allowFile", "true"); err == nil || !strings.Contains(err.Error(), `unexpected argument "true"`) {
		t.Errorf("a value after a space: %v", err)
	}
	if _, err := load(t, nil, "-git.allowFile=maybe"); err == nil {
		t.Error("maybe is a boolean")
	}
}

func TestHelpShowsBooleansWithoutValue(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	fs := flag.NewFlagSet("emco", flag.ContinueOnError)
	fs.SetOutput(&out)
	if _, err := Load(fs, []string{"-help"}, nil, func(string) {}); !errors.Is(err, flag.ErrHelp) {
		t.Fatalf("got %v", err)
	}
	lines := strings.Split(out.String(), "\n")
	for _, want := range []string{"  -git.allowFile", "  -http.insecure", "  -git.timeout value"} {
		if !slices.Contains(lines, want) {
			t.Errorf("help lacks the line %q", want)
		}
	}
}

// The manifests of the control plane start it: their settings and variables are right together.
func TestTheManifestsConfigurationIsRight(t *testing.T) {
	t.Parallel()
	one, three := manifests(t, "emco.yaml"), manifests(t, "services.yaml")
	if one.Authenticates() || one.HTTP.Cert != "" || len(one.Etcd.Endpoints) > 0 {
		t.Errorf("one pod: identity %v, certificate %q, etcd %v", one.Authenticates(), one.HTTP.Cert, one.Etcd.Endpoints)
	}
	if !three.Authenticates() || three.HTTP.Insecure || three.HTTP.CertKey != "/etc/emco-tls/tls.key" || len(three.Etcd.Endpoints) != 3 || three.Etcd.CertKey == "" || !three.complete() || three.HTTP.Linger == 0 {
		t.Errorf("several pods: %+v, %+v, targets %v", three.HTTP, three.Etcd, three.Target)
	}
}

// manifests returns the configuration of the pods of a file.
func manifests(t *testing.T, file string) Config {
	t.Helper()
	text, err := os.ReadFile("../../../../deployments/emco/" + file)
	if err != nil {
		t.Fatal(err)
	}
	env, settings := map[string]string{}, ""
	for doc := range strings.SplitSeq(string(text), "\n---\n") {
		var object struct {
			Data map[string]string
			Spec struct {
				Template struct {
					Spec struct {
						Containers []struct {
							Env []struct{ Name, Value string }
						}
					}
				}
			}
		}
		if err := yaml.Unmarshal([]byte(doc), &object); err != nil {
			t.Fatal(err)
		}
		settings += object.Data["emco.yaml"]
		for _, c := range object.Spec.Template.Spec.Containers {
			for _, v := range c.Env {
				env[v.Name] = v.Value
			}
		}
	}
	env["EMCO_CONFIG"] = filepath.Join(t.TempDir(), "emco.yaml")
	if err := os.WriteFile(env["EMCO_CONFIG"], []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := load(t, env)
	if err != nil {
		t.Fatal(err)
	}
	if c.HTTP.Address != "0.0.0.0:9015" || c.Ops.Address != "0.0.0.0:9017" || !slices.Contains(c.HTTP.Hosts, "emco.emco.svc") || settings == "" {
		t.Errorf("%s: addresses %s and %s, hosts %v, settings %q", file, c.HTTP.Address, c.Ops.Address, c.HTTP.Hosts, settings)
	}
	return c
}

func TestTheConfigurationThatIsDeployedIsRight(t *testing.T) {
	t.Parallel()
	c, err := load(t, nil, "-config", "../../../../deployments/systemd/emco.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if c.Data != "/var/lib/emco" {
		t.Errorf("got data folder %q", c.Data)
	}
}
