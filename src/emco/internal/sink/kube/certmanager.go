package kube

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v2 "github.com/emco-orchestrator/emco/src/api/v2"
	"github.com/emco-orchestrator/emco/src/emco/internal/manifest"
)

const (
	// requestPage is how many CertificateRequests one answer holds; each may be some 30 KiB.
	requestPage = 200
	// maxRequests bounds the CertificateRequests that are read.
	maxRequests = 10_000
)

var certificateRequests = schema.GroupVersionResource{Group: v2.CertManagerGroup, Version: "v1", Resource: "certificaterequests"}

// CertificateRequest is what an issuer of cert-manager made of a request.
type CertificateRequest struct {
	Certificate []byte // with the intermediate ones, in PEM; empty: none yet
	CA          []byte // that signed it, in PEM; may be empty
	Problem     string // why there is no certificate
}

// CertificateRequests returns the CertificateRequests of an app in a namespace, by name.
func (c *Cluster) CertificateRequests(ctx context.Context, namespace string, deployment v2.DeploymentID, app string) (map[string]CertificateRequest, error) {
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	key, value := manifest.DeploymentLabel(deployment, app)
	out, next := map[string]CertificateRequest{}, ""
	for {
		list, err := c.dynamic.Resource(certificateRequests).Namespace(namespace).List(ctx, metav1.ListOptions{LabelSelector: key + "=" + value, Limit: requestPage, Continue: next})
		if err != nil {
			return nil, Classify("list", "CertificateRequests in namespace "+namespace, err)
		}
		for _, r := range list.Items {
			if out[r.GetName()], err = readRequest(r); err != nil {
				return nil, Classify("read", "CertificateRequest "+namespace+"/"+r.GetName(), err)
			}
		}
		if next = list.GetContinue(); next == "" || len(out) > maxRequests {
			return out, nil
		}
	}
}

// readRequest reads the certificate, or why there is none, from a CertificateRequest.
func readRequest(r unstructured.Unstructured) (CertificateRequest, error) {
	var typed struct {
		Status struct {
			Conditions  []metav1.Condition `json:"conditions"`
			Certificate []byte             `json:"certificate"`
			CA          []byte             `json:"ca"`
		} `json:"status"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(r.Object, &typed); err != nil {
		return CertificateRequest{}, err
	}
	out := CertificateRequest{Certificate: typed.Status.Certificate, CA: typed.Status.CA}
	if len(out.Certificate) > 0 {
		return out, nil
	}
	for _, c := range typed.Status.Conditions {
		if c.Type == "Ready" || c.Type == "Denied" && c.Status == metav1.ConditionTrue {
			out.Problem = fmt.Sprintf("%s: %s", c.Reason, c.Message)
		}
	}
	return out, nil
}
