package clm

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/url"

	"sigs.k8s.io/yaml"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/api/outbound"
	v2 "github.com/emco-orchestrator/emco/src/api/v2"
)

// kubeconfig has the members of a kubeconfig that we use. Byte slices are base64 in the
// file.
type kubeconfig struct {
	Current  string         `json:"current-context"`
	Contexts []namedContext `json:"contexts"`
	Clusters []namedCluster `json:"clusters"`
	Users    []namedUser    `json:"users"`
}

type namedContext struct {
	Name    string `json:"name"`
	Context struct {
		Cluster   string `json:"cluster"`
		User      string `json:"user"`
		Namespace string `json:"namespace,omitempty"`
	} `json:"context"`
}

type namedCluster struct {
	Name    string    `json:"name"`
	Cluster apiServer `json:"cluster"`
}

type apiServer struct {
	Server   string `json:"server"`
	CA       []byte `json:"certificate-authority-data"`
	CAFile   string `json:"certificate-authority"`
	Insecure bool   `json:"insecure-skip-tls-verify"`
	Proxy    string `json:"proxy-url"`
}

type namedUser struct {
	Name string          `json:"name"`
	User userCredentials `json:"user"`
}

type userCredentials struct {
	Token     string    `json:"token"`
	Username  string    `json:"username"`
	Password  string    `json:"password"`
	Cert      []byte    `json:"client-certificate-data"`
	Key       []byte    `json:"client-key-data"`
	TokenFile string    `json:"tokenFile"`
	CertFile  string    `json:"client-certificate"`
	KeyFile   string    `json:"client-key"`
	As        string    `json:"as"`
	AsUID     string    `json:"as-uid"`
	AsGroups  []string  `json:"as-groups"`
	Exec      *struct{} `json:"exec"`
	Provider  *struct{} `json:"auth-provider"`
}

// checkKubeconfig refuses what a control plane must not use: users supply kubeconfigs,
// which could run programs or read files here. It checks every entry, not only the current
// one. Errors contain no credentials.
func checkKubeconfig(text []byte, p outbound.Policy) error {
	if user, ok := masked(text); ok {
		return invalid("user %q: a credential is %s, as answers show it; give the credential itself", user, v2.Mask)
	}
	k, err := parse(text)
	if err != nil {
		return invalid("is not the YAML of a kubeconfig, or has a key twice")
	}
	for _, c := range k.Clusters {
		if why := c.Cluster.fault(p); why != "" {
			return invalid("cluster %q: %s", c.Name, why)
		}
	}
	for _, u := range k.Users {
		if why := u.User.fault(); why != "" {
			return invalid("user %q: %s", u.Name, why)
		}
	}
	return k.usable()
}

// parse reads a kubeconfig. Its errors may quote content and must not reach clients.
func parse(text []byte) (k kubeconfig, err error) {
	plain, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return k, err
	}
	return k, json.Unmarshal(plain, &k)
}

func invalid(format string, args ...any) error {
	return errs.New(errs.Invalid, "Invalid Input:\n- file: kubeconfig: "+fmt.Sprintf(format, args...))
}

// usable checks that the current context leads to a server and credentials.
func (k kubeconfig) usable() error {
	if k.Current == "" {
		return invalid("has no current-context")
	}
	for _, c := range k.Contexts {
		if c.Name != k.Current {
			continue
		}
		server, user := k.server(c.Context.Cluster), k.user(c.Context.User)
		switch {
		case server == nil:
			return invalid("context %q names cluster %q, which is missing", c.Name, c.Context.Cluster)
		case user == nil:
			return invalid("context %q names user %q, which is missing", c.Name, c.Context.User)
		case !user.any():
			return invalid("user %q has no credentials; give a token, or a client certificate and key, as data", c.Context.User)
		}
		return nil
	}
	return invalid("current-context %q is missing", k.Current)
}

func (k kubeconfig) server(name string) *apiServer {
	for i := range k.Clusters {
		if k.Clusters[i].Name == name {
			return &k.Clusters[i].Cluster
		}
	}
	return nil
}

func (k kubeconfig) user(name string) *userCredentials {
	for i := range k.Users {
		if k.Users[i].Name == name {
			return &k.Users[i].User
		}
	}
	return nil
}

