package app_test

import (
	"bytes"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/emco/internal/app"
	"github.com/emco-orchestrator/emco/src/emco/internal/config"
)

func TestCommands(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "emco.yaml")
	if err := os.WriteFile(file, []byte("store: {key: planted}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args     string
		code     int
		out, err string
	}{
		{"version", 0, ", go1.", ""},
		{"-version", 0, "emco ", ""},
		{"--version", 0, "emco ", ""},
		{"-help", 0, "emco version, emco -version", ""},
		{"help", 0, "emco version, emco -version", ""},
		{"help", 0, "\n  auth.issuers\n", ""},
		{"-help", 0, "; each with name, url, audience, client, ca, groupsClaim, prefix, web.client, web.secretFile, web.redirect, web.signedOut\n", ""},
		{"-help", 0, "\n  outbound.engineAccess\n", ""},
		{"help keys", 0, "emco keys list|verify|rotate|rewrap", ""},
		{"version now", 2, "", "unexpected argument"},
		{"config print", 0, "127.0.0.1:9015", ""},
		{"config print -config " + file, 0, "***", ""},
		{"config check", 0, "", ""},
		{"config check -kube.qps 0", 2, "", "kube.qps: must be above zero"},
		{"config check -retry.first 1h", 2, "", "retry.longest: must not be below retry.first"},
		{"config", 2, "", "use check or print"},
		{"config explode", 2, "", "use check or print"},
		{"run", 2, "", "there is no command \"run\"\nthe commands are adopt, backup, config, doctor, help, keys, level, migrate-store, restore, version; without one, the services run\n"},
		{"bakup -to x", 2, "", "there is no command \"bakup\"; did you mean backup?"},
		{"config check frob", 2, "", "unexpected argument \"frob\"\nsee emco -help"},
		{"-http.adress x", 2, "", "emco: there is no flag -http.adress; did you mean -http.address?\nsee emco -help"},
		{"doctor -brnches", 2, "", "there is no flag -brnches; did you mean -branches?"},
		{"-target nope", 2, "", `no service is called "nope"`},
		{"-render.kubeVersion soon -http.address 127.0.0.1:0 -data " + t.TempDir(), 1, "", "render.kubeVersion"},
	} {
		var out, errs bytes.Buffer
		code := app.Main(strings.Fields(tt.args), app.IO{In: strings.NewReader(""), Out: &out, Err: &errs})
		if code != tt.code || !strings.Contains(out.String(), tt.out) || !strings.Contains(errs.String(), tt.err) {
			t.Errorf("emco %s: code %d, want %d\nstdout %s\nwant %s\nstderr %s\nwant %s", tt.args, code, tt.code, out.String(), tt.out, errs.String(), tt.err)
		}
		if strings.Contains(out.String()+errs.String(), "planted") {
			t.Errorf("emco %s shows the key", tt.args)
		}
	}
}

// `config print` shows the values in force where a setting is empty, and what it prints is a configuration that says the same.
func TestTheConfigurationInForceIsPrinted(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	printed := func(args string) string {
		var out, errs bytes.Buffer
		if code := app.Main(strings.Fields("config print -data "+data+" "+args), app.IO{Out: &out, Err: &errs}); code != 0 {
			t.Fatalf("emco config print %s: code %d, %s", args, code, errs.String())
		}
		return out.String()
	}
	file := filepath.Join(data, "emco.yaml")
	for args, want := range map[string][]string{
		"": {"mode: \"off\"\n", "mode: relaxed\n", "driver: sqlite\n", "linger: 0s\n"},
		"-http.address 0.0.0.0:9015 -http.cert c -http.certKey k": {"mode: \"on\"\n", "mode: strict\n", "driver: sqlite\n", "linger: 5s\n"},
		"-etcd.endpoints http://127.0.0.1:2379":                   {"mode: \"off\"\n", "mode: strict\n", "driver: etcd\n"},
	} {
		text := printed(args)
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("emco config print %s lacks %q:\n%s", args, w, text)
			}
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if again := printed("-config " + file); again != text {
			t.Errorf("emco config print of what it printed:\n%s\nwant\n%s", again, text)
		}
	}
}

