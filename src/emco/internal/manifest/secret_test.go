package manifest

import (
	"strings"
	"testing"
)

const secret = `apiVersion: v1
kind: Secret
metadata: {name: s}
data: {user: DATA}
stringData: {token: s3cr3t}
`

func TestSecretsHoldBase64(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, value, want string }{
		{"base64", "YWRtaW4=", ""},
		{"nothing", "null", ""},
		{"plain text", "admin!", "Secret s: data.user is not base64; encode it, or use stringData"},
		{"a number", "5", "data.user is not base64"},
	}
	for _, tt := range tests {
		_, err := Parse("f.yaml", []byte(strings.Replace(secret, "DATA", tt.value, 1)))
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
		if err != nil && strings.Contains(err.Error(), "admin!") {
			t.Errorf("%s: the value is shown: %v", tt.name, err)
		}
	}
}

func TestMaskedHidesTheValuesOfSecretsOnly(t *testing.T) {
	t.Parallel()
	objects, err := Parse("f.yaml", []byte(strings.Replace(secret, "DATA", "YWRtaW4=", 1)+"---\n"+strings.Replace(secret, "Secret", "ConfigMap", 1)))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{`"data":{"user":"***"}`, `"data":{"user":"DATA"}`} {
		got, err := Masked(objects[i])
		if err != nil || !strings.Contains(string(got), want) || strings.Contains(string(got), "s3cr3t") == (i == 0) {
			t.Errorf("got %s, %v; want %s", got, err, want)
		}
	}
}