// fault returns why the API server cannot be used, or "".
func (s apiServer) fault(p outbound.Policy) string {
	if s.Server == "" {
		return "server is missing"
	}
	if why := badAddress(s.Server, p); why != "" {
		return "server: " + why
	}
	switch {
	case s.Proxy != "":
		return "proxy-url is not allowed: credentials go to the API server only; the operator's HTTPS_PROXY reaches servers behind a proxy"
	case s.Insecure:
		return "insecure-skip-tls-verify is not allowed; give the authority that signed the server's certificate as certificate-authority-data"
	case s.CAFile != "":
		return "certificate-authority is a file on your disk; give its content as certificate-authority-data (kubectl config view --flatten --raw)"
	case len(s.CA) > 0 && !x509.NewCertPool().AppendCertsFromPEM(s.CA):
		return "certificate-authority-data holds no PEM certificate"
	}
	return ""
}

func badAddress(text string, p outbound.Policy) string {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return "is not an https URL"
	case u.User != nil:
		return "holds credentials; give them to the user"
	case u.Scheme == "http":
		return "must be https: credentials would travel in the clear"
	}
	if err := p.CheckHost(u.Hostname()); err != nil {
		return err.Error()
	}
	return ""
}

func (c userCredentials) any() bool {
	return c.Token != "" || len(c.Cert) > 0 || c.Username != "" && c.Password != ""
}

// fault returns why the credentials cannot be used, or "".
func (c userCredentials) fault() string {
	switch {
	case c.Exec != nil:
		return "exec is not allowed: programs are not run here; give a token of a service account instead"
	case c.Provider != nil:
		return "auth-provider is not allowed; give a token of a service account instead"
	case c.As == "" && (c.AsUID != "" || len(c.AsGroups) > 0):
		return "as-uid and as-groups need as, the user to act as"
	case c.TokenFile != "":
		return "tokenFile is a file on your disk; give its content as token"
	case c.CertFile != "" || c.KeyFile != "":
		return "client-certificate and client-key are files on your disk; give their content as client-certificate-data and client-key-data (kubectl config view --flatten --raw)"
	case (len(c.Cert) > 0) != (len(c.Key) > 0):
		return "client-certificate-data and client-key-data go together"
	}
	if len(c.Cert) > 0 {
		if _, err := tls.X509KeyPair(c.Cert, c.Key); err != nil {
			return "client-certificate-data and client-key-data are no matching pair of PEM certificate and key"
		}
	}
	return ""
}

// redactedKubeconfig is a kubeconfig without secrets. It copies public members only, so
// unknown ones are dropped.
type redactedKubeconfig struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Current    string            `json:"current-context"`
	Contexts   []namedContext    `json:"contexts"`
	Clusters   []redactedCluster `json:"clusters"`
	Users      []redactedUser    `json:"users"`
}

type redactedCluster struct {
	Name    string `json:"name"`
	Cluster struct {
		Server string `json:"server"`
		CA     []byte `json:"certificate-authority-data,omitempty"`
	} `json:"cluster"`
}

type redactedUser struct {
	Name string `json:"name"`
	User struct {
		Token    string `json:"token,omitempty"`
		Username string `json:"username,omitempty"`
		Password string `json:"password,omitempty"`
		Cert     []byte `json:"client-certificate-data,omitempty"`
		Key      string `json:"client-key-data,omitempty"`
	} `json:"user"`
}

// redact returns a kubeconfig with all secrets masked.
func redact(text []byte) []byte {
	k, err := parse(text)
	if err != nil {
		return []byte(v2.Mask + "\n")
	}
	out := redactedKubeconfig{APIVersion: "v1", Kind: "Config", Current: k.Current, Contexts: k.Contexts}
	for _, c := range k.Clusters {
		s := redactedCluster{Name: c.Name}
		s.Cluster.Server, s.Cluster.CA = c.Cluster.Server, c.Cluster.CA
		out.Clusters = append(out.Clusters, s)
	}
	for _, u := range k.Users {
		s := redactedUser{Name: u.Name}
		s.User.Username, s.User.Cert = u.User.Username, u.User.Cert
		s.User.Token, s.User.Password, s.User.Key = mask(u.User.Token), mask(u.User.Password), mask(string(u.User.Key))
		out.Users = append(out.Users, s)
	}
	shown, err := yaml.Marshal(out)
	if err != nil {
		return []byte(v2.Mask + "\n")
	}
	return shown
}

// masked returns a user whose credential is masked in a kubeconfig.
func masked(text []byte) (user string, ok bool) {
	var k redactedKubeconfig
	if yaml.Unmarshal(text, &k) != nil {
		return "", false
	}
	for _, u := range k.Users {
		if u.User.Token == v2.Mask || u.User.Password == v2.Mask || u.User.Key == v2.Mask {
			return u.Name, true
		}
	}
	return "", false
}

func mask(secret string) string {
	if secret == "" {
		return ""
	}
	return v2.Mask
}
