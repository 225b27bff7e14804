package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// Each fault of a file is reported at once, with its line, its setting and what to write.
func TestAllFaultsOfAFileAreNamed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"git: {window: fast}\nlog:\n  level: loud\nlease: 1s\n": {
			`:1: git.window: "fast" does not fit; write a duration, such as 30s, 5m or 1h30m`,
			":4: lease: must not be below 2s",
			`:3: log.level: "loud" is not one of debug, info, warn, error`,
		},
		"diskReserve: 1GB\nhttp: {insecure: maybe, drain: 15}\nhtp: 1\n": {
			`:1: diskReserve: "1GB" does not fit; write a whole number without a unit`,
			`:2: http.insecure: "maybe" does not fit; write true or false`,
			`:2: http.drain: "15" does not fit; write a duration, such as 30s, 5m or 1h30m`,
			":3: there is no setting htp; did you mean http?",
		},
		"target: clm, rsync\nkube:\n  qps: [5]\nlog: debug\n": {
			`:1: target: "clm, rsync" is no list; write [clm, rsync]`,
			":3: kube.qps: write a whole number without a unit, no list and no section",
			":4: log has settings of its own; write them as {name: value}",
		},
		"target: {clm: true}\nhttp: {hosts: [a, [b], ~]}\ntrace: {ratio: all}\n": {
			":1: target: write a list",
			":2: http.hosts[1]: write a text, no list and no section",
			":2: http.hosts[2]: write a text",
			`:3: trace.ratio: "all" does not fit; write a number from 0 to 1, such as 0.01`,
		},
		"auth:\n  issuers:\n  - name: a\n    urll: x\n  - b\n": {
			":4: there is no setting auth.issuers[0].urll; did you mean auth.issuers[0].url?",
			":5: auth.issuers[1] has settings of its own; write them as {name: value}",
			":2: auth.issuers: each issuer needs name, url and audience",
			":2: auth.issuers: each issuer needs name, url and audience",
		},
		"lease: 5s\nLease: 6s\nlog: {level: warn}\nlog: {format: text}\n": {
			":2: lease is set twice, first in line 1",
			":4: log is set twice, first in line 3",
		},
		"auth: {mode: yes}\n": {`:1: auth.mode: "yes" is neither on nor off`},
		"- a\n":               {":1: write settings as name: value"},
	} {
		file := filepath.Join(t.TempDir(), "emco.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := load(t, nil, "-config", file)
		if all := file + strings.Join(want, "\n"+file); err == nil || err.Error() != all {
			t.Errorf("%q:\ngot  %v\nwant %s", text, err, all)
		}
	}
}

// A setting that a variable or a flag overrides is not looked for in the file.
func TestWhatIsOverriddenIsNoFaultOfTheFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "emco.yaml")
	if err := os.WriteFile(file, []byte("lease: 1m\nlog: {level: loud}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := load(t, map[string]string{"EMCO_LOG_LEVEL": "warn"}, "-config", file); err != nil {
		t.Error(err)
	}
	if _, err := load(t, nil, "-config", file, "-log.level", "quiet"); err == nil || !strings.HasPrefix(err.Error(), `log.level: "quiet"`) {
		t.Errorf("a flag: %v", err)
	}
}

// Values mean in the file what they mean in YAML: also on and off without quotes, numbers as Helm writes them, aliases and merges.
func TestHowValuesAreWrittenInAFile(t *testing.T) {
	t.Parallel()
	changed := func(change func(*Config)) Config {
		c := Default()
		change(&c)
		return c
	}
	for text, want := range map[string]Config{
		"":                         Default(),
		"~\n":                      Default(),
		"http:\nlog: {level: ~}\n": Default(),
		"auth: {mode: on}\n":       changed(func(c *Config) { c.Auth.Mode = "on" }),
		"auth: {mode: off}\naudit: {mode: off}\n":         changed(func(c *Config) { c.Auth.Mode, c.Audit.Mode = "off", "off" }),
		"git: {allowFile: yes, plainHTTP: 'true'}\n":      changed(func(c *Config) { c.Git.AllowFile, c.Git.PlainHTTP = true, true }),
		"diskReserve: 2.147483648e+10\n":                  changed(func(c *Config) { c.Disk = 20 << 30 }),
		"diskReserve: 0x10000000\nkube: {qps: 1_000}\n":   changed(func(c *Config) { c.Disk, c.Kube.QPS = 256<<20, 1000 }),
		"git: {author: 'A <a@b>'}\nstore: {key: 123}\n":   changed(func(c *Config) { c.Git.Author, c.Store.Key = "A <a@b>", "123" }),
		"render: {kubeVersion: 1.30}\nHTTP: {HOSTS: [a]}": changed(func(c *Config) { c.Render.KubeVersion, c.HTTP.Hosts = "1.30", []string{"a"} }),
		"git: {github: &rates {callsHour: 1, readsSecond: 2}, gitlab: {readsSecond: 3, <<: *rates}}\n": changed(func(c *Config) {
			c.Git.GitHub.CallsHour, c.Git.GitHub.ReadsSecond = 1, 2
			c.Git.GitLab.CallsHour, c.Git.GitLab.ReadsSecond = 1, 3
		}),
		"git: {github: &r {<<: *r, callsHour: 1}}\n": changed(func(c *Config) { c.Git.GitHub.CallsHour = 1 }),
	} {
		file := filepath.Join(t.TempDir(), "emco.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := load(t, nil, "-config", file); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %v\ngot  %+v\nwant %+v", text, err, got, want)
		}
	}
}

// What is printed is a file that says the same.
func TestThePrintedConfigurationIsRead(t *testing.T) {
	t.Parallel()
	want := Default()
	want.Auth.Issuers = []Issuer{{Name: "a", URL: "https://a", Audience: "x"}}
	want.Auth.Mode, want.HTTP.Hosts, want.Trace.Ratio = "on", []string{"a", "1"}, 0.5
	text, err := Print(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := loadWith(t, string(text), nil)
	text2, _ := Print(got)
	if err != nil || string(text) != string(text2) {
		t.Errorf("%v: got %s\nwant %s", err, text2, text)
	}
}

// A variable that is empty or has a wrong value is named, with what to write.
func TestWrongVariablesAreNamed(t *testing.T) {
	t.Parallel()
	_, err := load(t, map[string]string{"EMCO_HTTP_INSECURE": "", "EMCO_KUBE_QPS": "many", "EMCO_LEASE": "", "EMCO_HTTP_DRAIN": "-1s"})
	want := "EMCO_LEASE: it is empty; write a duration, such as 30s, 5m or 1h30m\n" +
		"EMCO_HTTP_INSECURE: it is empty; write true or false\n" +
		`EMCO_KUBE_QPS: "many" does not fit; write a whole number without a unit` + "\n" +
		"http.drain: must not be below zero"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if _, err := load(t, nil, "-git.window", "fast"); err == nil || err.Error() != `invalid value "fast" for flag -git.window: write a duration, such as 30s, 5m or 1h30m` {
		t.Errorf("a flag: %v", err)
	}
}
