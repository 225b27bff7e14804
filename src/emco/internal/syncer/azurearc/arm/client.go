package arm

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"

	"github.com/emco-orchestrator/emco/src/api/outbound"
	"github.com/emco-orchestrator/emco/src/git"
)

// Options configure a Client. Clouds other than the public one have other addresses.
type Options struct {
	Authority string // issues tokens: https://login.microsoftonline.com
	Manager   string // the resource manager: https://management.azure.com
	Audience  string // audience of tokens; Manager if empty
	CA        string // PEM certificates to trust in addition to the system's
	TokenFile string // file with the workload's own token, for identities without a secret; none if empty

	Admit   func(netip.Addr) error // refuses addresses that must not be dialled; nil: those of metadata services
	Timeout time.Duration          // of one request
	Writes  int                    // per hour and account; Azure allows 1,200
}

// Default returns the options for Azure's public cloud.
func Default() Options {
	return Options{
		Authority: "https://login.microsoftonline.com", Manager: "https://management.azure.com",
		Timeout: 30 * time.Second, Writes: 600,
	}
}

// Identity is the identity of requests. Without a secret and a certificate it is the
// workload identity, if Options.TokenFile names its token.
type Identity struct {
	Tenant, Client string
	Secret         git.Secret
	Certificate    git.Secret // certificate and its private key, in PEM
}

// Client holds the accounts of a program. It is safe for concurrent use.
type Client struct {
	options Options
	manager *url.URL
	http    *http.Client

	mu       sync.Mutex
	accounts map[accountKey]*Account // guarded by mu
}

// accountKey is what Azure's limits apply to, and the credential.
type accountKey struct {
	Identity
	subscription string
}

// maxAccounts bounds the cached accounts: changed credentials leave old ones behind.
const maxAccounts = 1000

// New returns a client. It connects to nothing.
func New(o Options) (*Client, error) {
	manager, err := endpoint("resource manager", o.Manager)
	if err != nil {
		return nil, err
	}
	if _, err := endpoint("authority", o.Authority); err != nil {
		return nil, err
	}
	if o.Audience == "" {
		o.Audience = o.Manager
	}
	if o.Admit == nil {
		o.Admit = outbound.Policy{}.Check
	}
	transport, err := transport(o)
	if err != nil {
		return nil, err
	}
	c := &Client{options: o, manager: manager, accounts: map[accountKey]*Account{}}
	c.http = &http.Client{Transport: transport, Timeout: o.Timeout, CheckRedirect: noRedirect}
	return c, nil
}

// noRedirect follows no redirect: neither service redirects, and tokens must not leave.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func endpoint(what, text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return nil, fmt.Errorf("address of Azure's %s: write https://host", what)
	}
	return u, nil
}

func transport(o Options) (*http.Transport, error) {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DialContext = outbound.Dialer(o.Admit).DialContext
	t.MaxConnsPerHost, t.MaxIdleConnsPerHost = 32, 32
	if o.CA == "" {
		return t, nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM([]byte(o.CA)) {
		return nil, errors.New("the CA file for Azure holds no certificate in PEM")
	}
	t.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	return t, nil
}

// Account returns the account of an identity with a subscription. All callers get the same
// account, so that they share its budget. A malformed identity is Invalid.
func (c *Client) Account(id Identity, subscription string) (*Account, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := accountKey{id, subscription}
	if a, ok := c.accounts[key]; ok {
		return a, nil
	}
	tokens, err := c.credential(id)
	if err != nil {
		return nil, err
	}
	if len(c.accounts) >= maxAccounts {
		clear(c.accounts)
	}
	a := c.account(tokens, subscription)
	c.accounts[key] = a
	return a, nil
}

func (c *Client) account(tokens azcore.TokenCredential, subscription string) *Account {
	scope := strings.TrimSuffix(c.options.Audience, "/") + "/.default"
	options := c.clientOptions()
	return &Account{
		manager: c.manager, subscription: subscription,
		pipeline: runtime.NewPipeline("emco", "", runtime.PipelineOptions{
			PerCall:  []policy.Policy{budgetPolicy{newBudget(c.options.Writes), c.manager}},
			PerRetry: []policy.Policy{runtime.NewBearerTokenPolicy(tokens, []string{scope}, nil)},
		}, &options),
	}
}

// clientOptions returns the options of requests to both services. The SDK does not retry:
// the caller does, within the account's budget.
func (c *Client) clientOptions() policy.ClientOptions {
	return policy.ClientOptions{
		Cloud:     cloud.Configuration{ActiveDirectoryAuthorityHost: c.options.Authority},
		Transport: limitedTransport{c.http},
		Retry:     policy.RetryOptions{MaxRetries: -1},
		Telemetry: policy.TelemetryOptions{Disabled: true},
	}
}

// maxAnswer bounds an answer.
const maxAnswer = 4 << 20

// limitedTransport is a transport that cuts answers at maxAnswer.
type limitedTransport struct{ http *http.Client }

// Do implements policy.Transporter.
func (l limitedTransport) Do(req *http.Request) (*http.Response, error) {
	resp, err := l.http.Do(req)
	if err != nil {
		return nil, err
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(resp.Body, maxAnswer), resp.Body}
	return resp, nil
}

// Close drops idle connections.
func (c *Client) Close() error {
	c.http.CloseIdleConnections()
	return nil
}
