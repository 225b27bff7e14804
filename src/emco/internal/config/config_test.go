package config

import (
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func load(t *testing.T, env map[string]string, args ...string) (Config, error) {
	t.Helper()
	fs := flag.NewFlagSet("emco", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	return Load(fs, args, func(k string) (string, bool) { v, ok := env[k]; return v, ok })
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
	_, err := Load(fs, []string{"-help"}, func(string) (string, bool) { return "", false })
	if !errors.Is(err, flag.ErrHelp) {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"-http.packageLimit", "EMCO_HTTP_PACKAGE_LIMIT", "(default 127.0.0.1:9015)"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("help lacks %q", want)
		}
	}
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
