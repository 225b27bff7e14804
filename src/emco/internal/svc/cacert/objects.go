package cacert

import (
	"bytes"
	"context"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/emco-orchestrator/emco/src/api/errs"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/store"
	"github.com/emco-orchestrator/emco/src/emco/internal/store/seal"
)

const (
	certManager    = v2.CertManagerGroup + "/v1"
	issuerSecrets  = "cert-manager" // the namespace where cert-manager looks for the Secrets of ClusterIssuers
	maxSlug        = 30             // characters of a document's name in the names of objects
	placeNote      = "emco/ca-cert-for"
	signerVariable = "ISTIO_META_CERT_SIGNER" // the proxies of a namespace have the issuer of this name sign
)

// certificateRequest is cert-manager's object of this name.
type certificateRequest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              certificateRequestSpec `json:"spec"`
}

type certificateRequestSpec struct {
	Duration  string       `json:"duration"`
	IssuerRef v2.IssuerRef `json:"issuerRef"`
	IsCA      bool         `json:"isCA"`
	Request   []byte       `json:"request"`
	Usages    []string     `json:"usages"`
}

// clusterIssuer is cert-manager's object of this name that signs with a Secret.
type clusterIssuer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              clusterIssuerSpec `json:"spec"`
}

type clusterIssuerSpec struct {
	CA clusterIssuerCA `json:"ca"`
}

type clusterIssuerCA struct {
	SecretName string `json:"secretName"`
}

// proxyConfig is Istio's object of this name.
type proxyConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              proxyConfigSpec `json:"spec"`
}

type proxyConfigSpec struct {
	Variables map[string]string `json:"environmentVariables"`
}

// request returns the object that asks the issuer for a place's certificate. Its name follows from its content: cert-manager
// refuses changes of requests.
func request(ca authority, p certificatePlace, e keyDocument) certificateRequest {
	return certificateRequest{
		TypeMeta: metav1.TypeMeta{APIVersion: certManager, Kind: "CertificateRequest"},
		ObjectMeta: metav1.ObjectMeta{
			Name: requestName(ca, p, e), Namespace: ca.Spec.IssuingCluster.Namespace, Annotations: map[string]string{placeNote: p.name()},
		},
		Spec: certificateRequestSpec{
			Duration: ca.Spec.Valid().String(), IssuerRef: ca.Spec.IssuerRef, IsCA: true, Request: []byte(e.Request), Usages: ca.Spec.CSR.KeyUsages,
		},
	}
}

func requestName(ca authority, p certificatePlace, e keyDocument) string {
	return slug(ca.Metadata.Name) + "-" + shortDigest(string(ca.key)+"\x00"+p.name()+"\x00"+e.For+e.Request)
}

// issuerName returns the name of a place's ClusterIssuer, and of its Secret. The objects of all tenants share a namespace, so
// the digest is long enough that a user who chooses names cannot find those of others.
func issuerName(ca store.Key, name, cloud string) string {
	sum := sha256.Sum256([]byte(string(ca) + "\x00" + cloud))
	return slug(name) + "-" + hex.EncodeToString(sum[:16])
}

// notInSlug matches what the name of an object must not contain.
var notInSlug = regexp.MustCompile(`[^a-z0-9]+`)

// slug returns a document's name as the beginning of an object's name.
func slug(name string) string {
	s := notInSlug.ReplaceAllString(strings.ToLower(name), "-")
	return strings.Trim(s[:min(len(s), maxSlug)], "-")
}

// objects returns what a place gets: the Secret with its certificate and key, the issuer that signs with it and, in a
// logical cloud, the setting that has Istio's proxies use the issuer.
func objects(ca authority, p certificatePlace, signed Signed, key seal.Secret) []any {
	name := issuerName(ca.key, ca.Metadata.Name, p.cloud)
	data := map[string][]byte{corev1.TLSCertKey: signed.Certificate, corev1.TLSPrivateKeyKey: key}
	if len(signed.CA) > 0 {
		data["ca.crt"] = signed.CA
	}
	out := []any{
		corev1.Secret{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: issuerSecrets}, Type: corev1.SecretTypeTLS, Data: data,
		},
		clusterIssuer{
			TypeMeta:   metav1.TypeMeta{APIVersion: certManager, Kind: "ClusterIssuer"},
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: clusterIssuerSpec{clusterIssuerCA{name}},
		},
	}
	if p.cloud != "" {
		out = append(out, proxyConfig{
			TypeMeta:   metav1.TypeMeta{APIVersion: "networking.istio.io/v1beta1", Kind: "ProxyConfig"},
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: p.namespace}, Spec: proxyConfigSpec{map[string]string{signerVariable: name}},
		})
	}
	return out
}

// Signed is what an issuer made of a request.
type Signed struct {
	Certificate []byte // with the intermediate ones, in PEM; empty: none yet
	CA          []byte // that signed it, in PEM; may be empty
	Problem     string // why there is no certificate
}

// Issuers reads what issuers have signed.
type Issuers interface {
	// Signed returns what the issuer made of the requests of a deployment's app in a namespace of a cluster, by
	// name of the request.
	Signed(ctx context.Context, cluster store.Doc, namespace string, deployment v2.DeploymentID, app string) (map[string]Signed, error)
}

// check returns when a certificate ends. It refuses what is no certificate for a key that can sign others now: an
// issuer may deviate from the request.
func (s Signed) check(key seal.Secret, now time.Time) (ends time.Time, err error) {
	block, _ := pem.Decode(s.Certificate)
	if block == nil {
		return ends, fmt.Errorf("the issuer's answer holds no certificate in PEM")
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return ends, fmt.Errorf("the issuer's certificate cannot be read: %w", err)
	}
	own, err := publicKey(key)
	if err != nil {
		return ends, err
	}
	signedFor, err := x509.MarshalPKIXPublicKey(leaf.PublicKey)
	switch {
	case err != nil:
		return ends, fmt.Errorf("the issuer's certificate cannot be read: %w", err)
	case !bytes.Equal(own, signedFor):
		return ends, fmt.Errorf("the issuer's certificate is for another key")
	case !leaf.IsCA:
		return ends, fmt.Errorf("the issuer's certificate cannot sign others; the issuer must sign certificates of certificate authorities")
	case now.After(leaf.NotAfter):
		return ends, fmt.Errorf("the certificate has ended at %s; update the enrollment", leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return leaf.NotAfter.UTC(), nil
}

// publicKey returns the public half of a private key, in DER.
func publicKey(key seal.Secret) ([]byte, error) {
	block, _ := pem.Decode(key)
	if block == nil {
		return nil, errs.New(errs.Internal, "the stored key is not PEM")
	}
	private, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errs.New(errs.Internal, "the stored key cannot be read")
	}
	signer, ok := private.(crypto.Signer)
	if !ok {
		return nil, errs.New(errs.Internal, "the stored key cannot sign")
	}
	return x509.MarshalPKIXPublicKey(signer.Public())
}
