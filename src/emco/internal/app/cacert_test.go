package app_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/emco-orchestrator/emco/src/kubehealth/kubetest"
)

var (
	requestsOfCertManager = schema.GroupVersionResource{Group: "cert-manager.io", Version: "v1", Resource: "certificaterequests"}
	issuersOfCertManager  = schema.GroupVersionResource{Group: "cert-manager.io", Version: "v1", Resource: "clusterissuers"}
	proxyConfigs          = schema.GroupVersionResource{Group: "networking.istio.io", Version: "v1beta1", Resource: "proxyconfigs"}
	secretsOfCluster      = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	crdsOfCluster         = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	namespacesOfCluster   = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
)

// certCluster is a cluster with the kinds of cert-manager and Istio, and a part of cert-manager's controllers.
type certCluster struct {
	*kubetest.Server
	dynamic.Interface
	t      *testing.T
	root   *x509.Certificate
	key    *ecdsa.PrivateKey
	signs  atomic.Bool // else requests stay Pending
	leaves atomic.Bool // certificates cannot sign others
	brief  atomic.Bool // certificates last a minute, else an hour
}

func newCertCluster(t *testing.T) *certCluster {
	t.Helper()
	c := &certCluster{Server: kubetest.Start(t), t: t}
	config, err := clientcmd.RESTConfigFromKubeConfig(c.Kubeconfig())
	if err == nil {
		c.Interface, err = dynamic.NewForConfig(config)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"default", "cert-manager"} {
		c.create(namespacesOfCluster, "", map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}})
	}
	c.define(requestsOfCertManager, "CertificateRequest", "Namespaced")
	c.define(issuersOfCertManager, "ClusterIssuer", "Cluster")
	c.define(proxyConfigs, "ProxyConfig", "Namespaced")
	c.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "company root"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, c.key.Public(), c.key)
	if err == nil {
		c.root, err = x509.ParseCertificate(der)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			c.control(ctx)
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return c
}

func (c *certCluster) create(kind schema.GroupVersionResource, namespace string, object map[string]any) {
	c.t.Helper()
	if _, err := c.Resource(kind).Namespace(namespace).Create(c.t.Context(), &unstructured.Unstructured{Object: object}, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *certCluster) define(kind schema.GroupVersionResource, name, scope string) {
	c.t.Helper()
	c.create(crdsOfCluster, "", map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": kind.Resource + "." + kind.Group},
		"spec": map[string]any{
			"group": kind.Group, "scope": scope, "names": map[string]any{"kind": name, "plural": kind.Resource},
			"versions": []any{map[string]any{"name": kind.Version, "served": true, "storage": true, "subresources": map[string]any{"status": map[string]any{}}}},
		},
	})
}

// control does what cert-manager's controllers do: it signs requests, and reports on issuers.
func (c *certCluster) control(ctx context.Context) {
	ready := func(o *unstructured.Unstructured, kind schema.GroupVersionResource, status, reason string, more map[string]any) {
		state := map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": status, "reason": reason, "message": "by the test"}}}
		for k, v := range more {
			state[k] = v
		}
		o.Object["status"] = state
		_, err := c.Resource(kind).Namespace(o.GetNamespace()).UpdateStatus(ctx, o, metav1.UpdateOptions{})
		if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && ctx.Err() == nil {
			c.t.Errorf("report on %s: %v", o.GetName(), err)
		}
	}
	requests, err := c.Resource(requestsOfCertManager).List(ctx, metav1.ListOptions{})
	if err != nil {
		return // the test ends
	}
	for _, r := range requests.Items {
		if _, signed, _ := unstructured.NestedString(r.Object, "status", "certificate"); signed {
			continue
		}
		if !c.signs.Load() {
			if _, seen := r.Object["status"]; !seen {
				ready(&r, requestsOfCertManager, "False", "Pending", nil)
			}
			continue
		}
		text, _, _ := unstructured.NestedString(r.Object, "spec", "request")
		certificate, err := c.sign(text)
		if err != nil {
			c.t.Errorf("sign %s: %v", r.GetName(), err)
			continue
		}
		ready(&r, requestsOfCertManager, "True", "Issued", map[string]any{
			"certificate": base64.StdEncoding.EncodeToString(certificate),
			"ca":          base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.root.Raw})),
		})
	}
	all, err := c.Resource(issuersOfCertManager).List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	for _, i := range all.Items {
		if _, seen := i.Object["status"]; !seen {
			ready(&i, issuersOfCertManager, "True", "KeyPairVerified", nil)
		}
	}
}

