package azurearc

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/azurearc/arm"
)

// configuration is a fluxConfiguration, as far as we write it or read its state. What
// Azure adds of its own is left out when it is compared.
type configuration struct {
	Properties properties `json:"properties"`
}

type properties struct {
	Scope          string                   `json:"scope"`
	Namespace      string                   `json:"namespace"`
	SourceKind     string                   `json:"sourceKind"`
	Suspend        bool                     `json:"suspend"`
	Git            repository               `json:"gitRepository"`
	Kustomizations map[string]kustomization `json:"kustomizations"`
	// Protected is never given back by Azure.
	Protected map[string]string `json:"configurationProtectedSettings,omitempty"`

	State  arm.State `json:"provisioningState,omitempty"` // read only
	Reason string    `json:"errorMessage,omitempty"`      // read only
}

type repository struct {
	URL        string    `json:"url"`
	Ref        reference `json:"repositoryRef"`
	Interval   int64     `json:"syncIntervalInSeconds"`
	Timeout    int64     `json:"timeoutInSeconds"`
	User       string    `json:"httpsUser,omitempty"`
	KnownHosts string    `json:"sshKnownHosts,omitempty"`
	Local      string    `json:"localAuthRef,omitempty"`
}

type reference struct {
	Branch string `json:"branch"`
}

type kustomization struct {
	Path     string `json:"path"`
	Prune    bool   `json:"prune"`
	Force    bool   `json:"force"`
	Interval int64  `json:"syncIntervalInSeconds"`
	Retry    int64  `json:"retryIntervalInSeconds"`
	Timeout  int64  `json:"timeoutInSeconds"`
}

// Lengths of names. Flux on the edge calls a Kustomization "<configuration>-<kustomization>"
// and puts that on all objects as the value of a label.
const (
	maxLabel = 63
	minApp   = 20 // of the name of a kustomization
)

// name is EMCO's.
func name(t syncer.Target) string {
	return short("config-"+strings.ToLower(string(t.Deployment)), maxLabel-minApp-1)
}

// short returns s as a name that Azure and Kubernetes take, of at most limit bytes; what
// has to be rewritten is told apart by a hash.
func short(s string, limit int) string {
	if len(s) <= limit && len(validation.IsDNS1123Label(s)) == 0 {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	plain := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(s))
	plain = strings.Trim(plain[:min(len(plain), limit-9)], "-")
	return strings.TrimLeft(plain+"-", "-") + hex.EncodeToString(sum[:])[:8]
}

// desired is the configuration of a target with the given apps.
func (b backend) desired(t syncer.Target, apps []string) (configuration, error) {
	o := b.o
	scope, namespace := o.bounds(t)
	p := properties{
		Scope: scope, Namespace: namespace, SourceKind: "GitRepository",
		Git: repository{
			URL: t.Repo.URL, Ref: reference{t.Repo.Branch}, Interval: seconds(o.Interval), Timeout: seconds(o.Timeout),
			User: o.ReadUser, Local: o.SecretRef,
		},
		Kustomizations: map[string]kustomization{},
	}
	if o.ReadHosts != "" {
		p.Git.KnownHosts = encoded(o.ReadHosts)
	}
	p.Protected = o.protected()
	for _, app := range apps {
		dir, err := t.AppDir(app)
		if err != nil {
			return configuration{}, err
		}
		p.Kustomizations[short(app, maxLabel-1-len(name(t)))] = kustomization{
			Path: "./" + dir, Prune: true, Interval: seconds(o.Interval), Retry: seconds(o.Retry), Timeout: seconds(o.Timeout),
		}
	}
	return configuration{p}, nil
}

// bounds say what the apps of a target may touch, and where Flux's objects are.
func (o Options) bounds(t syncer.Target) (scope, namespace string) {
	if t.Cloud.Confined && t.Namespace != "" {
		scope, namespace = "namespace", t.Namespace
	}
	return cmp.Or(o.Scope, scope, "cluster"), cmp.Or(o.Namespace, namespace, "flux-system")
}

// protected are the settings that Azure seals and gives to the edge alone.
func (o Options) protected() map[string]string {
	switch {
	case o.ReadToken != "":
		return map[string]string{"httpsKey": encoded(o.ReadToken.Reveal())}
	case o.ReadKey != "":
		return map[string]string{"sshPrivateKey": encoded(o.ReadKey.Reveal())}
	}
	return nil
}

// like reports whether Azure has what is wanted. Sealed settings cannot be seen.
func (c configuration) like(want configuration) bool {
	a, b := c.Properties, want.Properties
	return strings.EqualFold(a.Scope, b.Scope) && a.Namespace == b.Namespace && strings.EqualFold(a.SourceKind, b.SourceKind) &&
		a.Suspend == b.Suspend && a.Git == b.Git && maps.Equal(a.Kustomizations, b.Kustomizations)
}

func parse(body []byte) (configuration, error) {
	var c configuration
	err := json.Unmarshal(body, &c)
	return c, err
}
