package kube_test

import (
	"strings"
	"testing"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/sink/kube"
)

// config returns a kubeconfig with the given cluster and user.
func config(cluster, user string) []byte {
	return []byte(`apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}, {name: other, context: {cluster: other, user: other}}]
clusters: [{name: c, cluster: {` + cluster + `}}, {name: other, cluster: {server: "http://other"}}]
users: [{name: u, user: {` + user + `}}, {name: other, user: {exec: {command: sh, apiVersion: client.authentication.k8s.io/v1}}}]
`)
}

const okCluster = `server: "https://192.0.2.1:6443"`

func TestKubeconfigsThatAreUsable(t *testing.T) {
	t.Parallel()
	s := kube.New(kube.Options{})
	for name, text := range map[string][]byte{
		"a token":                         config(okCluster, `token: hunter2`),
		"a user in place of another":      config(okCluster, `token: hunter2, as: edge`),
		"a password":                      config(okCluster, `username: u, password: hunter2`),
		"a server that is asked for else": config(okCluster+`, tls-server-name: api`, `token: hunter2`),
	} {
		if err := s.Check(text); err != nil {
			t.Errorf("Check of one with %s: %v, want none", name, err)
		}
		c, err := s.Connect(text)
		if err != nil {
			t.Errorf("Connect by one with %s: %v, want none", name, err)
			continue
		}
		c.Close()
	}
	if err := kube.New(kube.Options{AllowInsecure: true}).Check(config(okCluster+`, insecure-skip-tls-verify: true`, `token: t`)); err != nil {
		t.Errorf("Check where insecure clusters are allowed: %v, want none", err)
	}
}

func TestKubeconfigsThatAreRefused(t *testing.T) {
	t.Parallel()
	s := kube.New(kube.Options{})
	for name, text := range map[string][]byte{
		"runs a program":              config(okCluster, `exec: {command: "sh", apiVersion: client.authentication.k8s.io/v1}`),
		"auth-provider":               config(okCluster, `auth-provider: {name: gcp}`),
		"refers to files":             config(okCluster, `tokenFile: /etc/hunter2`),
		"refers to files (client)":    config(okCluster, `client-certificate: /hunter2, client-key: /hunter2`),
		"refers to files (authority)": config(okCluster+`, certificate-authority: /hunter2`, `token: t`),
		"unchecked":                   config(okCluster+`, insecure-skip-tls-verify: true`, `token: t`),
		"proxy":                       config(okCluster+`, proxy-url: "http://hunter2"`, `token: t`),
		"https":                       config(`server: "http://192.0.2.1"`, `token: t`),
		"server address":              config(`server: "https://u:hunter2@192.0.2.1"`, `token: t`),
		"current context":             []byte(`{apiVersion: v1, kind: Config, users: [{name: hunter2, user: {token: hunter2}}]}`),
		"is not a kubeconfig":         []byte("hunter2: ["),
		"usable":                      config(okCluster+`, certificate-authority-data: aHVudGVyMg==`, `token: t`),
	} {
		err := s.Check(text)
		if err == nil {
			var c *kube.Cluster
			if c, err = s.Connect(text); err == nil {
				c.Close()
			}
		}
		want, _, _ := strings.Cut(name, " (")
		if !errs.Is(err, errs.Invalid) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want Invalid that shows no value", name, err)
		} else if name != "usable" && !strings.Contains(err.Error(), want) {
			t.Errorf("error is %q, want %q in it", err, want)
		}
	}
	if err := s.Check(make([]byte, 2<<20)); !errs.Is(err, errs.TooLarge) {
		t.Errorf("Check of two MiB: %v, want TooLarge", err)
	}
}