// sign makes a certificate from a request in PEM in base64.
func (c *certCluster) sign(request string) ([]byte, error) {
	text, err := base64.StdEncoding.DecodeString(request)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err == nil {
		err = csr.CheckSignature()
	}
	if err != nil {
		return nil, err
	}
	life := time.Hour
	if c.brief.Load() {
		life = time.Minute
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: csr.Subject, NotAfter: time.Now().Add(life),
		IsCA: !c.leaves.Load(), BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, c.root, csr.PublicKey, c.key)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), err
}

// names returns the names of the objects of a kind.
func (c *certCluster) names(kind schema.GroupVersionResource, namespace string) (out []string) {
	c.t.Helper()
	list, err := c.Resource(kind).Namespace(namespace).List(c.t.Context(), metav1.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	for _, o := range list.Items {
		out = append(out, o.GetName())
	}
	return out
}

// secret returns a Secret's certificate, which the root of issuer must have signed for the Secret's key.
func (c *certCluster) secret(name string, issuer *certCluster) *x509.Certificate {
	c.t.Helper()
	o, err := c.Resource(secretsOfCluster).Namespace("cert-manager").Get(c.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	data := map[string][]byte{}
	for _, key := range []string{"tls.crt", "tls.key", "ca.crt"} {
		text, _, _ := unstructured.NestedString(o.Object, "data", key)
		if data[key], err = base64.StdEncoding.DecodeString(text); err != nil {
			c.t.Fatal(err)
		}
	}
	pair, err := tls.X509KeyPair(data["tls.crt"], data["tls.key"])
	if err != nil {
		c.t.Fatalf("certificate and key of %s: %v", name, err)
	}
	if err := pair.Leaf.CheckSignatureFrom(issuer.root); err != nil || !pair.Leaf.IsCA {
		c.t.Errorf("the certificate of %s: %v, CA %v", name, err, pair.Leaf.IsCA)
	}
	if root, _ := pem.Decode(data["ca.crt"]); root == nil || !bytes.Equal(root.Bytes, issuer.root.Raw) {
		c.t.Errorf("ca.crt of %s is not the issuer's", name)
	}
	return pair.Leaf
}

// newCertSuite returns the suite examples/emco/ca-certs on two clusters.
func newCertSuite(t *testing.T) (s *exampleSuite, c1, c2 *certCluster) {
	t.Helper()
	s, c1, c2 = newExampleSuite(t, "ca-certs", "web"), newCertCluster(t), newCertCluster(t)
	for name, c := range map[string]*certCluster{"1": c1, "2": c2} {
		s.must("write a kubeconfig", os.WriteFile(filepath.Join(s.work, "kubeconfig"+name), c.Kubeconfig(), 0o600))
	}
	values := `{"Kubeconfig1": "` + filepath.Join(s.work, "kubeconfig1") + `", "Kubeconfig2": "` + filepath.Join(s.work, "kubeconfig2") + `"}`
	s.must("write the values", os.WriteFile(filepath.Join(s.work, "values.yaml"), []byte(values), 0o600))
	s.apply("00-clusters.yaml")
	return s, c1, c2
}

// stage waits until a stage's status has all parts.
func (s *testStage) stage(path string, parts ...string) {
	s.Helper()
	s.eventually(path, func() string {
		text := s.expect(200, "GET", path+"/status", "")
		for _, p := range parts {
			if !strings.Contains(text, p) {
				return "lacks " + p + ": " + text
			}
		}
		return ""
	})
}

const (
	edgeAuthority = "cluster-providers/edge/ca-certs/edge"
	shopAuthority = "projects/shop/ca-certs/shop"
)

// The suite examples/emco/ca-certs with emcoctl. The test is the issuer, and cert-manager on both clusters.
func TestCertificateAuthoritiesOfClusters(t *testing.T) {
	t.Parallel()
	s, c1, c2 := newCertSuite(t)
	s.apply("01-provider.yaml")
	const enrollment, distribution = edgeAuthority + "/enrollment", edgeAuthority + "/distribution"
	s.expect(409, "POST", distribution+"/instantiate", "")
	s.apply("02-provider-enroll.yaml")
	s.stage(enrollment, `"deployedStatus":"Instantiated"`, `"readyStatus":"NotReady"`, `"name":"edge"`)
	if a := s.do("POST", distribution+"/instantiate", ""); a.Status != 409 || !strings.Contains(a.Body, "has not signed all certificates") {
		t.Errorf("distribution before the issuer has signed: %+v", a)
	}
	if got := c1.names(requestsOfCertManager, "default"); len(got) != 2 {
		t.Fatalf("the requests are %v, want one for each cluster", got)
	}
	c1.signs.Store(true)
	s.stage(enrollment, `"deployedStatus":"Instantiated","readyStatus":"Ready"`)
	s.apply("03-provider-distribute.yaml")
	s.stage(distribution, `"deployedStatus":"Instantiated","readyStatus":"Ready"`)
	names := c1.names(issuersOfCertManager, "")
	if len(names) != 1 || !strings.HasPrefix(names[0], "edge-") {
		t.Fatalf("the issuers of c1 are %v", names)
	}
	on1, on2 := c1.secret(names[0], c1), c2.secret(names[0], c1)
	if on1.Subject.CommonName != "edge-edge+c1" || on2.Subject.CommonName != "edge-edge+c2" || bytes.Equal(on1.RawSubjectPublicKeyInfo, on2.RawSubjectPublicKeyInfo) {
		t.Errorf("the certificates are for %s and %s", on1.Subject, on2.Subject)
	}
	if got := c1.names(secretsOfCluster, "default"); got != nil {
		t.Errorf("the issuing cluster has Secrets beside the requests: %v", got)
	}
	detail := s.expect(200, "GET", distribution+"/status?output=detail&status=deployed", "")
	if !strings.Contains(detail, "tls.key") || strings.Contains(detail, "LS0t") {
		t.Errorf("the status shows the values of Secrets, or none: %s", detail)
	}

	// An update without a change signs nothing again; another subject does, and the old requests go.
	old := c1.names(requestsOfCertManager, "default")
	s.expect(202, "POST", enrollment+"/update", "")
	s.stage(enrollment, `"deployedStatus":"Instantiated","readyStatus":"Ready"`, `"revision":2`)
	if now := c1.names(requestsOfCertManager, "default"); strings.Join(now, " ") != strings.Join(old, " ") {
		t.Errorf("the requests changed from %v to %v", old, now)
	}
	document := s.expect(200, "GET", edgeAuthority, "")
	s.expect(200, "PUT", edgeAuthority, strings.Replace(document, `"names":["Shop"]`, `"names":["Shop AB"]`, 1))
	s.expect(202, "POST", enrollment+"/update", "")
	s.eventually("the requests are others", func() string {
		now := strings.Join(c1.names(requestsOfCertManager, "default"), " ")
		if strings.Contains(now, old[0]) || strings.Contains(now, old[1]) || strings.Count(now, " ") != 1 {
			return now
		}
		return ""
	})
	s.stage(enrollment, `"deployedStatus":"Instantiated","readyStatus":"Ready"`, `"revision":3`)
	s.expect(202, "POST", distribution+"/update", "")
	s.eventually("the clusters have the new certificates", func() string {
		if got := c2.secret(names[0], c1).Subject.Organization; len(got) != 1 || got[0] != "Shop AB" {
			return strings.Join(got, " ")
		}
		return ""
	})

	// The enrollment stays while clusters need it, and the document while anything runs.
	if a := s.do("POST", enrollment+"/terminate", ""); a.Status != 409 || !strings.Contains(a.Body, "terminate it before the enrollment") {
		t.Errorf("termination of the enrollment: %+v", a)
	}
	s.expect(204, "DELETE", edgeAuthority+"/clusters/labelled", "")
	s.expect(409, "DELETE", edgeAuthority, "")
	s.ctl("delete", "-f", s.file("03-provider-distribute.yaml"))
	s.stage(distribution, `"deployedStatus":"Terminated"`)
	for _, c := range []*certCluster{c1, c2} {
		if left := append(c.names(secretsOfCluster, "cert-manager"), c.names(issuersOfCertManager, "")...); left != nil {
			t.Errorf("a cluster still has %v", left)
		}
	}
	s.expect(409, "DELETE", edgeAuthority, "")
	s.ctl("delete", "-f", s.file("02-provider-enroll.yaml"))
	s.stage(enrollment, `"deployedStatus":"Terminated"`)
	s.expect(204, "DELETE", edgeAuthority, "")
	s.apply("01-provider.yaml")
	s.stage(enrollment, `"state":"Created"`)
	if strings.Contains(s.expect(200, "GET", enrollment+"/status", ""), "Terminated") {
		t.Error("a new certificate authority has the history of the old one")
	}
	s.clear("00-clusters.yaml", "01-provider.yaml")
}

func TestCertificateAuthoritiesOfLogicalClouds(t *testing.T) {
	t.Parallel()
	s, c1, c2 := newCertSuite(t)
	c1.signs.Store(true)
	c1.leaves.Store(true)
	s.apply("04-project.yaml", "05-project-enroll.yaml")
	const enrollment, distribution = shopAuthority + "/enrollment", shopAuthority + "/distribution"
	s.stage(enrollment, `"deployedStatus":"Instantiated","readyStatus":"Ready"`, `"project":"shop"`)
	s.apply("06-project-distribute.yaml")
	s.stage(distribution, "the issuer's certificate cannot sign others")
	if got := c2.names(secretsOfCluster, "cert-manager"); got != nil {
		t.Errorf("c2 got %v with a certificate that cannot sign", got)
	}

	c1.leaves.Store(false)
	document := s.expect(200, "GET", shopAuthority, "")
	s.expect(200, "PUT", shopAuthority, strings.Replace(document, `"duration":"2160h"`, `"duration":"1440h"`, 1))
	s.expect(202, "POST", enrollment+"/update", "")
	s.stage(enrollment, `"deployedStatus":"Instantiated","readyStatus":"Ready"`, `"revision":2`)
	s.expect(202, "POST", distribution+"/update", "")
	s.stage(distribution, `"deployedStatus":"Instantiated","readyStatus":"Ready"`)
	names := c2.names(issuersOfCertManager, "")
	if len(names) != 1 || !strings.HasPrefix(names[0], "shop-") {
		t.Fatalf("the issuers of c2 are %v", names)
	}
	if on2 := c2.secret(names[0], c1); on2.Subject.CommonName != "shop-stores+edge+c2" {
		t.Errorf("the certificate is for %s", on2.Subject)
	}
	o, err := c2.Resource(proxyConfigs).Namespace("default").Get(t.Context(), names[0], metav1.GetOptions{})
	s.must("read the setting of proxies", err)
	if got, _, _ := unstructured.NestedString(o.Object, "spec", "environmentVariables", "ISTIO_META_CERT_SIGNER"); got != names[0] {
		t.Errorf("proxies have the issuer %q sign, want %s", got, names[0])
	}
	if got := c1.names(issuersOfCertManager, ""); got != nil {
		t.Errorf("c1 is no member of the cloud, and has %v", got)
	}
	s.ctl("delete", "-f", s.file("06-project-distribute.yaml"))
	s.stage(distribution, `"deployedStatus":"Terminated"`)
	s.ctl("delete", "-f", s.file("05-project-enroll.yaml"))
	s.stage(enrollment, `"deployedStatus":"Terminated"`)
	s.clear("00-clusters.yaml", "04-project.yaml")
}

// Git is read by others, so no private key goes there.
func TestNoKeyOfACertificateAuthorityGoesToGit(t *testing.T) {
	t.Parallel()
	s, c1, _ := newCertSuite(t)
	c1.signs.Store(true)
	s.expect(201, "POST", "cluster-providers/edge/cluster-sync-objects", s.syncObject("repo", s.git.URL("fleet"), s.token))
	s.expect(201, "POST", "cluster-providers/edge/clusters", `{"metadata":{"name":"pulls"},"spec":{"gitOps":{"gitOpsType":"git","gitOpsReferenceObject":"repo"}}}`)
	s.apply("01-provider.yaml")
	s.expect(201, "POST", "cluster-providers/edge/clusters/pulls/labels", `{"clusterLabel":"all"}`)
	if a := s.do("POST", edgeAuthority+"/enrollment/instantiate", ""); a.Status != 400 || !strings.Contains(a.Body, "edge+pulls pulls its state") {
		t.Errorf("enrollment of a cluster that pulls: %+v", a)
	}
	document := s.expect(200, "GET", edgeAuthority, "")
	s.expect(200, "PUT", edgeAuthority, strings.Replace(document, `"cluster":"c1"`, `"cluster":"pulls"`, 1))
	s.expect(204, "DELETE", "cluster-providers/edge/clusters/pulls/labels/all", "")
	if a := s.do("POST", edgeAuthority+"/enrollment/instantiate", ""); a.Status != 400 || !strings.Contains(a.Body, "edge+pulls pulls its state") {
		t.Errorf("an issuer that EMCO does not reach: %+v", a)
	}
}

// The issuer shortens certificates. EMCO renews them after two thirds of that time, without being asked.
func TestCertificatesOfClustersAreRenewed(t *testing.T) {
	t.Parallel()
	s, c1, c2 := newCertSuite(t)
	const enrollment, distribution = edgeAuthority + "/enrollment", edgeAuthority + "/distribution"
	c1.brief.Store(true)
	c1.signs.Store(true)
	s.apply("01-provider.yaml")
	s.apply("02-provider-enroll.yaml")
	s.stage(enrollment, `"deployedStatus":"Instantiated","readyStatus":"Ready"`)
	s.apply("03-provider-distribute.yaml")
	s.stage(distribution, `"deployedStatus":"Instantiated","readyStatus":"Ready"`)
	name := c1.names(issuersOfCertManager, "")[0]
	first := c2.secret(name, c1)
	ends := first.NotAfter.UTC()
	if other := c1.secret(name, c1).NotAfter.UTC(); other.Before(ends) { // the certificates are signed one after the other
		ends = other
	}
	c1.brief.Store(false)
	if text := s.ctl("status", distribution); !strings.Contains(text, "the first certificate ends at "+ends.Format(time.RFC3339)) {
		t.Errorf("the first certificate ends at %s; the status says %s", ends, text)
	}
	s.eventually("the clusters have certificates with new keys", func() string {
		if now := c2.secret(name, c1); bytes.Equal(now.RawSubjectPublicKeyInfo, first.RawSubjectPublicKeyInfo) {
			return "the certificate ends at " + now.NotAfter.String()
		}
		return ""
	})
	s.stage(distribution, `"deployedStatus":"Instantiated","readyStatus":"Ready"`)
	if text := s.expect(200, "GET", enrollment+"/status", ""); !strings.Contains(text, `"revision":2`) || strings.Contains(text, `"problem"`) {
		t.Errorf("the status of the enrollment is %s", text)
	}
}
