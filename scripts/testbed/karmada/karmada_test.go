package karmada

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
)

// The template of the webhooks has no host and no authority; both are those of this bed.
func TestWebhooksAreOfThisBed(t *testing.T) {
	text := webhooks("url: https://karmada-webhook.karmada-system.svc:443/mutate-work\ncaBundle: {{caBundle}}\n", "127.0.0.1:20001", []byte("authority"))
	if want := "url: https://127.0.0.1:20001/mutate-work\ncaBundle: " + base64.StdEncoding.EncodeToString([]byte("authority")) + "\n"; text != want {
		t.Errorf("got %q, want %q", text, want)
	}
}

func TestTheAPIOfClustersIsVerified(t *testing.T) {
	text := api(20002, []byte("authority"))
	for _, want := range []string{"port: 20002}", "caBundle: " + base64.StdEncoding.EncodeToString([]byte("authority")) + "\n", "externalName: localhost"} {
		if !strings.Contains(text, want) {
			t.Errorf("the API service lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "insecure") {
		t.Errorf("the API service trusts blindly:\n%s", text)
	}
}

func TestAMemberHasItsOwnCredential(t *testing.T) {
	text, err := json.Marshal(pushed("m1", "https://127.0.0.1:20003", "token of m1", []byte("authority")))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{base64.StdEncoding.EncodeToString([]byte("token of m1")), `"apiEndpoint":"https://127.0.0.1:20003"`, `"secretRef":{"name":"m1","namespace":"karmada-cluster"}`, `"syncMode":"Push"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the member lacks %q:\n%s", want, text)
		}
	}
}

// The Secret of an account is complete, so that nobody waits for a controller.
func TestTheSecretOfAnAccountHasItsToken(t *testing.T) {
	text, err := json.Marshal(tokenSecret("karmada-m1", "token of m1", []byte("authority")))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"token":"` + base64.StdEncoding.EncodeToString([]byte("token of m1")), `"kubernetes.io/service-account.name":"karmada-m1"`, `"namespace":"karmada-cluster"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the Secret lacks %q:\n%s", want, text)
		}
	}
}
