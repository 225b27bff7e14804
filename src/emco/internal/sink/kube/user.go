package kube

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

const (
	// shortestCertificate is the shortest validity that Kubernetes signs.
	shortestCertificate = 10 * time.Minute
	// signTimeout bounds the wait for a cluster's signer.
	signTimeout = 20 * time.Second
	// signPoll is the time between two looks at a request for a certificate.
	signPoll = 250 * time.Millisecond
)

// User is whom a cluster knows by a client certificate.
type User struct {
	Name  string        // as in role bindings
	Valid time.Duration // of the certificate, at least ten minutes; the cluster may choose less
}

// notInName matches what the name of an object must not contain.
var notInName = regexp.MustCompile(`[^A-Za-z0-9]+`)

// As returns a connection to the same cluster as a user, without any credential of c. The cluster
// signs a certificate for a new key, which only this process has; ends is when the certificate
// ends. Unavailable if the cluster does not sign it in time, Forbidden if the cluster refuses.
func (c *Cluster) As(ctx context.Context, u User) (as *Cluster, ends time.Time, err error) {
	identity, err := c.certificate(ctx, u)
	if err != nil {
		return nil, time.Time{}, err
	}
	config := rest.AnonymousClientConfig(c.config)
	config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(c.options.QPS, c.options.Burst)
	config.CertData, config.KeyData = identity.certificate, identity.key
	as, err = connect(config, c.options)
	return as, identity.ends, err
}

// Kubeconfig returns a kubeconfig for a user of the cluster, with a new certificate. context
// names its context. Errors are those of As.
func (c *Cluster) Kubeconfig(ctx context.Context, u User, contextName, namespace string) ([]byte, error) {
	identity, err := c.certificate(ctx, u)
	if err != nil {
		return nil, err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[contextName] = &clientcmdapi.Cluster{
		Server: c.config.Host + c.config.APIPath, TLSServerName: c.config.ServerName, CertificateAuthorityData: c.config.CAData,
	}
	config.AuthInfos[u.Name] = &clientcmdapi.AuthInfo{ClientCertificateData: identity.certificate, ClientKeyData: identity.key}
	config.Contexts[contextName] = &clientcmdapi.Context{Cluster: contextName, AuthInfo: u.Name, Namespace: namespace}
	config.CurrentContext = contextName
	text, err := clientcmd.Write(*config)
	if err != nil {
		return nil, errs.E(errs.Internal, "write", "kubeconfig", err)
	}
	return text, nil
}

// userIdentity is a user's certificate and key, in PEM.
type userIdentity struct {
	certificate, key []byte
	ends             time.Time
}

// certificate has the cluster sign a certificate, and removes the request afterwards.
func (c *Cluster) certificate(ctx context.Context, u User) (out userIdentity, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout+signTimeout)
	defer cancel()
	key, request, err := newRequest(u.Name)
	if err != nil {
		return out, errs.E(errs.Internal, "request", "certificate", err)
	}
	seconds := int32(max(u.Valid, shortestCertificate).Seconds())
	requests := c.dynamic.Resource(certificatesv1.SchemeGroupVersion.WithResource("certificatesigningrequests"))
	name := requestName(u.Name)
	asked, err := toUnstructured(certificatesv1.CertificateSigningRequest{
		TypeMeta:   metav1.TypeMeta{APIVersion: certificatesv1.SchemeGroupVersion.String(), Kind: "CertificateSigningRequest"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: request, SignerName: certificatesv1.KubeAPIServerClientSignerName, ExpirationSeconds: &seconds,
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
	})
	if err != nil {
		return out, err
	}
	stored, err := requests.Create(ctx, asked, metav1.CreateOptions{FieldManager: FieldManager})
	if err != nil {
		return out, Classify("request", "a certificate for user "+u.Name, err)
	}
	defer func() { // also if ctx has ended; the cluster itself removes old requests within a day
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.options.Timeout)
		defer cancel()
		_ = requests.Delete(ctx, name, metav1.DeleteOptions{})
	}()
	if err := approve(ctx, requests, stored); err != nil {
		return out, Classify("approve", "the certificate of user "+u.Name, err)
	}
	if out.certificate, err = signed(ctx, requests, name); err != nil {
		return out, Classify("sign", "the certificate of user "+u.Name, err)
	}
	block, _ := pem.Decode(out.certificate)
	if block == nil {
		return out, errs.E(errs.Unavailable, "read", "the certificate of user "+u.Name, errors.New("the cluster's answer is not PEM"))
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return out, errs.E(errs.Unavailable, "read", "the certificate of user "+u.Name, err)
	}
	out.key, out.ends = key, leaf.NotAfter
	return out, nil
}

// requestName returns a new name for a request.
func requestName(user string) string {
	name := "emco-" + notInName.ReplaceAllString(user, "-") + "-user-csr-" + rand.Text()[:8]
	return strings.ToLower(name)
}

// newRequest makes a key and a request to sign it for a user, both in PEM.
func newRequest(user string) (key, request []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: user}}, private)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: csr}), nil
}

// approve approves a request that was just created.
func approve(ctx context.Context, requests dynamic.ResourceInterface, stored *unstructured.Unstructured) error {
	var request certificatesv1.CertificateSigningRequest
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(stored.Object, &request); err != nil {
		return err
	}
	request.Status.Conditions = append(request.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "LogicalCloud",
		Message: "EMCO approves the user of a logical cloud", LastUpdateTime: metav1.Now(),
	})
	approved, err := toUnstructured(request)
	if err != nil {
		return err
	}
	_, err = requests.Update(ctx, approved, metav1.UpdateOptions{FieldManager: FieldManager}, "approval")
	return err
}

// signed waits for the certificate of a request.
func signed(ctx context.Context, requests dynamic.ResourceInterface, name string) (certificate []byte, err error) {
	err = wait.PollUntilContextTimeout(ctx, signPoll, signTimeout, true, func(ctx context.Context) (bool, error) {
		now, err := requests.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		var request certificatesv1.CertificateSigningRequest
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(now.Object, &request); err != nil {
			return false, err
		}
		for _, c := range request.Status.Conditions {
			if c.Type == certificatesv1.CertificateDenied || c.Type == certificatesv1.CertificateFailed {
				return false, errs.E(errs.Forbidden, "sign", name, fmt.Errorf("%s: %s", c.Reason, c.Message))
			}
		}
		certificate = request.Status.Certificate
		return len(certificate) > 0, nil
	})
	if wait.Interrupted(err) {
		err = errs.E(errs.Unavailable, "sign", name, fmt.Errorf("the cluster signed no certificate within %s; its controller manager signs for %s unless it is set up otherwise", signTimeout, certificatesv1.KubeAPIServerClientSignerName))
	}
	return certificate, err
}

// toUnstructured converts a typed object.
func toUnstructured[T any](o T) (*unstructured.Unstructured, error) {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&o)
	if err != nil {
		return nil, errs.E(errs.Internal, "encode", "certificate request", err)
	}
	return &unstructured.Unstructured{Object: object}, nil
}