// `config check` refuses what a start refuses, with the name of the setting, and leaves the
// data folder alone.
func TestF56TheCheckRefusesWhatTheStartRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file := write("file", "planted")
	if err := os.Mkdir(filepath.Join(dir, "bad"), 0o700); err != nil {
		t.Fatal(err)
	}
	write("bad/sealing.key", "planted")
	for setting, args := range map[string]string{
		"http.address":       "-http.address nowhere",
		"store.key":          "-store.key planted",
		"sealing.key":        "-data " + filepath.Join(dir, "bad"),
		"render.kubeVersion": "-render.kubeVersion soon",
		"sync.plugins":       "-sync.plugins mine=" + file,
		"git.signingKey":     "-git.signingKey " + file,
		"etcd.ca":            "-etcd.endpoints https://127.0.0.1:1 -etcd.ca " + file,
		"controllers.ca":     "-controllers.ca " + file,
		"outbound.engines":   "-outbound.engines http://x",
		"azure":              "-azure.manager http://plain.example",
		"azure: ca":          "-azure.ca " + file + "x",
		"data":               "-data " + file,
		"etcd.quota":         "-etcd.quota 1",
		"git.window":         "-git.window -1s",

		"controllers.cert: set it":   "-controllers.cert " + file,
		"etcd.cert: set it":          "-etcd.endpoints https://127.0.0.1:1 -etcd.cert " + file,
		"trace.ca":                   "-trace.endpoint https://127.0.0.1:1/v1/traces -trace.ca " + file,
		"controllers.plainText":      "-controllers.plainText -controllers.ca " + file,
		"outbound.engineAccess":      "-config " + write("access.yaml", "outbound: {engineAccess: [{url: \"https://opa.example.org\"}]}"),
		"workflows.endpoints":        "-workflows.endpoints http://x",
		"workflows.programs":         "-workflows.programs mine=" + file,
		"workflows.temporal.address": "-workflows.temporal.address 127.0.0.1:7233",
	} {
		if !strings.Contains(args, "-data") {
			args += " -data " + filepath.Join(dir, "absent")
		}
		for _, command := range []string{"config check ", ""} {
			var out, errs bytes.Buffer
			code := app.Main(strings.Fields(command+args), app.IO{In: strings.NewReader(""), Out: &out, Err: &errs})
			if code == 0 || !strings.Contains(errs.String(), setting) || strings.Contains(errs.String(), "planted") {
				t.Errorf("emco %s%s: code %d, stderr %s; want an error about %s", command, args, code, errs.String(), setting)
			}
		}
	}
	var errs bytes.Buffer
	data := filepath.Join(dir, "absent")
	if code := app.Main(strings.Fields("config check -data "+data), app.IO{Out: &errs, Err: &errs}); code != 0 {
		t.Errorf("a right configuration: code %d, %s", code, errs.String())
	}
	if _, err := os.Stat(data); err == nil {
		t.Error("the check made the data folder")
	}
}

// A failed start leaves nothing open: the next start can use the same folder.
func TestAStartThatFailsLeavesNothingOpen(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	c := config.Default()
	c.Data, c.GRPC.Address = filepath.Join(t.TempDir(), "data"), "127.0.0.1:0"
	log := slog.New(slog.DiscardHandler)
	for name, tt := range map[string]struct {
		change func(*config.Config)
		want   string
	}{
		"the address is taken": {func(c *config.Config) { c.HTTP.Address = taken.Addr().String() }, "http.address"},
		"the other is":         {func(c *config.Config) { c.GRPC.Address = taken.Addr().String() }, "grpc.address"},
		"the key is no key":    {func(c *config.Config) { c.Store.Key = "planted" }, "key"},
		"a certificate is lost": {func(c *config.Config) {
			c.Etcd.Endpoints, c.Etcd.CA = []string{"https://127.0.0.1:1"}, c.Data+"/none.pem"
		}, "etcd.ca"},
		"the version is no such": {func(c *config.Config) { c.Render.KubeVersion = "soon" }, "render.kubeVersion"},
	} {
		broken := c
		tt.change(&broken)
		_, err := app.New(t.Context(), broken, log)
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "planted") {
			t.Errorf("%s: got %v, want an error about %s", name, err, tt.want)
		}
	}
	s := &testStage{T: t, dir: c.Data, token: "-", log: &logBuffer{}, config: c}
	s.config.HTTP.Address, s.config.GRPC.Address = "127.0.0.1:0", "127.0.0.1:0"
	s.start()
	t.Cleanup(s.stop)
	s.expect(200, "GET", "/healthz", "")
	if body := s.expect(200, "GET", "/version", ""); !strings.Contains(body, `"go":"go1.`) {
		t.Errorf("version %s", body)
	}
	if _, err := app.New(t.Context(), s.config, log); err == nil || !strings.Contains(err.Error(), "etcd") {
		t.Errorf("a second program on the same folder: got %v", err)
	}
	s.expect(200, "GET", "projects", "") // the first one is none the worse
}
