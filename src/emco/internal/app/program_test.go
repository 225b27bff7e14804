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
		{"version now", 2, "", "unexpected argument"},
		{"config print", 0, "127.0.0.1:9015", ""},
		{"config print -config " + file, 0, "***", ""},
		{"config check", 0, "", ""},
		{"config check -kube.qps 0", 2, "", "kube.qps: must be above zero"},
		{"config check -retry.first 1h", 2, "", "retry.longest: must not be below retry.first"},
		{"config", 2, "", "use check or print"},
		{"config explode", 2, "", "use check or print"},
		{"run", 2, "", "unexpected argument"},
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
