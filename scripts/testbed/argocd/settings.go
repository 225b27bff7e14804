package argocd

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
)

type jsonObject map[string]any

// registration is the Secret of a cluster that Argo CD writes to.
func registration(name, server, token string, ca []byte) (string, error) {
	access, err := json.Marshal(jsonObject{"bearerToken": token, "tlsClientConfig": jsonObject{"caData": ca}})
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(jsonObject{
		"apiVersion": "v1", "kind": "Secret",
		"metadata":   jsonObject{"name": "cluster-" + name, "namespace": Namespace, "labels": jsonObject{"argocd.argoproj.io/secret-type": "cluster"}},
		"stringData": jsonObject{"name": name, "server": server, "config": string(access)},
	})
	return string(text), err
}

// settings are the objects of Argo CD's installation that the controllers read. They define the health
// of Applications, as docs/backends/argocd.md recommends for waves of Applications.
func settings() string { return fmt.Sprintf(objects, rand.Text()) }

const objects = `apiVersion: v1
kind: Namespace
metadata: {name: argocd}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: argocd-cm, namespace: argocd, labels: {app.kubernetes.io/part-of: argocd}}
data:
  timeout.reconciliation: 2s
  resource.customizations.health.argoproj.io_Application: |
    hs = {status = "Progressing", message = ""}
    if obj.status ~= nil and obj.status.health ~= nil then
      hs.status = obj.status.health.status
      hs.message = obj.status.health.message or ""
    end
    return hs
---
apiVersion: v1
kind: ConfigMap
metadata: {name: argocd-cmd-params-cm, namespace: argocd, labels: {app.kubernetes.io/part-of: argocd}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: argocd-rbac-cm, namespace: argocd, labels: {app.kubernetes.io/part-of: argocd}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: argocd-ssh-known-hosts-cm, namespace: argocd, labels: {app.kubernetes.io/part-of: argocd}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: argocd-tls-certs-cm, namespace: argocd, labels: {app.kubernetes.io/part-of: argocd}}
---
apiVersion: v1
kind: Secret
metadata: {name: argocd-secret, namespace: argocd, labels: {app.kubernetes.io/part-of: argocd}}
stringData: {server.secretkey: %s}
---
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: default, namespace: argocd}
spec:
  sourceRepos: ["*"]
  destinations: [{server: "*", namespace: "*"}]
  clusterResourceWhitelist: [{group: "*", kind: "*"}]
`
