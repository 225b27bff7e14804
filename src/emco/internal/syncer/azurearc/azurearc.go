// Package azurearc is the sync backend "azureArcV2". It plans the files of a target as "git"
// does. After the commit it makes calls to Azure's resource manager, which point the Flux of
// an Arc-enabled cluster at the files.
//
//	Git     clusters/<provider>+<cluster>/context/<id>/app/<app>/<name>+<Kind>.yaml
//	Azure   …/connectedClusters/<arcCluster>/…/fluxConfigurations/config-<id>
//	            kustomization per app, with the path of the app's directory
//
// Each deployment on a cluster has its own configuration, and so belongs to one logical
// cloud. The backend writes it when apps are added or removed, not when their content
// changes, because Azure limits writes.
package azurearc

import (
	"encoding/base64"
	"errors"
	"net/url"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/emco-orchestrator/emco/src/api/errs"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncer/azurearc/arm"
	"github.com/emco-orchestrator/emco/src/emco/internal/syncobjects"
	"github.com/emco-orchestrator/emco/src/git"
)

// Options are read from the cluster's sync objects.
type Options struct {
	// Tenant, Client and Secret or Certificate are the identity in Microsoft Entra that
	// may write configurations of the cluster. Without Secret and Certificate it is the
	// workload identity of the installation, if that has one.
	Tenant      string     `json:"tenantID,omitempty"`
	Client      string     `json:"clientID,omitempty"`
	Secret      git.Secret `json:"clientSecret,omitempty"`
	Certificate git.Secret `json:"clientCertificate,omitempty"`

	// Subscription, Group and Cluster name the Arc-enabled cluster.
	Subscription string `json:"subscriptionID,omitempty"`
	Group        string `json:"arcResourceGroup,omitempty"`
	Cluster      string `json:"arcCluster,omitempty"`

	// Timeout, Interval and Retry are those of Flux on the edge; default 60 s.
	Timeout  syncobjects.Duration `json:"timeOut,omitempty"`
	Interval syncobjects.Duration `json:"syncInterval,omitempty"`
	Retry    syncobjects.Duration `json:"retryInterval,omitempty"`

	// SecretRef names the Secret on the edge with the credential for a private repository.
	SecretRef string `json:"secretRef,omitempty"`
	// ReadUser and ReadToken, or ReadKey and ReadHosts, are a read credential that Azure
	// transfers to the edge, encrypted. The control plane never sends its own credential.
	ReadUser  string     `json:"readUserName,omitempty"`
	ReadToken git.Secret `json:"readToken,omitempty"`
	ReadKey   git.Secret `json:"readSSHKey,omitempty"`
	ReadHosts string     `json:"readKnownHosts,omitempty"`

	// Scope is cluster or namespace, the scope of objects of apps; default: namespace for
	// a confined logical cloud, else cluster.
	Scope string `json:"scope,omitempty"`
	// Namespace is the namespace of Flux's objects on the edge, and that of the apps if
	// Scope is namespace; default: that of a confined logical cloud, else flux-system.
	Namespace string `json:"namespace,omitempty"`
	// Extension is "ensure" if EMCO must install microsoft.flux where it is missing.
	Extension string `json:"fluxExtension,omitempty"`
}

// Platform opens backends that share connections, tokens, budgets and content.
type Platform struct {
	azure  *arm.Client
	writer *syncer.Writer
}

// NewPlatform returns a platform on a client. If that is nil, backends plan, and refuse to
// bootstrap.
func NewPlatform(azure *arm.Client) *Platform {
	return &Platform{azure: azure, writer: syncer.NewWriter(syncer.Keep())}
}

// Open returns the backend for the options of a cluster.
func (p *Platform) Open(o Options) (syncer.Backend, error) {
	if err := o.check(); err != nil {
		return nil, errs.E(errs.Invalid, "open", "sync backend azureArcV2", err)
	}
	b := backend{platform: p, o: o}
	if p.azure == nil {
		return b, nil
	}
	_, err := p.azure.Account(o.identity(), o.Subscription) // reports a wrong identity at registration
	return b, err
}

func (o Options) identity() arm.Identity {
	return arm.Identity{Tenant: o.Tenant, Client: o.Client, Secret: o.Secret, Certificate: o.Certificate}
}

// check reports what is missing or wrong, as far as it can without Azure.
func (o Options) check() error {
	var missing []string
	for _, need := range []struct{ key, value string }{
		{"arcCluster", o.Cluster},
		{"arcResourceGroup", o.Group},
		{"clientID", o.Client},
		{"subscriptionID", o.Subscription},
		{"tenantID", o.Tenant},
	} {
		if need.value == "" {
			missing = append(missing, need.key)
		}
	}
	if len(missing) > 0 {
		return errors.New("these keys are missing: " + strings.Join(missing, ", "))
	}
	return errors.Join(o.checkNames(), o.checkReading())
}

func (o Options) checkNames() error {
	for key, name := range map[string]string{"subscriptionID": o.Subscription, "arcResourceGroup": o.Group, "arcCluster": o.Cluster} {
		if url.PathEscape(name) != name || strings.Trim(name, ".") == "" {
			return errors.New(key + " is not a name in Azure")
		}
	}
	for key, name := range map[string]string{"namespace": o.Namespace, "secretRef": o.SecretRef} {
		if name != "" && len(validation.IsDNS1123Subdomain(name)) > 0 {
			return errors.New(key + " is not a name for a Kubernetes object")
		}
	}
	switch {
	case o.Scope != "" && o.Scope != "cluster" && o.Scope != "namespace":
		return errors.New("scope must be cluster or namespace")
	case o.Extension != "" && o.Extension != "ensure":
		return errors.New("fluxExtension must be ensure or absent")
	}
	return nil
}

// checkReading refuses more than one read credential: Flux would pick any.
func (o Options) checkReading() error {
	sorts := 0
	for _, given := range []bool{o.SecretRef != "", o.ReadToken != "", o.ReadKey != ""} {
		if given {
			sorts++
		}
	}
	switch {
	case sorts > 1:
		return errors.New("give one of secretRef, readToken and readSSHKey")
	case o.ReadToken != "" && o.ReadUser == "":
		return errors.New("readToken needs readUserName")
	case o.ReadKey != "" && o.ReadHosts == "":
		return errors.New("readSSHKey needs readKnownHosts")
	}
	return nil
}

// backend is the backend of one cluster.
type backend struct {
	platform *Platform
	o        Options
}

// Plan makes the target's directory hold the files of the apps.
func (b backend) Plan(t syncer.Target, apps []syncer.App) (syncer.Change, error) {
	files, err := b.platform.writer.Tree(apps)
	if err != nil {
		return syncer.Change{}, err
	}
	return syncer.Change{Edits: []git.Edit{syncer.EditDir(t.Dir(), files)}}, nil
}

// seconds returns a timing in Azure's unit.
func seconds(d syncobjects.Duration) int64 {
	return int64(d.Or(syncobjects.DefaultInterval) / time.Second)
}

func encoded(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
