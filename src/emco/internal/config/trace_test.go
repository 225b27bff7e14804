package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWhereTracesGo(t *testing.T) {
	t.Parallel()
	for endpoint, want := range map[string]string{
		"":                                "",
		"http://127.0.0.1:4318/v1/traces": "",
		"https://collector.example.org/v1/traces": "",
		"http://127.0.0.1:4318":                   "needs a path",
		"127.0.0.1:4318":                          "trace.endpoint: it",
		"https://u:planted@collector/v1/traces":   "must not have credentials",
		"http://collector/v1/traces?key=planted":  "must not have a query",
	} {
		_, err := load(t, nil, "-trace.endpoint", endpoint)
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "planted")) {
			t.Errorf("%q: %v, want %q", endpoint, err, want)
		}
	}
	for endpoint, want := range map[string]string{"https://collector/v1/traces": "", "http://127.0.0.1:4318/v1/traces": "trace.ca: needs", "": "trace.ca: needs"} {
		if _, err := load(t, nil, "-trace.endpoint", endpoint, "-trace.ca", "ca.pem"); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q with an authority: %v, want %q", endpoint, err, want)
		}
	}
	for ratio, want := range map[string]string{"0": "", "1": "", "0.25": "", "1.1": "from 0 to 1", "-1": "from 0 to 1", "NaN": "from 0 to 1", "all": "from 0 to 1"} {
		_, err := load(t, map[string]string{"EMCO_TRACE_RATIO": ratio})
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "RATIO") && !strings.Contains(err.Error(), "ratio")) {
			t.Errorf("%q: %v, want %q", ratio, err, want)
		}
	}
	file := filepath.Join(t.TempDir(), "emco.yaml")
	if err := os.WriteFile(file, []byte("trace: {ratio: 0.25}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err := load(t, nil, "-config", file); err != nil || c.Trace.Ratio != 0.25 {
		t.Errorf("a number in a file is %v, %v", c.Trace.Ratio, err)
	}
}
