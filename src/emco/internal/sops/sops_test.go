package sops_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/emco-orchestrator/emco/src/emco/internal/sops"
)

const document = `{"apiVersion":"v1","data":{"a10":"MTA=","a2":"Mg==","empty":""},"kind":"Secret","metadata":{"labels":{"app":"web"},"name":"s"},"stringData":{"password":"canary"},"type":"Opaque"}`

func newKey(t *testing.T) string {
	t.Helper()
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return key.Recipient().String()
}

// Only the values below data and stringData change, and none of them can be read. scripts/e2e decrypts the
// same documents with the program sops.
func TestValuesAreEncrypted(t *testing.T) {
	t.Parallel()
	first, second := newKey(t), newKey(t)
	out, err := sops.Encrypt([]byte(document), []string{first, second}, time.Unix(1_800_000_000, 0))
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		APIVersion string `json:"apiVersion"`
		Kind, Type string
		Metadata   struct {
			Name   string
			Labels map[string]string
		}
		Data, StringData map[string]string
		SOPS             struct {
			Age          []struct{ Recipient, Enc string }
			LastModified string
		}
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	if got.APIVersion != "v1" || got.Kind != "Secret" || got.Type != "Opaque" || got.Metadata.Name != "s" || got.Metadata.Labels["app"] != "web" {
		t.Errorf("what is no value has changed: %s", out)
	}
	for _, v := range []string{got.Data["a10"], got.Data["a2"], got.StringData["password"]} {
		if !strings.HasPrefix(v, "ENC[AES256_GCM,data:") || !strings.HasSuffix(v, ",type:str]") {
			t.Errorf("a value is %s", v)
		}
	}
	if got.Data["empty"] != "" || strings.Contains(string(out), "canary") || strings.Contains(string(out), "MTA=") {
		t.Errorf("encrypted: %s", out)
	}
	if a := got.SOPS.Age; len(a) != 2 || a[0].Recipient != first || a[1].Recipient != second || !strings.HasPrefix(a[1].Enc, "-----BEGIN AGE ENCRYPTED FILE-----\n") || got.SOPS.LastModified != "2027-01-15T08:00:00Z" {
		t.Errorf("sops: %+v", got.SOPS)
	}
	again, err := sops.Encrypt([]byte(document), []string{first}, time.Unix(1_800_000_000, 0))
	if err != nil || string(again) == string(out) {
		t.Errorf("a second document has the same key: %v", err)
	}
}

func TestWhatCannotBeEncryptedIsRefused(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	for text, want := range map[string]string{
		`{"data":{"a":"canary"},"sops":{}}`: "has a member sops already",
		`["canary"]`:                        "is no JSON object",
		`{"data":{"a":1e999}}`:              "data:a: is a number out of range",
	} {
		if _, err := sops.Encrypt([]byte(text), []string{key}, time.Now()); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestRecipientsAreChecked(t *testing.T) {
	t.Parallel()
	a, b := newKey(t), newKey(t)
	got, err := sops.Recipients(" " + max(a, b) + ", " + min(a, b) + "," + max(a, b) + "\n")
	if err != nil || len(got) != 2 || got[0] != min(a, b) {
		t.Errorf("got %q, %v", got, err)
	}
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"":                                   "give 1 to 10",
		"age1nonsense":                       "no public key",
		identity.String():                    "private key; give the public key",
		strings.Repeat(a+",", 3) + "ssh-rsa": "no public key",
	} {
		if _, err := sops.Recipients(text); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "AGE-SECRET-KEY-") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
