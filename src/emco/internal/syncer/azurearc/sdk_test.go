package azurearc_test

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	azarm "github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	sdk "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/kubernetesconfiguration/armkubernetesconfiguration/v2"

	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/azurearc/arctest"
)

// Azure's own client understands what we write and how the server answers, and we
// understand what it writes, so that backend and server do not share an error.
func TestAzuresOwnClientAgrees(t *testing.T) {
	t.Parallel()
	b := newBench(t, options())
	b.bootstrap("web", "db")
	theirs := b.sdk()
	got, err := theirs.Get(t.Context(), arctest.Group, "Microsoft.Kubernetes", "connectedClusters", "site-1", "config-2175235486952720473", nil)
	if err != nil {
		t.Fatal(err)
	}
	p := got.Properties
	if *p.SourceKind != sdk.SourceKindTypeGitRepository || *p.Scope != sdk.ScopeTypeCluster || *p.ProvisioningState != sdk.ProvisioningStateSucceeded {
		t.Errorf("Azure's client reads %v, %v, %v", *p.SourceKind, *p.Scope, *p.ProvisioningState)
	}
	if k := p.Kustomizations["web"]; k == nil || !*k.Prune || *k.SyncIntervalInSeconds != 60 || *p.GitRepository.RepositoryRef.Branch != "main" {
		t.Errorf("Azure's client reads kustomization %+v", k)
	}
	p.Suspend = to.Ptr(true)
	poller, err := theirs.BeginCreateOrUpdate(t.Context(), arctest.Group, "Microsoft.Kubernetes", "connectedClusters", "site-1",
		"config-2175235486952720473", sdk.FluxConfiguration{Properties: p}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for !poller.Done() {
		if _, err := poller.Poll(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := poller.Result(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.bootstrap("web", "db")
	if p, _ := b.Resource("site-1", config); p["suspend"] != false {
		t.Error("what Azure's client wrote was not noticed")
	}
	gone, err := theirs.BeginDelete(t.Context(), arctest.Group, "Microsoft.Kubernetes", "connectedClusters", "site-1", "config-2175235486952720473", nil)
	if err != nil {
		t.Fatal(err)
	}
	for !gone.Done() {
		if _, err := gone.Poll(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if p, _ := b.Resource("site-1", config); p != nil {
		t.Error("what Azure's client deleted is there")
	}
}

// sdk is Azure's client on the server.
func (b *backendFixture) sdk() *sdk.FluxConfigurationsClient {
	b.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(b.CA))
	o := policy.ClientOptions{
		Cloud: cloud.Configuration{
			ActiveDirectoryAuthorityHost: b.URL,
			Services:                     map[cloud.ServiceName]cloud.ServiceConfiguration{cloud.ResourceManager: {Endpoint: b.URL, Audience: b.URL}},
		},
		Transport: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}},
	}
	var credential azcore.TokenCredential
	credential, err := azidentity.NewClientSecretCredential(arctest.Tenant, arctest.Client, arctest.Secret,
		&azidentity.ClientSecretCredentialOptions{ClientOptions: o, DisableInstanceDiscovery: true})
	if err != nil {
		b.Fatal(err)
	}
	c, err := sdk.NewFluxConfigurationsClient(arctest.Subscription, credential, &azarm.ClientOptions{ClientOptions: o, DisableRPRegistration: true})
	if err != nil {
		b.Fatal(err)
	}
	return c
}
