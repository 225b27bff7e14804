package argocd

import (
	"encoding/base64"
	"encoding/json"
	"testing"
)

// A cluster is registered with its own credential and authority.
func TestAClusterHasItsOwnCredential(t *testing.T) {
	text, err := registration("m1", "https://127.0.0.1:20003", "token of m1", []byte("authority"))
	if err != nil {
		t.Fatal(err)
	}
	var secret struct {
		Metadata   struct{ Labels map[string]string }
		StringData map[string]string
	}
	if err := json.Unmarshal([]byte(text), &secret); err != nil {
		t.Fatal(err)
	}
	var access struct {
		BearerToken     string
		TLSClientConfig struct {
			CAData   string
			Insecure bool
		}
	}
	if err := json.Unmarshal([]byte(secret.StringData["config"]), &access); err != nil {
		t.Fatal(err)
	}
	if access.BearerToken != "token of m1" || access.TLSClientConfig.CAData != base64.StdEncoding.EncodeToString([]byte("authority")) || access.TLSClientConfig.Insecure {
		t.Errorf("the access is %+v", access)
	}
	if secret.StringData["server"] != "https://127.0.0.1:20003" || secret.Metadata.Labels["argocd.argoproj.io/secret-type"] != "cluster" {
		t.Errorf("the Secret is %s", text)
	}
}
