package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/emco-orchestrator/emco/scripts/testbed/cluster"
)

// The release of cert-manager whose definitions the objects must pass, and the checksum of its sources.
const (
	certManager    = "github.com/cert-manager/cert-manager@v1.21.2"
	certManagerSum = "h1:UWgoYM+KLNtRlqmoWOKjKBOBUPVHeepQ6/ac3ERJW68="
)

// signer is the issuer company-root, whose controller the test plays.
type signer struct {
	testing.TB
	root *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newSigner(t testing.TB) signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "company root"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	root, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return signer{t, root, key}
}

// sign signs all requests on a cluster, as cert-manager does, and returns how many there were.
func (s signer) sign(c *cluster.Cluster) (n int) {
	s.Helper()
	var list struct {
		Items []struct {
			Metadata struct{ Name, Namespace string }
			Spec     struct {
				Request   []byte
				IsCA      bool
				IssuerRef struct{ Name, Kind, Group string }
			}
		}
	}
	if err := json.Unmarshal([]byte(kubectl(s, c, "get", "certificaterequests.cert-manager.io", "-A", "-o", "json")), &list); err != nil {
		s.Fatal(err)
	}
	for _, r := range list.Items {
		if r.Spec.IssuerRef.Name != "company-root" || r.Spec.IssuerRef.Kind != "ClusterIssuer" || !r.Spec.IsCA {
			s.Errorf("request %s is for %+v", r.Metadata.Name, r.Spec.IssuerRef)
		}
		block, _ := pem.Decode(r.Spec.Request)
		csr, err := x509.ParseCertificateRequest(block.Bytes)
		if err != nil || csr.CheckSignature() != nil {
			s.Fatalf("request %s: %v, %v", r.Metadata.Name, err, csr.CheckSignature())
		}
		template := &x509.Certificate{
			SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: csr.Subject, NotAfter: time.Now().Add(time.Hour),
			IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		}
		der, err := x509.CreateCertificate(rand.Reader, template, s.root, csr.PublicKey, s.key)
		if err != nil {
			s.Fatal(err)
		}
		s.report(c, "certificaterequest/"+r.Metadata.Name, r.Metadata.Namespace, map[string]any{
			"certificate": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
			"ca":          pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.root.Raw}),
		})
	}
	return len(list.Items)
}

// report sets the status of an object of cert-manager to Ready.
func (s signer) report(c *cluster.Cluster, object, namespace string, more map[string]any) {
	s.Helper()
	state := map[string]any{"conditions": []any{map[string]any{
		"type": "Ready", "status": "True", "reason": "Issued", "message": "by the test", "lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
	}}}
	for k, v := range more {
		state[k] = v
	}
	text, err := json.Marshal(map[string]any{"status": state})
	if err != nil {
		s.Fatal(err)
	}
	args := []string{"patch", object, "--subresource=status", "--type=merge", "-p", string(text)}
	if namespace != "" {
		args = append(args, "-n", namespace)
	}
	kubectl(s, c, args...)
}

// accept reports on the ClusterIssuers of a cluster, as cert-manager does, and returns their names.
func (s signer) accept(c *cluster.Cluster, n int) (names []string) {
	s.Helper()
	eventually(s, "the issuers are on "+c.Name(), func() error {
		names = strings.Fields(kubectl(s, c, "get", "clusterissuers.cert-manager.io", "-o", "jsonpath={.items[*].metadata.name}"))
		if len(names) != n {
			return fmt.Errorf("there are %v, want %d", names, n)
		}
		return nil
	})
	for _, name := range names {
		s.report(c, "clusterissuer/"+name, "", nil)
	}
	return names
}

// holds checks the certificate and the key of a cluster's Secret.
func (s signer) holds(c *cluster.Cluster, name, commonName string) {
	s.Helper()
	var secret struct {
		Type string
		Data map[string]string
	}
	if err := json.Unmarshal([]byte(kubectl(s, c, "get", "secret", name, "-n", "cert-manager", "-o", "json")), &secret); err != nil {
		s.Fatal(err)
	}
	certificate, err := base64.StdEncoding.DecodeString(secret.Data["tls.crt"])
	if err != nil {
		s.Fatal(err)
	}
	key, err := base64.StdEncoding.DecodeString(secret.Data["tls.key"])
	if err != nil {
		s.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		s.Fatalf("Secret %s on %s: %v", name, c.Name(), err)
	}
	if err := pair.Leaf.CheckSignatureFrom(s.root); err != nil || pair.Leaf.Subject.CommonName != commonName || secret.Type != "kubernetes.io/tls" {
		s.Errorf("Secret %s on %s is for %s, want %s (%v)", name, c.Name(), pair.Leaf.Subject, commonName, err)
	}
}

