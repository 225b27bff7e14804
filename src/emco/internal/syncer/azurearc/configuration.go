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

// configuration is the part of a fluxConfiguration that EMCO writes or reads. Comparisons
// ignore what Azure adds.
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
	// Protected is write-only.
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

// Lengths of names. Flux on the edge names a Kustomization "<configuration>-<kustomization>"
// and labels all objects with that.
const (
	maxLabel = 63
	minApp   = 20 // of the name of a kustomization
)

// name returns EMCO's name for the configuration of a target.
func name(t syncer.Target) string {
	return short("config-"+strings.ToLower(string(t.Deployment)), maxLabel-minApp-1)
}

// short returns s as a name of at most limit bytes that is valid in Azure and Kubernetes;
// rewritten names get a hash.
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

// desired returns the configuration of a target with the given apps.
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

// bounds returns the scope of a target's apps, and the namespace of Flux's objects.
func (o Options) bounds(t syncer.Target) (scope, namespace string) {
	if t.Cloud.Confined && t.Namespace != "" {
		scope, namespace = "namespace", t.Namespace
	}
	return cmp.Or(o.Scope, scope, "cluster"), cmp.Or(o.Namespace, namespace, "flux-system")
}

// protected returns the settings that Azure encrypts and transfers only to the edge.
func (o Options) protected() map[string]string {
	switch {
	case o.ReadToken != "":
		return map[string]string{"httpsKey": encoded(o.ReadToken.Reveal())}
	case o.ReadKey != "":
		return map[string]string{"sshPrivateKey": encoded(o.ReadKey.Reveal())}
	}
	return nil
}

// like reports whether Azure has the desired configuration, except for protected settings,
// which cannot be read.
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
