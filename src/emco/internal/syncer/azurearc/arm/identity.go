package arm

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"github.com/emco-orchestrator/emco/src/api/errs"
)

// public is the authority that the identity library knows; it must not look up others.
const public = "https://login.microsoftonline.com"

// credential returns the source of tokens of an identity.
func (c *Client) credential(id Identity) (azcore.TokenCredential, error) {
	base, custom := c.clientOptions(), c.options.Authority != public
	switch {
	case id.Secret != "" && id.Certificate != "":
		return nil, errs.New(errs.Invalid, "give clientSecret or clientCertificate, not both")
	case id.Secret != "":
		o := azidentity.ClientSecretCredentialOptions{ClientOptions: base, DisableInstanceDiscovery: custom}
		return credential(azidentity.NewClientSecretCredential(id.Tenant, id.Client, id.Secret.Reveal(), &o))
	case id.Certificate != "":
		return certified(id, azidentity.ClientCertificateCredentialOptions{
			ClientOptions: base, DisableInstanceDiscovery: custom, SendCertificateChain: true,
		})
	case c.options.TokenFile != "":
		return credential(azidentity.NewWorkloadIdentityCredential(&azidentity.WorkloadIdentityCredentialOptions{
			ClientOptions: base, DisableInstanceDiscovery: custom,
			ClientID: id.Client, TenantID: id.Tenant, TokenFilePath: c.options.TokenFile,
		}))
	}
	return nil, errs.New(errs.Invalid, "clientSecret or clientCertificate is missing, and this installation has no workload identity")
}

func certified(id Identity, o azidentity.ClientCertificateCredentialOptions) (azcore.TokenCredential, error) {
	chain, key, err := azidentity.ParseCertificates([]byte(id.Certificate.Reveal()), nil)
	if err != nil { // its text may quote what it read
		return nil, errs.New(errs.Invalid, "clientCertificate holds no certificate with its private key in PEM")
	}
	return credential(azidentity.NewClientCertificateCredential(id.Tenant, id.Client, chain, key, &o))
}

// credential makes what a constructor refuses Invalid.
func credential[C azcore.TokenCredential](c C, err error) (azcore.TokenCredential, error) {
	if err != nil {
		return nil, errs.E(errs.Invalid, "use", "identity of Azure", err)
	}
	return c, nil
}

// code matches the authority's number of a refusal.
var code = regexp.MustCompile(`AADSTS[0-9]+`)

// unauthenticated returns why there is no token. It shows only the code of the authority's
// answer.
func unauthenticated(err error) error {
	failed, ok := errors.AsType[*azidentity.AuthenticationFailedError](err)
	if !ok || failed.RawResponse == nil {
		return errs.E(errs.Unavailable, "sign in", "to Azure", brief(err))
	}
	r := failed.RawResponse
	switch {
	case r.StatusCode == http.StatusTooManyRequests:
		return errs.Throttle("sign in", "to Azure", retryAfter(r.Header), errors.New("too many requests"))
	case r.StatusCode >= 500:
		return errs.E(errs.Unavailable, "sign in", "to Azure", fmt.Errorf("the authority answers %d", r.StatusCode))
	}
	text, _ := io.ReadAll(io.LimitReader(r.Body, 16<<10))
	why := "the identity is refused"
	if found := code.Find(text); found != nil {
		why += " (" + string(found) + ")"
	}
	return errs.E(errs.Unauthorized, "sign in", "to Azure", errors.New(why+"; look at tenantID, clientID and the secret or certificate"))
}