// TestCertificateAuthorities runs the suite examples/emco/ca-certs on two direct clusters with the definitions of
// cert-manager and Istio, so that API servers check every object. The test signs the requests.
func TestCertificateAuthorities(t *testing.T) {
	do := steps{TB: t}
	do.next("two clusters with the definitions of cert-manager and Istio")
	l, s, issuer := clustersOf(t), newStage(t), newSigner(t)
	crds := filepath.Join(moduleDir(t, certManager, certManagerSum), "deploy", "crds")
	for _, file := range []string{
		filepath.Join(crds, "cert-manager.io_certificaterequests.yaml"), filepath.Join(crds, "cert-manager.io_clusterissuers.yaml"), istioDefinitions(t),
	} {
		define(t, file, l.c1, l.c2)
	}
	for _, c := range []*cluster.Cluster{l.c1, l.c2} {
		kubectl(t, c, "create", "namespace", "cert-manager")
		t.Cleanup(func() {
			if _, err := c.Kubectl(context.WithoutCancel(t.Context()), "delete", "namespace", "cert-manager", "--wait=false"); err != nil {
				t.Error(err)
			}
		})
	}
	file := func(name string) string { return example("emco", "ca-certs", name) }
	values := s.values(map[string]any{"Kubeconfig1": l.c1.Kubeconfig(), "Kubeconfig2": l.c2.Kubeconfig()})
	const provider, project = "cluster-providers/edge/ca-certs/edge", "projects/shop/ca-certs/shop"

	do.next("enrollment in the provider: c1 signs for both clusters")
	s.apply(values, file("00-clusters.yaml"), file("01-provider.yaml"), file("02-provider-enroll.yaml"))
	s.wait(provider+"/enrollment", "deployed")
	if r := s.emco.Emcoctl(t.Context(), "apply", provider+"/distribution/instantiate"); r.Code == 0 || !strings.Contains(r.Out+r.Err, "has not signed all certificates") {
		t.Errorf("distribution before c1 has signed: exit code %d, %s%s", r.Code, r.Out, r.Err)
	}
	if n := issuer.sign(l.c1); n != 2 {
		t.Errorf("%d requests, want one for each cluster", n)
	}
	s.wait(provider+"/enrollment", "ready")

	do.next("distribution in the provider: each cluster has a certificate of its own")
	s.apply(values, file("03-provider-distribute.yaml"))
	name := issuer.accept(l.c1, 1)[0]
	issuer.accept(l.c2, 1)
	s.wait(provider+"/distribution", "ready")
	issuer.holds(l.c1, name, "edge-edge+c1")
	issuer.holds(l.c2, name, "edge-edge+c2")
	if left := kubectl(t, l.c1, "get", "secrets", "-n", "default", "-o", "name"); strings.Contains(left, "edge") {
		t.Errorf("there are Secrets beside the requests: %s", left)
	}

	do.next("the same in a project, for the members of a logical cloud")
	s.apply(values, file("04-project.yaml"), file("05-project-enroll.yaml"))
	s.wait(project+"/enrollment", "deployed")
	if n := issuer.sign(l.c1); n != 3 {
		t.Errorf("%d requests, want those of the provider and one of the project", n)
	}
	s.wait(project+"/enrollment", "ready")
	s.apply(values, file("06-project-distribute.yaml"))
	names := issuer.accept(l.c2, 2)
	s.wait(project+"/distribution", "ready")
	issuer.holds(l.c2, names[1], "shop-stores+edge+c2")
	if got := kubectl(t, l.c2, "get", "proxyconfigs.networking.istio.io", names[1], "-n", "default", "-o", "jsonpath={.spec.environmentVariables.ISTIO_META_CERT_SIGNER}"); got != names[1] {
		t.Errorf("Istio's proxies have %q sign, want %s", got, names[1])
	}

	do.next("termination leaves nothing")
	for _, f := range []string{"06-project-distribute.yaml", "03-provider-distribute.yaml"} {
		s.ctl("delete", "-f", file(f))
	}
	s.wait(project+"/distribution", "terminated")
	s.wait(provider+"/distribution", "terminated")
	for _, f := range []string{"05-project-enroll.yaml", "02-provider-enroll.yaml"} {
		s.ctl("delete", "-f", file(f))
	}
	s.wait(project+"/enrollment", "terminated")
	s.wait(provider+"/enrollment", "terminated")
	for _, c := range []*cluster.Cluster{l.c1, l.c2} {
		if left := kubectl(t, c, "get", "secrets,certificaterequests.cert-manager.io,clusterissuers.cert-manager.io,proxyconfigs.networking.istio.io", "-A", "-l", deploymentLabel, "-o", "name"); left != "" {
			t.Errorf("%s still has %s", c.Name(), left)
		}
	}
	s.clear(values, file("00-clusters.yaml"), file("01-provider.yaml"), file("04-project.yaml"))
	do.next("done")
}
